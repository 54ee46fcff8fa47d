-- A run's state becomes columns; submissions, metadata and agents' specifications get tables; events have a version.

CREATE TABLE submissions (
    run_id VARCHAR(64) NOT NULL,
    number INTEGER NOT NULL,
    at INTEGER NOT NULL,
    mark VARCHAR(64) NOT NULL,
    told INTEGER NOT NULL,
    decisions JSON NOT NULL,
    answered JSON NOT NULL,
    usage JSON NOT NULL,
    asked JSON,
    input JSON,
    include JSON,
    calls JSON,
    PRIMARY KEY (run_id, number),
    UNIQUE (run_id, mark)
);

CREATE TABLE run_metadata (
    run_id VARCHAR(64) NOT NULL,
    name VARCHAR(64) NOT NULL,
    tenant VARCHAR(64) NOT NULL,
    value VARCHAR(512) NOT NULL,
    PRIMARY KEY (run_id, name)
);

CREATE INDEX runs_by_metadata ON run_metadata (tenant, name, value);

CREATE TABLE snapshots (
    tenant VARCHAR(64) NOT NULL,
    hash VARCHAR(64) NOT NULL,
    body JSON NOT NULL,
    PRIMARY KEY (tenant, hash)
);

ALTER TABLE events ADD COLUMN version SMALLINT DEFAULT 1 NOT NULL;

-- what cannot be read counts as empty
CREATE TABLE former_runs AS
SELECT
    number,
    CASE WHEN json_valid(state) THEN CASE json_type(state) WHEN 'object' THEN state ELSE '{}' END ELSE '{}' END AS state,
    CASE WHEN json_valid(request) THEN CASE json_type(request) WHEN 'object' THEN request ELSE '{}' END ELSE '{}' END
        AS request
FROM runs;

CREATE UNIQUE INDEX former_runs_by_number ON former_runs (number);

-- the last submission has all decisions, for a call may have been decided on more than once
INSERT INTO submissions
SELECT
    runs.id,
    mark.key + 1,
    COALESCE(
        json_extract(former.state, '$.parts[' || mark.key || '].created_at'),
        json_extract(former.state, '$.turns[' || mark.key || '][0]'),
        runs.created_at
    ),
    mark.value,
    COALESCE(
        CASE WHEN mark.key + 1 = json_array_length(former.state, '$.marks')
            THEN json_extract(former.state, '$.told')
            ELSE json_extract(former.state, '$.parts[' || mark.key || '].told')
        END,
        0
    ),
    CASE WHEN mark.key + 1 = json_array_length(former.state, '$.marks')
        THEN COALESCE(json_extract(former.state, '$.decisions'), '{}')
        ELSE (
            SELECT json_group_object(decision.key, json(decision.value))
            FROM json_each(former.state, '$.decisions') AS decision
            WHERE decision.key IN (SELECT value FROM json_each(former.state, '$.turns[' || mark.key || '][1]'))
        )
    END,
    COALESCE(json_extract(former.state, '$.turns[' || mark.key || '][1]'), '[]'),
    CASE WHEN mark.key + 1 = json_array_length(former.state, '$.marks')
        THEN json_object(
            'input_tokens', COALESCE(json_extract(former.state, '$.usage_told.prompt_tokens'), 0),
            'output_tokens', COALESCE(json_extract(former.state, '$.usage_told.completion_tokens'), 0),
            'cached_tokens', COALESCE(json_extract(former.state, '$.usage_told.cached_tokens'), 0)
        )
        ELSE '{}'
    END,
    json_extract(former.state, '$.parts[' || mark.key || '].asked'),
    json_extract(former.state, '$.parts[' || mark.key || '].input'),
    json_extract(former.state, '$.parts[' || mark.key || '].include'),
    json_extract(former.state, '$.parts[' || mark.key || '].calls')
FROM runs
JOIN former_runs AS former ON former.number = runs.number
JOIN json_each(former.state, '$.marks') AS mark
WHERE json_type(former.state, '$.marks') = 'array';

INSERT INTO run_metadata
SELECT runs.id, one.key, runs.tenant, one.value
FROM runs
JOIN former_runs AS former ON former.number = runs.number
JOIN json_each(former.state, '$.metadata') AS one
WHERE
    json_type(former.state, '$.metadata') = 'object'
    AND one.type = 'text'
    AND length(one.key) <= 64
    AND length(one.value) <= 512;

CREATE TABLE typed_runs (
    number INTEGER NOT NULL PRIMARY KEY,
    tenant VARCHAR(64) NOT NULL,
    id VARCHAR(64) NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    key_id VARCHAR(64),
    kind VARCHAR(16) NOT NULL,
    agent TEXT NOT NULL,
    thread_id VARCHAR(64),
    parent_id VARCHAR(64),
    root_id VARCHAR(64),
    call_id VARCHAR(64),
    status VARCHAR(20) NOT NULL,
    holds BOOLEAN NOT NULL,
    expires_at INTEGER,
    epoch INTEGER NOT NULL,
    driver VARCHAR(64),
    attempts INTEGER NOT NULL,
    progress INTEGER,
    started_at INTEGER,
    ended_at INTEGER,
    ending VARCHAR(16),
    error JSON,
    incomplete VARCHAR(64),
    prompt_tokens INTEGER,
    completion_tokens INTEGER,
    cached_tokens INTEGER,
    metadata JSON NOT NULL,
    waiting JSON,
    turns INTEGER NOT NULL,
    deleted JSON,
    stored BOOLEAN NOT NULL,
    snapshot VARCHAR(64),
    request JSON NOT NULL
);

INSERT INTO typed_runs
SELECT
    runs.number,
    runs.tenant,
    runs.id,
    runs.created_at,
    runs.key_id,
    CASE json_extract(former.request, '$.kind') WHEN 'chat' THEN 'chat' WHEN 'response' THEN 'response' ELSE 'assistant' END,
    COALESCE(CAST(json_extract(former.request, '$.model') AS TEXT), ''),
    runs.thread_id,
    NULL,
    NULL,
    NULL,
    runs.status,
    runs.holds,
    runs.expires_at,
    runs.epoch,
    json_extract(former.state, '$.claims[2]'),
    COALESCE(json_extract(former.state, '$.claims[1]'), 0),
    json_extract(former.state, '$.claims[0]'),
    json_extract(former.state, '$.started_at'),
    COALESCE(
        json_extract(former.state, '$.completed_at'),
        json_extract(former.state, '$.failed_at'),
        json_extract(former.state, '$.cancelled_at'),
        json_extract(former.state, '$.expired_at')
    ),
    json_extract(former.state, '$.ending'),
    CASE json_type(former.state, '$.last_error')
        WHEN 'object' THEN json_object(
            'code', json_extract(former.state, '$.last_error.code'),
            'message', json_extract(former.state, '$.last_error.message'),
            'cause', json_extract(former.state, '$.failure.code'),
            'retry_after', json_extract(former.state, '$.failure.retry_after')
        )
    END,
    json_extract(former.state, '$.incomplete_details.reason'),
    json_extract(former.state, '$.usage.prompt_tokens'),
    json_extract(former.state, '$.usage.completion_tokens'),
    json_extract(former.state, '$.usage.cached_tokens'),
    CASE json_type(former.state, '$.metadata') WHEN 'object' THEN json_extract(former.state, '$.metadata') ELSE '{}' END,
    CASE WHEN json_array_length(former.state, '$.waiting') > 0 THEN json_extract(former.state, '$.waiting') END,
    COALESCE(json_array_length(former.state, '$.marks'), 0),
    CASE WHEN json_array_length(former.state, '$.deleted') > 0 THEN json_extract(former.state, '$.deleted') END,
    COALESCE(json_extract(former.request, '$.store'), 0) = 1,
    NULL,
    runs.request
FROM runs
JOIN former_runs AS former ON former.number = runs.number;

DROP TABLE former_runs;

DROP TABLE runs;

ALTER TABLE typed_runs RENAME TO runs;

CREATE INDEX runs_of_tenant ON runs (tenant, number);

CREATE INDEX runs_of_key ON runs (key_id, status);

CREATE INDEX runs_of_thread ON runs (thread_id, number);

CREATE UNIQUE INDEX one_run_at_a_time ON runs (thread_id) WHERE holds;

CREATE INDEX runs_by_status ON runs (status, created_at);

CREATE INDEX runs_of_tenant_by_status ON runs (tenant, status, number);

CREATE INDEX runs_of_agent ON runs (tenant, agent, number);

CREATE INDEX runs_of_tenant_by_time ON runs (tenant, created_at);

CREATE INDEX runs_of_parent ON runs (parent_id);
