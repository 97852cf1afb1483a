-- Attempts of an action that count against no budget: called back before they left,
-- or allowed by a person.

ALTER TABLE action ADD COLUMN uncounted INTEGER NOT NULL DEFAULT 0;
