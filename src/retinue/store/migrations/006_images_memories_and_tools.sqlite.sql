-- Images that runs are shown, what agents remember, and the tools that tenants registered.

CREATE TABLE images (
    tenant VARCHAR(64) NOT NULL,
    id VARCHAR(64) NOT NULL,
    created_at INTEGER NOT NULL,
    media_type VARCHAR(32) NOT NULL,
    bytes INTEGER NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (tenant, id)
);

CREATE INDEX images_by_age ON images (created_at);

CREATE TABLE run_images (
    run_id VARCHAR(64) NOT NULL,
    image_id VARCHAR(64) NOT NULL,
    tenant VARCHAR(64) NOT NULL,
    PRIMARY KEY (run_id, image_id)
);

CREATE INDEX runs_of_image ON run_images (tenant, image_id);

CREATE TABLE memories (
    number INTEGER NOT NULL PRIMARY KEY,
    tenant VARCHAR(64) NOT NULL,
    id VARCHAR(64) NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    owner VARCHAR(300) NOT NULL,
    agent TEXT NOT NULL,
    part INTEGER NOT NULL,
    kind VARCHAR(16) NOT NULL,
    updated_at INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (tenant, owner, agent, part)
);

CREATE INDEX memories_of_tenant ON memories (tenant, number);

CREATE INDEX bytes_of_memories ON memories (tenant, bytes);

CREATE TABLE registered_tools (
    number INTEGER NOT NULL PRIMARY KEY,
    tenant VARCHAR(64) NOT NULL,
    id VARCHAR(64) NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    name VARCHAR(64) NOT NULL,
    body JSON NOT NULL,
    UNIQUE (tenant, name)
);

CREATE INDEX registered_tools_of_tenant ON registered_tools (tenant, number);

CREATE TABLE run_tools (
    run_id VARCHAR(64) NOT NULL,
    tenant VARCHAR(64) NOT NULL,
    body JSON NOT NULL,
    PRIMARY KEY (run_id)
);
