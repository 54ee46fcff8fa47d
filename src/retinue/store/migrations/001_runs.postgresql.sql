-- Assistants, threads, messages and runs with their events; API keys.

CREATE TABLE versions (
    version SERIAL PRIMARY KEY
);

CREATE TABLE assistants (
    number BIGSERIAL PRIMARY KEY,
    tenant VARCHAR(64) NOT NULL,
    id VARCHAR(64) NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    body JSON NOT NULL
);

CREATE TABLE threads (
    number BIGSERIAL PRIMARY KEY,
    tenant VARCHAR(64) NOT NULL,
    id VARCHAR(64) NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    key VARCHAR(256),
    body JSON NOT NULL,
    UNIQUE (tenant, key)
);

CREATE TABLE messages (
    number BIGSERIAL PRIMARY KEY,
    tenant VARCHAR(64) NOT NULL,
    id VARCHAR(64) NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    thread_id VARCHAR(64) NOT NULL,
    run_id VARCHAR(64),
    body JSON NOT NULL
);

CREATE INDEX messages_of_thread ON messages (thread_id, number);

CREATE TABLE runs (
    number BIGSERIAL PRIMARY KEY,
    tenant VARCHAR(64) NOT NULL,
    id VARCHAR(64) NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    thread_id VARCHAR(64),
    status VARCHAR(20) NOT NULL,
    holds BOOLEAN NOT NULL,
    expires_at INTEGER,
    epoch INTEGER NOT NULL,
    request JSON NOT NULL,
    state JSON NOT NULL
);

CREATE INDEX runs_of_thread ON runs (thread_id, number);

CREATE UNIQUE INDEX one_run_at_a_time ON runs (thread_id) WHERE holds;

CREATE INDEX runs_by_status ON runs (status, created_at);

CREATE TABLE events (
    run_id VARCHAR(64) NOT NULL,
    seq INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    at FLOAT NOT NULL,
    kind VARCHAR(16) NOT NULL,
    payload TEXT NOT NULL,
    PRIMARY KEY (run_id, seq)
);

CREATE TABLE keys (
    hash VARCHAR(64) NOT NULL PRIMARY KEY,
    tenant VARCHAR(64) NOT NULL,
    created_at INTEGER NOT NULL
);
