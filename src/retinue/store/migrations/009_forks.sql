-- Forks are found by the run that they were forked from.

ALTER TABLE runs ADD COLUMN forked_from VARCHAR(64);

CREATE INDEX runs_of_origin ON runs (forked_from);
