-- Writes, and what the operator does with them. Undoing is an action without a run, so the table is made anew.
CREATE TABLE action_with_intent (
  id             TEXT PRIMARY KEY,
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
  reverts        TEXT
) STRICT, WITHOUT ROWID;
INSERT INTO action_with_intent
  SELECT id, session_id, run_id, turn_id, position, name, client_id, input, input_sha256, budget, state, authorised_at,
         finished_at, ok, code, receipt, receipt_sha256, NULL, NULL FROM action;
DROP TABLE action;
ALTER TABLE action_with_intent RENAME TO action;
CREATE UNIQUE INDEX action_by_turn ON action (turn_id, position) WHERE turn_id IS NOT NULL;
CREATE INDEX action_by_session ON action (session_id, authorised_at);
CREATE INDEX action_prepared ON action (authorised_at) WHERE state = 'prepared';
