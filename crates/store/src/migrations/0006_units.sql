-- What a send drew beside calls (tokens, points, money), and the limits that headers
-- told of a scope. Both as their records have them; none where there is nothing.

ALTER TABLE attempt ADD COLUMN units BLOB;
ALTER TABLE scope ADD COLUMN told BLOB;
