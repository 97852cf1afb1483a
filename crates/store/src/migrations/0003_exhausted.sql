-- Whether what a scope is closed for is a used-up quota, and no rate.

ALTER TABLE scope ADD COLUMN exhausted INTEGER NOT NULL DEFAULT 0;
