-- Conversations, files, vector stores and repeated requests; scopes, limits and expiry of API keys; the key of a run.

CREATE TABLE conversations (
    number INTEGER NOT NULL PRIMARY KEY,
    tenant VARCHAR(64) NOT NULL,
    id VARCHAR(64) NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    body JSON NOT NULL
);

CREATE TABLE items (
    number INTEGER NOT NULL PRIMARY KEY,
    tenant VARCHAR(64) NOT NULL,
    id VARCHAR(64) NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    conversation_id VARCHAR(64) NOT NULL,
    item_id VARCHAR(64) NOT NULL,
    run_id VARCHAR(64),
    body JSON NOT NULL,
    UNIQUE (conversation_id, item_id)
);

CREATE INDEX items_of_conversation ON items (conversation_id, number);

CREATE TABLE files (
    number INTEGER NOT NULL PRIMARY KEY,
    tenant VARCHAR(64) NOT NULL,
    id VARCHAR(64) NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    body JSON NOT NULL
);

CREATE TABLE contents (
    tenant VARCHAR(64) NOT NULL,
    id VARCHAR(64) NOT NULL PRIMARY KEY,
    content BLOB NOT NULL
);

CREATE TABLE vector_stores (
    number INTEGER NOT NULL PRIMARY KEY,
    tenant VARCHAR(64) NOT NULL,
    id VARCHAR(64) NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    body JSON NOT NULL
);

CREATE TABLE vector_store_batches (
    number INTEGER NOT NULL PRIMARY KEY,
    tenant VARCHAR(64) NOT NULL,
    id VARCHAR(64) NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    vector_store_id VARCHAR(64) NOT NULL,
    body JSON NOT NULL
);

CREATE TABLE vector_store_files (
    number INTEGER NOT NULL PRIMARY KEY,
    tenant VARCHAR(64) NOT NULL,
    id VARCHAR(64) NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    vector_store_id VARCHAR(64) NOT NULL,
    file_id VARCHAR(64) NOT NULL,
    batch_id VARCHAR(64),
    status VARCHAR(20) NOT NULL,
    usage_bytes INTEGER NOT NULL,
    body JSON NOT NULL,
    UNIQUE (vector_store_id, file_id)
);

CREATE INDEX files_of_batch ON vector_store_files (batch_id);

CREATE INDEX files_by_status ON vector_store_files (status, number);

CREATE TABLE requests (
    tenant VARCHAR(64) NOT NULL,
    key VARCHAR(256) NOT NULL,
    route VARCHAR(256) NOT NULL,
    created_at INTEGER NOT NULL,
    body_hash VARCHAR(64) NOT NULL,
    response JSON,
    PRIMARY KEY (tenant, key, route)
);

ALTER TABLE runs ADD COLUMN key_id VARCHAR(64);

CREATE INDEX runs_of_key ON runs (key_id, status);

-- the first databases of version 1 lack it
CREATE INDEX IF NOT EXISTS runs_by_status ON runs (status, created_at);

ALTER TABLE keys ADD COLUMN id VARCHAR(64);

ALTER TABLE keys ADD COLUMN name VARCHAR(256);

ALTER TABLE keys ADD COLUMN prefix VARCHAR(16);

ALTER TABLE keys ADD COLUMN scopes JSON;

ALTER TABLE keys ADD COLUMN limits JSON;

ALTER TABLE keys ADD COLUMN expires_at INTEGER;

ALTER TABLE keys ADD COLUMN revoked_at INTEGER;

UPDATE keys SET id = 'key_' || substr(hash, 1, 24);
