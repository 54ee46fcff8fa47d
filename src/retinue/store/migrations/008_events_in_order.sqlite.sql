-- Events are stored in the order in which they are written, with an index of their runs: to append to a table that is
-- sorted by runs itself, SQLite rewrites several pages each time.

ALTER TABLE events RENAME TO former_events;

CREATE TABLE events (
    run_id VARCHAR(64) NOT NULL,
    seq INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    at FLOAT NOT NULL,
    kind VARCHAR(16) NOT NULL,
    payload TEXT NOT NULL,
    version SMALLINT DEFAULT 1 NOT NULL,
    PRIMARY KEY (run_id, seq)
);

INSERT INTO events (run_id, seq, epoch, at, kind, payload, version)
SELECT run_id, seq, epoch, at, kind, payload, version FROM former_events ORDER BY run_id, seq;

DROP TABLE former_events;
