-- Sessions and actions are made anew as tables whose rows stand whole in a leaf. In a table without row ids a row of more than
-- some thousand bytes goes on in pages of its own, and these are given back and taken anew with every change of it: three
-- further pages in each commit.
CREATE TABLE session_in_place (
  id          TEXT NOT NULL PRIMARY KEY,
  status      TEXT NOT NULL,
  -- Whether it is stopped or expired. Beside the status, which changes with every turn: an index over a column is written
  -- whenever that column is.
  ended       INTEGER NOT NULL CHECK (ended IN (0, 1)),
  revision    INTEGER NOT NULL,
  created_at  INTEGER NOT NULL,
  state       TEXT NOT NULL,
  seal        BLOB
) STRICT;
-- A row that is what was written is sealed anew, with its new column; one that is not keeps the seal that tells so.
INSERT INTO session_in_place
  SELECT id, status, status IN ('stopped', 'lease_expired'), revision, created_at, state,
         CASE WHEN seal IS row_seal('session', id, status, revision, created_at, state) THEN NULL ELSE seal END
  FROM session;
DROP TABLE session;
ALTER TABLE session_in_place RENAME TO session;
CREATE INDEX session_by_age ON session (created_at DESC, id DESC);
-- Lists of live sessions, newest first, and what a starting executor and the lease reaper look at.
CREATE INDEX session_live_by_age ON session (created_at DESC, id DESC) WHERE ended = 0;
-- What may be pruned.
CREATE INDEX session_ended ON session (status, id) WHERE ended = 1;
-- Expired sessions whose process, or whose subagent's, is still being ended.
CREATE INDEX session_ending ON session (id)
  WHERE status = 'lease_expired' AND json_extract(state, '$.ending') IS NOT NULL;
CREATE INDEX session_with_subagent ON session (id)
  WHERE status = 'lease_expired' AND json_extract(state, '$.subagent') IS NOT NULL;

CREATE TABLE action_in_place (
  id             TEXT NOT NULL PRIMARY KEY,
  session_id     TEXT NOT NULL REFERENCES session (id),
  -- Of a call that a reply authorised: its run, its turn, and its place in the reply.
  run_id         TEXT REFERENCES run (id),
  turn_id        TEXT REFERENCES turn (id),
  position       INTEGER,
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
  receipt_sha256 TEXT,
  -- Of a write that was prepared: what was there, and what shall be, as JSON.
  intent         TEXT,
  -- Of an undo: the action that it undoes.
  reverts        TEXT,
  -- Of an action of a subagent: whose.
  subagent_id    TEXT,
  seal           BLOB
) STRICT;
INSERT INTO action_in_place
  SELECT id, session_id, run_id, turn_id, position, name, client_id, input, input_sha256, budget, state, authorised_at,
         finished_at, ok, code, receipt, receipt_sha256, intent, reverts, subagent_id, seal
  FROM action;
DROP TABLE action;
ALTER TABLE action_in_place RENAME TO action;
CREATE UNIQUE INDEX action_by_turn ON action (turn_id, position) WHERE turn_id IS NOT NULL;
CREATE INDEX action_by_session ON action (session_id, authorised_at);
-- A starting executor asks for what was interrupted.
CREATE INDEX action_prepared ON action (authorised_at) WHERE state = 'prepared';
CREATE INDEX action_by_subagent ON action (subagent_id, authorised_at) WHERE subagent_id IS NOT NULL;
-- What the operator did under an id of a request: few among many actions.
CREATE INDEX action_operation ON action (session_id, name) WHERE run_id IS NULL;
-- Actions that have changed or would have changed a file.
CREATE INDEX action_write ON action (session_id, id) WHERE intent IS NOT NULL;
