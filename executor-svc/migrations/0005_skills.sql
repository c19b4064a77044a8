-- The instructions of the skills that a session carries, as they were when it started.
CREATE TABLE skill (
  session_id      TEXT NOT NULL REFERENCES session (id),
  position        INTEGER NOT NULL,
  skill_id        TEXT NOT NULL,
  -- Of the whole normalised SKILL.md, of which the body is a part.
  content_sha256  TEXT NOT NULL,
  body            TEXT NOT NULL,
  PRIMARY KEY (session_id, position)
) STRICT;
CREATE TRIGGER skill_is_frozen BEFORE UPDATE ON skill
  BEGIN SELECT RAISE(ABORT, 'a snapshot never changes'); END;
