-- How often what a task has in hand was told to stop: a default task goes on after
-- that, and what it had in hand must not.

ALTER TABLE task ADD COLUMN stops INTEGER NOT NULL DEFAULT 0;
