-- The servers that have the database open, and what each of them works on.

CREATE TABLE processes (
    id VARCHAR(64) NOT NULL,
    seen_at FLOAT NOT NULL,
    PRIMARY KEY (id)
);

ALTER TABLE vector_store_files ADD COLUMN indexer VARCHAR(64);

CREATE INDEX runs_of_driver ON runs (driver, status);
