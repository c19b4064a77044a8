-- Everything that the gateway must not forget. One writer thread; readers see whole transactions.

-- The materialised state of each session: the session machine's own value, as JSON.
CREATE TABLE session (
  id          TEXT PRIMARY KEY,
  status      TEXT NOT NULL,
  revision    INTEGER NOT NULL,
  created_at  INTEGER NOT NULL,
  state       TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX session_by_age ON session (created_at DESC, id DESC);
-- What a starting executor and the lease reaper look at: everything that is not at rest.
CREATE INDEX session_live ON session (status) WHERE status NOT IN ('stopped', 'lease_expired');

-- Expired sessions whose process is still being ended; a starting executor goes on with that.
CREATE INDEX session_ending ON session (id)
  WHERE status = 'lease_expired' AND json_extract(state, '$.ending') IS NOT NULL;

-- The one idempotency primitive: a key means the same thing for ever.
CREATE TABLE once (
  scope         TEXT NOT NULL,
  key           TEXT NOT NULL,
  content_hash  TEXT NOT NULL,
  session_id    TEXT NOT NULL,
  -- The lease that this very call minted, if it minted one.
  lease_id      TEXT,
  PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE run (
  id          TEXT PRIMARY KEY,
  session_id  TEXT NOT NULL REFERENCES session (id),
  ordinal     INTEGER NOT NULL,
  epoch       INTEGER NOT NULL,
  prompt      TEXT NOT NULL,
  started_at  INTEGER NOT NULL,
  ended_at    INTEGER,
  -- SHA-256 of the link token; the token itself is nowhere.
  link_hash   TEXT UNIQUE,
  -- pid, start time, executable and nonce of the shim, as JSON.
  identity    TEXT
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX run_by_session ON run (session_id, ordinal);

CREATE TABLE turn (
  id          TEXT PRIMARY KEY,
  session_id  TEXT NOT NULL REFERENCES session (id),
  run_id      TEXT NOT NULL REFERENCES run (id),
  ordinal     INTEGER NOT NULL,
  key         TEXT NOT NULL,
  kind        TEXT NOT NULL,
  request_hash TEXT NOT NULL,
  opened_at   INTEGER NOT NULL,
  state       TEXT NOT NULL CHECK (state IN ('pending', 'answered', 'abandoned')),
  closed_why  TEXT,
  UNIQUE (run_id, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE reply (
  turn_id       TEXT PRIMARY KEY REFERENCES turn (id),
  reply_id      TEXT NOT NULL,
  text          TEXT NOT NULL,
  committed_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE action (
  id             TEXT PRIMARY KEY,
  session_id     TEXT NOT NULL REFERENCES session (id),
  run_id         TEXT NOT NULL REFERENCES run (id),
  turn_id        TEXT NOT NULL REFERENCES turn (id),
  position       INTEGER NOT NULL,
  name           TEXT NOT NULL,
  client_id      TEXT,
  input          TEXT NOT NULL,
  input_sha256   TEXT NOT NULL,
  budget         INTEGER NOT NULL,
  state          TEXT NOT NULL CHECK (state IN ('authorised', 'prepared', 'performing', 'done')),
  authorised_at  INTEGER NOT NULL,
  finished_at    INTEGER,
  ok             INTEGER,
  code           TEXT,
  receipt        TEXT,
  receipt_sha256 TEXT
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX action_by_turn ON action (turn_id, position);
CREATE INDEX action_by_session ON action (session_id, authorised_at);

-- Append only. Each entry carries the hash of the one before it.
CREATE TABLE journal (
  seq         INTEGER PRIMARY KEY,
  at          INTEGER NOT NULL,
  session_id  TEXT NOT NULL,
  kind        TEXT NOT NULL,
  body        TEXT NOT NULL,
  hash        BLOB NOT NULL
) STRICT;
CREATE INDEX journal_by_session ON journal (session_id, seq);
CREATE TRIGGER journal_is_append_only_update BEFORE UPDATE ON journal
  BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER journal_is_append_only_delete BEFORE DELETE ON journal
  BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
