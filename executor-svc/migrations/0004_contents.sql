-- Contents of files before and after writes, as far as they are small: committed with the intent that names them.
-- Larger ones are files of their own.
CREATE TABLE content (
  id      INTEGER PRIMARY KEY,
  sha256  BLOB NOT NULL,
  size    INTEGER NOT NULL,
  bytes   BLOB NOT NULL
) STRICT;
-- Counting and listing read this alone, not the bytes.
CREATE UNIQUE INDEX content_by_hash ON content (sha256, size);
