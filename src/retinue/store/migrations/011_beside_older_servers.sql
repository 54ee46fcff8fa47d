-- Which migrations an older server may have the database open beside. Null: it may not.

ALTER TABLE versions ADD COLUMN compatible BOOLEAN;
