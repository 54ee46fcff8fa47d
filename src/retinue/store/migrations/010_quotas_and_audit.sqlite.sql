-- Quotas of tenants, what tenants used, and the audit log. Nothing that was there changes, so a server of the former
-- version can go on beside this one; what it drives is counted by `retinue quotas recount`.
-- Beside older servers: they do not read these tables, and of storage_used only rows of their own.

CREATE TABLE quotas (
    tenant VARCHAR(64) NOT NULL,
    what VARCHAR(8) NOT NULL,
    period VARCHAR(8) NOT NULL,
    most BIGINT,
    PRIMARY KEY (tenant, what, period)
);

CREATE TABLE usage_sums (
    tenant VARCHAR(64) NOT NULL,
    day INTEGER NOT NULL,
    part VARCHAR(64) NOT NULL,
    runs BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    cost BIGINT NOT NULL,
    PRIMARY KEY (tenant, day, part)
);

ALTER TABLE runs ADD COLUMN counted INTEGER DEFAULT 0 NOT NULL;

CREATE TABLE usage_gaps (
    tenant VARCHAR(64) NOT NULL,
    day INTEGER NOT NULL,
    PRIMARY KEY (tenant, day)
);

CREATE TABLE audit_entries (
    number INTEGER NOT NULL PRIMARY KEY,
    tenant VARCHAR(64) NOT NULL,
    id VARCHAR(64) NOT NULL,
    created_at INTEGER NOT NULL,
    actor VARCHAR(128) NOT NULL,
    action VARCHAR(32) NOT NULL,
    target VARCHAR(256) NOT NULL,
    detail JSON NOT NULL,
    request_id VARCHAR(64),
    address VARCHAR(64),
    place BIGINT,
    former VARCHAR(64),
    hash VARCHAR(64),
    UNIQUE (id),
    UNIQUE (place)
);

CREATE INDEX audit_of_tenant ON audit_entries (tenant, number);

INSERT INTO storage_used (tenant, what, bytes)
SELECT tenant, 'files', coalesce(sum(json_extract(body, '$.bytes')), 0) FROM files GROUP BY tenant;
