-- Bytes that a row holds free for what its action's end adds (a status, a time, a code).
-- A row that grows splits its page; one that keeps its length is written over in place.

ALTER TABLE action ADD COLUMN spare BLOB;
