-- A run's state becomes columns; submissions, metadata and agents' specifications get tables; events have a version, and
-- times 64 bits.

CREATE TABLE submissions (
    run_id VARCHAR(64) NOT NULL,
    number INTEGER NOT NULL,
    at BIGINT NOT NULL,
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

ALTER TABLE assistants ALTER COLUMN created_at TYPE BIGINT;

ALTER TABLE threads ALTER COLUMN created_at TYPE BIGINT;

ALTER TABLE messages ALTER COLUMN created_at TYPE BIGINT;

ALTER TABLE conversations ALTER COLUMN created_at TYPE BIGINT;

ALTER TABLE items ALTER COLUMN created_at TYPE BIGINT;

ALTER TABLE files
    ALTER COLUMN created_at TYPE BIGINT,
    ALTER COLUMN expires_at TYPE BIGINT;

ALTER TABLE vector_stores
    ALTER COLUMN created_at TYPE BIGINT,
    ALTER COLUMN expires_at TYPE BIGINT;

ALTER TABLE vector_store_batches ALTER COLUMN created_at TYPE BIGINT;

ALTER TABLE vector_store_files ALTER COLUMN created_at TYPE BIGINT;

ALTER TABLE requests ALTER COLUMN created_at TYPE BIGINT;

ALTER TABLE keys
    ALTER COLUMN created_at TYPE BIGINT,
    ALTER COLUMN expires_at TYPE BIGINT,
    ALTER COLUMN revoked_at TYPE BIGINT;

ALTER TABLE runs
    ALTER COLUMN created_at TYPE BIGINT,
    ALTER COLUMN expires_at TYPE BIGINT,
    ADD COLUMN kind VARCHAR(16),
    ADD COLUMN agent TEXT,
    ADD COLUMN parent_id VARCHAR(64),
    ADD COLUMN root_id VARCHAR(64),
    ADD COLUMN call_id VARCHAR(64),
    ADD COLUMN driver VARCHAR(64),
    ADD COLUMN attempts INTEGER,
    ADD COLUMN progress INTEGER,
    ADD COLUMN started_at BIGINT,
    ADD COLUMN ended_at BIGINT,
    ADD COLUMN ending VARCHAR(16),
    ADD COLUMN error JSON,
    ADD COLUMN incomplete VARCHAR(64),
    ADD COLUMN prompt_tokens BIGINT,
    ADD COLUMN completion_tokens BIGINT,
    ADD COLUMN cached_tokens BIGINT,
    ADD COLUMN metadata JSON,
    ADD COLUMN waiting JSON,
    ADD COLUMN turns INTEGER,
    ADD COLUMN deleted JSON,
    ADD COLUMN stored BOOLEAN,
    ADD COLUMN snapshot VARCHAR(64);

-- JSON as functions can read it: none reads a NUL
CREATE FUNCTION pg_temp.readable(given JSON) RETURNS JSON LANGUAGE sql AS $$
    SELECT CASE WHEN strpos(given::text, '\u0000') = 0 THEN given
        ELSE regexp_replace(given::text, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g')::json END
$$;

CREATE FUNCTION pg_temp.as_number(given JSON) RETURNS BIGINT LANGUAGE sql AS $$
    SELECT CASE json_typeof(given) WHEN 'number' THEN trunc((given #>> '{}')::numeric)::bigint END
$$;

CREATE FUNCTION pg_temp.as_list(given JSON) RETURNS JSON LANGUAGE sql AS $$
    SELECT CASE json_typeof(given) WHEN 'array' THEN given ELSE '[]'::json END
$$;

CREATE FUNCTION pg_temp.as_object(given JSON) RETURNS JSON LANGUAGE sql AS $$
    SELECT CASE json_typeof(given) WHEN 'object' THEN given ELSE '{}'::json END
$$;

CREATE FUNCTION pg_temp.unless_null(given JSON) RETURNS JSON LANGUAGE sql AS $$
    SELECT CASE json_typeof(given) WHEN 'null' THEN NULL ELSE given END
$$;

UPDATE runs SET state = pg_temp.readable(state) WHERE strpos(state::text, '\u0000') > 0;

-- the last submission has all decisions, for a call may have been decided on more than once
INSERT INTO submissions
SELECT
    runs.id,
    mark.number,
    COALESCE(pg_temp.as_number(part -> 'created_at'), pg_temp.as_number(turn -> 0), runs.created_at),
    mark.value,
    COALESCE(pg_temp.as_number(CASE WHEN last THEN state -> 'told' ELSE part -> 'told' END), 0),
    CASE WHEN last
        THEN pg_temp.as_object(state -> 'decisions')
        ELSE (
            SELECT COALESCE(json_object_agg(decision.key, decision.value), '{}'::json)
            FROM json_each(pg_temp.as_object(state -> 'decisions')) AS decision
            WHERE decision.key IN (SELECT json_array_elements_text(pg_temp.as_list(turn -> 1)))
        )
    END,
    pg_temp.as_list(turn -> 1),
    CASE WHEN last
        THEN json_build_object(
            'input_tokens', COALESCE(pg_temp.as_number(state -> 'usage_told' -> 'prompt_tokens'), 0),
            'output_tokens', COALESCE(pg_temp.as_number(state -> 'usage_told' -> 'completion_tokens'), 0),
            'cached_tokens', COALESCE(pg_temp.as_number(state -> 'usage_told' -> 'cached_tokens'), 0)
        )
        ELSE '{}'::json
    END,
    pg_temp.unless_null(part -> 'asked'),
    pg_temp.unless_null(part -> 'input'),
    pg_temp.unless_null(part -> 'include'),
    pg_temp.unless_null(part -> 'calls')
FROM
    runs,
    json_array_elements_text(pg_temp.as_list(state -> 'marks')) WITH ORDINALITY AS mark (value, number),
    LATERAL (
        SELECT
            state -> 'parts' -> (mark.number - 1)::int AS part,
            state -> 'turns' -> (mark.number - 1)::int AS turn,
            mark.number = json_array_length(pg_temp.as_list(state -> 'marks')) AS last
    ) AS of_mark;

INSERT INTO run_metadata
SELECT runs.id, one.key, runs.tenant, one.value #>> '{}'
FROM runs, json_each(pg_temp.as_object(state -> 'metadata')) AS one
WHERE json_typeof(one.value) = 'string' AND length(one.key) <= 64 AND length(one.value #>> '{}') <= 512;

UPDATE runs SET
    kind = CASE pg_temp.readable(request) ->> 'kind'
        WHEN 'chat' THEN 'chat' WHEN 'response' THEN 'response' ELSE 'assistant' END,
    agent = COALESCE(pg_temp.readable(request) ->> 'model', ''),
    driver = state -> 'claims' ->> 2,
    attempts = COALESCE(pg_temp.as_number(state -> 'claims' -> 1), 0),
    progress = pg_temp.as_number(state -> 'claims' -> 0),
    started_at = pg_temp.as_number(state -> 'started_at'),
    ended_at = COALESCE(
        pg_temp.as_number(state -> 'completed_at'),
        pg_temp.as_number(state -> 'failed_at'),
        pg_temp.as_number(state -> 'cancelled_at'),
        pg_temp.as_number(state -> 'expired_at')
    ),
    ending = state ->> 'ending',
    error = CASE json_typeof(state -> 'last_error')
        WHEN 'object' THEN json_build_object(
            'code', state -> 'last_error' -> 'code',
            'message', state -> 'last_error' -> 'message',
            'cause', state -> 'failure' -> 'code',
            'retry_after', state -> 'failure' -> 'retry_after'
        )
    END,
    incomplete = state -> 'incomplete_details' ->> 'reason',
    prompt_tokens = pg_temp.as_number(state -> 'usage' -> 'prompt_tokens'),
    completion_tokens = pg_temp.as_number(state -> 'usage' -> 'completion_tokens'),
    cached_tokens = pg_temp.as_number(state -> 'usage' -> 'cached_tokens'),
    metadata = pg_temp.as_object(state -> 'metadata'),
    waiting = CASE WHEN json_array_length(pg_temp.as_list(state -> 'waiting')) > 0 THEN state -> 'waiting' END,
    turns = json_array_length(pg_temp.as_list(state -> 'marks')),
    deleted = CASE WHEN json_array_length(pg_temp.as_list(state -> 'deleted')) > 0 THEN state -> 'deleted' END,
    stored = COALESCE(pg_temp.readable(request) ->> 'store' = 'true', FALSE);

ALTER TABLE runs
    ALTER COLUMN kind SET NOT NULL,
    ALTER COLUMN agent SET NOT NULL,
    ALTER COLUMN attempts SET NOT NULL,
    ALTER COLUMN metadata SET NOT NULL,
    ALTER COLUMN turns SET NOT NULL,
    ALTER COLUMN stored SET NOT NULL,
    DROP COLUMN state;

CREATE INDEX runs_of_tenant_by_status ON runs (tenant, status, number);

CREATE INDEX runs_of_agent ON runs (tenant, agent, number);

CREATE INDEX runs_of_tenant_by_time ON runs (tenant, created_at);

CREATE INDEX runs_of_parent ON runs (parent_id);
