-- Subagents: isolated sub-sessions with a model of their own. Each has one run, whose turns and actions stand where all others do.
CREATE TABLE subagent (
  id             TEXT PRIMARY KEY,
  session_id     TEXT NOT NULL REFERENCES session (id),
  -- The action that started it.
  started_by     TEXT NOT NULL,
  ordinal        INTEGER NOT NULL,
  grade          TEXT NOT NULL,
  status         TEXT NOT NULL,
  started_at     INTEGER NOT NULL,
  ended_at       INTEGER,
  -- Requests that were begun, and what the provider counted for those that were answered.
  requests       INTEGER NOT NULL DEFAULT 0,
  input_tokens   INTEGER NOT NULL DEFAULT 0,
  output_tokens  INTEGER NOT NULL DEFAULT 0,
  -- The model that answered, as the provider names it.
  model          TEXT,
  model_verified INTEGER,
  -- The turn whose reply is the result.
  result_turn    TEXT,
  -- Why it failed or was stopped, as JSON.
  failure        TEXT,
  seal           BLOB
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX subagent_by_session ON subagent (session_id, ordinal);

-- An answer as it is repeated to the model in the next request: its blocks as JSON, the calls under our ids.
CREATE TABLE subagent_answer (
  turn_id      TEXT PRIMARY KEY REFERENCES turn (id),
  subagent_id  TEXT NOT NULL REFERENCES subagent (id),
  ordinal      INTEGER NOT NULL,
  content      TEXT NOT NULL,
  seal         BLOB
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX subagent_answer_in_order ON subagent_answer (subagent_id, ordinal);

-- Of a run that serves a subagent: which. Only the session's own runs are counted through.
ALTER TABLE run ADD COLUMN subagent_id TEXT REFERENCES subagent (id);
DROP INDEX run_by_session;
CREATE UNIQUE INDEX run_by_session ON run (session_id, ordinal) WHERE subagent_id IS NULL;
CREATE INDEX run_by_start ON run (session_id, started_at, ordinal, id);
CREATE UNIQUE INDEX run_by_subagent ON run (subagent_id) WHERE subagent_id IS NOT NULL;

-- Of an action of a subagent: whose.
ALTER TABLE action ADD COLUMN subagent_id TEXT;
CREATE INDEX action_by_subagent ON action (subagent_id, authorised_at) WHERE subagent_id IS NOT NULL;

-- Expired sessions whose subagent's process is still being ended.
CREATE INDEX session_with_subagent ON session (id)
  WHERE status = 'lease_expired' AND json_extract(state, '$.subagent') IS NOT NULL;
