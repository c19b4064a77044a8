-- Each row carries a seal, the beginning of the SHA-256 over its columns: a byte that changed on the disk is seen when the
-- row is read. The writer sets it; rows of earlier versions get theirs with this migration.
ALTER TABLE session ADD COLUMN seal BLOB;
ALTER TABLE once ADD COLUMN seal BLOB;
ALTER TABLE run ADD COLUMN seal BLOB;
ALTER TABLE turn ADD COLUMN seal BLOB;
ALTER TABLE reply ADD COLUMN seal BLOB;
ALTER TABLE action ADD COLUMN seal BLOB;
ALTER TABLE skill ADD COLUMN seal BLOB;
-- A snapshot never changes; its seal comes after it.
DROP TRIGGER skill_is_frozen;
CREATE TRIGGER skill_is_frozen BEFORE UPDATE OF session_id, position, skill_id, content_sha256, body ON skill
  BEGIN SELECT RAISE(ABORT, 'a snapshot never changes'); END;

-- How many commits have changed anything; a note beside the ledger has the number too, so that a commit that is lost with
-- SQLite's log is missed.
CREATE TABLE tally (
  commits INTEGER NOT NULL
) STRICT;
INSERT INTO tally VALUES (0);

-- Lists of live sessions, newest first, without going through all that ever were.
CREATE INDEX session_live_by_age ON session (created_at DESC, id DESC) WHERE status NOT IN ('stopped', 'lease_expired');
-- What may be pruned.
CREATE INDEX session_ended ON session (status, id) WHERE status IN ('stopped', 'lease_expired');
-- What the operator did under an id of a request: few among many actions.
CREATE INDEX action_operation ON action (session_id, name) WHERE run_id IS NULL;
-- Actions that have changed or would have changed a file.
CREATE INDEX action_write ON action (session_id, id) WHERE intent IS NOT NULL;
-- A session's last pruning.
CREATE INDEX journal_pruned ON journal (session_id, at) WHERE kind = 'session.pruned';
