CREATE TABLE versions (
    version SERIAL PRIMARY KEY
);;

CREATE TABLE assistants (
    number BIGSERIAL PRIMARY KEY,
    tenant VARCHAR(64) NOT NULL,
    id VARCHAR(64) NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    body JSON NOT NULL
);;

CREATE TABLE threads (
    number BIGSERIAL PRIMARY KEY,
    tenant VARCHAR(64) NOT NULL,
    id VARCHAR(64) NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    key VARCHAR(256),
    body JSON NOT NULL,
    UNIQUE (tenant, key)
);;

CREATE TABLE messages (
    number BIGSERIAL PRIMARY KEY,
    tenant VARCHAR(64) NOT NULL,
    id VARCHAR(64) NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    thread_id VARCHAR(64) NOT NULL,
    run_id VARCHAR(64),
    body JSON NOT NULL
);;

CREATE INDEX messages_of_thread ON messages (thread_id, number);;

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
);;

CREATE INDEX runs_of_thread ON runs (thread_id, number);;

CREATE UNIQUE INDEX one_run_at_a_time ON runs (thread_id) WHERE holds;;

CREATE INDEX runs_by_status ON runs (status, created_at);;

CREATE TABLE events (
    run_id VARCHAR(64) NOT NULL,
    seq INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    at FLOAT NOT NULL,
    kind VARCHAR(16) NOT NULL,
    payload TEXT NOT NULL,
    PRIMARY KEY (run_id, seq)
);;

CREATE TABLE keys (
    hash VARCHAR(64) NOT NULL PRIMARY KEY,
    tenant VARCHAR(64) NOT NULL,
    created_at INTEGER NOT NULL
);;

CREATE TABLE conversations (
    number BIGSERIAL PRIMARY KEY,
    tenant VARCHAR(64) NOT NULL,
    id VARCHAR(64) NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    body JSON NOT NULL
);;

CREATE TABLE items (
    number BIGSERIAL PRIMARY KEY,
    tenant VARCHAR(64) NOT NULL,
    id VARCHAR(64) NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    conversation_id VARCHAR(64) NOT NULL,
    item_id VARCHAR(64) NOT NULL,
    run_id VARCHAR(64),
    body JSON NOT NULL,
    UNIQUE (conversation_id, item_id)
);;

CREATE INDEX items_of_conversation ON items (conversation_id, number);;

CREATE TABLE files (
    number BIGSERIAL PRIMARY KEY,
    tenant VARCHAR(64) NOT NULL,
    id VARCHAR(64) NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    body JSON NOT NULL
);;

CREATE TABLE contents (
    tenant VARCHAR(64) NOT NULL,
    id VARCHAR(64) NOT NULL PRIMARY KEY,
    content BYTEA NOT NULL
);;

CREATE TABLE vector_stores (
    number BIGSERIAL PRIMARY KEY,
    tenant VARCHAR(64) NOT NULL,
    id VARCHAR(64) NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    body JSON NOT NULL
);;

CREATE TABLE vector_store_batches (
    number BIGSERIAL PRIMARY KEY,
    tenant VARCHAR(64) NOT NULL,
    id VARCHAR(64) NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    vector_store_id VARCHAR(64) NOT NULL,
    body JSON NOT NULL
);;

CREATE TABLE vector_store_files (
    number BIGSERIAL PRIMARY KEY,
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
);;

CREATE INDEX files_of_batch ON vector_store_files (batch_id);;

CREATE INDEX files_by_status ON vector_store_files (status, number);;

CREATE TABLE requests (
    tenant VARCHAR(64) NOT NULL,
    key VARCHAR(256) NOT NULL,
    route VARCHAR(256) NOT NULL,
    created_at INTEGER NOT NULL,
    body_hash VARCHAR(64) NOT NULL,
    response JSON,
    PRIMARY KEY (tenant, key, route)
);;

ALTER TABLE runs ADD COLUMN key_id VARCHAR(64);;

CREATE INDEX runs_of_key ON runs (key_id, status);;

-- the first databases of version 1 lack it
CREATE INDEX IF NOT EXISTS runs_by_status ON runs (status, created_at);;

ALTER TABLE keys ADD COLUMN id VARCHAR(64);;

ALTER TABLE keys ADD COLUMN name VARCHAR(256);;

ALTER TABLE keys ADD COLUMN prefix VARCHAR(16);;

ALTER TABLE keys ADD COLUMN scopes JSON;;

ALTER TABLE keys ADD COLUMN limits JSON;;

ALTER TABLE keys ADD COLUMN expires_at INTEGER;;

ALTER TABLE keys ADD COLUMN revoked_at INTEGER;;

UPDATE keys SET id = 'key_' || substr(hash, 1, 24);;

CREATE TABLE secrets (
    name VARCHAR(64) NOT NULL PRIMARY KEY,
    value BYTEA NOT NULL
);;

CREATE INDEX assistants_of_tenant ON assistants (tenant, number);;

CREATE INDEX threads_of_tenant ON threads (tenant, number);;

CREATE INDEX messages_of_tenant ON messages (tenant, number);;

CREATE INDEX runs_of_tenant ON runs (tenant, number);;

CREATE INDEX conversations_of_tenant ON conversations (tenant, number);;

CREATE INDEX items_of_tenant ON items (tenant, number);;

CREATE INDEX files_of_tenant ON files (tenant, number);;

CREATE INDEX vector_stores_of_tenant ON vector_stores (tenant, number);;

CREATE INDEX vector_store_batches_of_tenant ON vector_store_batches (tenant, number);;

CREATE INDEX vector_store_files_of_tenant ON vector_store_files (tenant, number);;

CREATE INDEX items_by_id ON items (tenant, item_id);;

CREATE INDEX files_in_turn ON vector_store_files (status, tenant, number);;

CREATE INDEX bytes_in_stores ON vector_store_files (tenant, usage_bytes);;

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
);;

CREATE TABLE run_metadata (
    run_id VARCHAR(64) NOT NULL,
    name VARCHAR(64) NOT NULL,
    tenant VARCHAR(64) NOT NULL,
    value VARCHAR(512) NOT NULL,
    PRIMARY KEY (run_id, name)
);;

CREATE INDEX runs_by_metadata ON run_metadata (tenant, name, value);;

CREATE TABLE snapshots (
    tenant VARCHAR(64) NOT NULL,
    hash VARCHAR(64) NOT NULL,
    body JSON NOT NULL,
    PRIMARY KEY (tenant, hash)
);;

ALTER TABLE events ADD COLUMN version SMALLINT DEFAULT 1 NOT NULL;;

ALTER TABLE assistants ALTER COLUMN created_at TYPE BIGINT;;

ALTER TABLE threads ALTER COLUMN created_at TYPE BIGINT;;

ALTER TABLE messages ALTER COLUMN created_at TYPE BIGINT;;

ALTER TABLE conversations ALTER COLUMN created_at TYPE BIGINT;;

ALTER TABLE items ALTER COLUMN created_at TYPE BIGINT;;

ALTER TABLE files
    ALTER COLUMN created_at TYPE BIGINT,
    ALTER COLUMN expires_at TYPE BIGINT;;

ALTER TABLE vector_stores
    ALTER COLUMN created_at TYPE BIGINT,
    ALTER COLUMN expires_at TYPE BIGINT;;

ALTER TABLE vector_store_batches ALTER COLUMN created_at TYPE BIGINT;;

ALTER TABLE vector_store_files ALTER COLUMN created_at TYPE BIGINT;;

ALTER TABLE requests ALTER COLUMN created_at TYPE BIGINT;;

ALTER TABLE keys
    ALTER COLUMN created_at TYPE BIGINT,
    ALTER COLUMN expires_at TYPE BIGINT,
    ALTER COLUMN revoked_at TYPE BIGINT;;

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
    ADD COLUMN snapshot VARCHAR(64);;

-- JSON as functions can read it: none reads a NUL
CREATE FUNCTION pg_temp.readable(given JSON) RETURNS JSON LANGUAGE sql AS $$
    SELECT CASE WHEN strpos(given::text, '\u0000') = 0 THEN given
        ELSE regexp_replace(given::text, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g')::json END
$$;;

CREATE FUNCTION pg_temp.as_number(given JSON) RETURNS BIGINT LANGUAGE sql AS $$
    SELECT CASE json_typeof(given) WHEN 'number' THEN trunc((given #>> '{}')::numeric)::bigint END
$$;;

CREATE FUNCTION pg_temp.as_list(given JSON) RETURNS JSON LANGUAGE sql AS $$
    SELECT CASE json_typeof(given) WHEN 'array' THEN given ELSE '[]'::json END
$$;;

CREATE FUNCTION pg_temp.as_object(given JSON) RETURNS JSON LANGUAGE sql AS $$
    SELECT CASE json_typeof(given) WHEN 'object' THEN given ELSE '{}'::json END
$$;;

CREATE FUNCTION pg_temp.unless_null(given JSON) RETURNS JSON LANGUAGE sql AS $$
    SELECT CASE json_typeof(given) WHEN 'null' THEN NULL ELSE given END
$$;;

UPDATE runs SET state = pg_temp.readable(state) WHERE strpos(state::text, '\u0000') > 0;;

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
    ) AS of_mark;;

INSERT INTO run_metadata
SELECT runs.id, one.key, runs.tenant, one.value #>> '{}'
FROM runs, json_each(pg_temp.as_object(state -> 'metadata')) AS one
WHERE json_typeof(one.value) = 'string' AND length(one.key) <= 64 AND length(one.value #>> '{}') <= 512;;

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
    stored = COALESCE(pg_temp.readable(request) ->> 'store' = 'true', FALSE);;

ALTER TABLE runs
    ALTER COLUMN kind SET NOT NULL,
    ALTER COLUMN agent SET NOT NULL,
    ALTER COLUMN attempts SET NOT NULL,
    ALTER COLUMN metadata SET NOT NULL,
    ALTER COLUMN turns SET NOT NULL,
    ALTER COLUMN stored SET NOT NULL,
    DROP COLUMN state;;

CREATE INDEX runs_of_tenant_by_status ON runs (tenant, status, number);;

CREATE INDEX runs_of_agent ON runs (tenant, agent, number);;

CREATE INDEX runs_of_tenant_by_time ON runs (tenant, created_at);;

CREATE INDEX runs_of_parent ON runs (parent_id);;

CREATE TABLE processes (
    id VARCHAR(64) NOT NULL,
    seen_at FLOAT NOT NULL,
    PRIMARY KEY (id)
);;

ALTER TABLE vector_store_files ADD COLUMN indexer VARCHAR(64);;

CREATE INDEX runs_of_driver ON runs (driver, status);;

CREATE TABLE images (
    tenant VARCHAR(64) NOT NULL,
    id VARCHAR(64) NOT NULL,
    created_at BIGINT NOT NULL,
    media_type VARCHAR(32) NOT NULL,
    bytes INTEGER NOT NULL,
    content BYTEA NOT NULL,
    PRIMARY KEY (tenant, id)
);;

CREATE INDEX images_by_age ON images (created_at);;

CREATE TABLE run_images (
    run_id VARCHAR(64) NOT NULL,
    image_id VARCHAR(64) NOT NULL,
    tenant VARCHAR(64) NOT NULL,
    PRIMARY KEY (run_id, image_id)
);;

CREATE INDEX runs_of_image ON run_images (tenant, image_id);;

CREATE TABLE memories (
    number BIGSERIAL PRIMARY KEY,
    tenant VARCHAR(64) NOT NULL,
    id VARCHAR(64) NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    owner VARCHAR(300) NOT NULL,
    agent TEXT NOT NULL,
    part INTEGER NOT NULL,
    kind VARCHAR(16) NOT NULL,
    updated_at BIGINT NOT NULL,
    bytes INTEGER NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (tenant, owner, agent, part)
);;

CREATE INDEX memories_of_tenant ON memories (tenant, number);;

CREATE INDEX bytes_of_memories ON memories (tenant, bytes);;

CREATE TABLE registered_tools (
    number BIGSERIAL PRIMARY KEY,
    tenant VARCHAR(64) NOT NULL,
    id VARCHAR(64) NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    name VARCHAR(64) NOT NULL,
    body JSON NOT NULL,
    UNIQUE (tenant, name)
);;

CREATE INDEX registered_tools_of_tenant ON registered_tools (tenant, number);;

CREATE TABLE run_tools (
    run_id VARCHAR(64) NOT NULL,
    tenant VARCHAR(64) NOT NULL,
    body JSON NOT NULL,
    PRIMARY KEY (run_id)
);;

CREATE TABLE storage_used (
    tenant VARCHAR(64) NOT NULL,
    what VARCHAR(16) NOT NULL,
    bytes BIGINT NOT NULL,
    PRIMARY KEY (tenant, what)
);;

INSERT INTO storage_used (tenant, what, bytes) SELECT tenant, 'images', sum(bytes) FROM images GROUP BY tenant;;

INSERT INTO storage_used (tenant, what, bytes) SELECT tenant, 'memories', sum(bytes) FROM memories GROUP BY tenant;;

DROP INDEX bytes_of_memories;;

COMMENT ON TABLE events IS 'in the order in which they were written';;

ALTER TABLE runs ADD COLUMN forked_from VARCHAR(64);;

CREATE INDEX runs_of_origin ON runs (forked_from);;

CREATE TABLE quotas (
    tenant VARCHAR(64) NOT NULL,
    what VARCHAR(8) NOT NULL,
    period VARCHAR(8) NOT NULL,
    most BIGINT,
    PRIMARY KEY (tenant, what, period)
);;

CREATE TABLE usage_sums (
    tenant VARCHAR(64) NOT NULL,
    day INTEGER NOT NULL,
    part VARCHAR(64) NOT NULL,
    runs BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    cost BIGINT NOT NULL,
    PRIMARY KEY (tenant, day, part)
);;

ALTER TABLE runs ADD COLUMN counted INTEGER DEFAULT 0 NOT NULL;;

CREATE TABLE usage_gaps (
    tenant VARCHAR(64) NOT NULL,
    day INTEGER NOT NULL,
    PRIMARY KEY (tenant, day)
);;

CREATE TABLE audit_entries (
    number BIGSERIAL PRIMARY KEY,
    tenant VARCHAR(64) NOT NULL,
    id VARCHAR(64) NOT NULL,
    created_at BIGINT NOT NULL,
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
);;

CREATE INDEX audit_of_tenant ON audit_entries (tenant, number);;

INSERT INTO storage_used (tenant, what, bytes)
SELECT tenant, 'files', coalesce(sum((body ->> 'bytes')::bigint), 0) FROM files GROUP BY tenant;;

ALTER TABLE versions ADD COLUMN compatible BOOLEAN;;

ALTER TABLE events ADD COLUMN pieces TEXT;;

CREATE INDEX runs_due ON runs (expires_at) WHERE holds;;

CREATE INDEX runs_not_stored ON runs (created_at) WHERE NOT stored AND thread_id IS NULL AND parent_id IS NULL;;

CREATE INDEX messages_of_run ON messages (run_id);;

CREATE INDEX batches_of_store ON vector_store_batches (vector_store_id);;

CREATE INDEX entries_of_file ON vector_store_files (file_id);;

CREATE INDEX files_by_expiry ON files (expires_at);;

CREATE INDEX vector_stores_by_expiry ON vector_stores (expires_at);;

CREATE INDEX requests_by_age ON requests (created_at);;

CREATE INDEX keys_by_age ON keys (created_at);;

CREATE OR REPLACE FUNCTION count_texts(owner VARCHAR, size BIGINT) RETURNS VOID LANGUAGE sql AS $$
    INSERT INTO storage_used VALUES (owner, 'texts' || pg_backend_pid(), size)
    ON CONFLICT (tenant, what) DO UPDATE SET bytes = storage_used.bytes + excluded.bytes
$$;;

CREATE OR REPLACE FUNCTION count_new_bodies() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    PERFORM count_texts(tenant, sum(size)::bigint) FROM (
        SELECT tenant, octet_length(body::text) AS size FROM added
    ) AS sizes GROUP BY tenant;
    RETURN NULL;
END $$;;

CREATE OR REPLACE FUNCTION count_changed_bodies() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    PERFORM count_texts(tenant, sum(size)::bigint) FROM (
        SELECT tenant, octet_length(body::text) AS size FROM added
        UNION ALL SELECT tenant, -octet_length(body::text) FROM removed
    ) AS sizes GROUP BY tenant;
    RETURN NULL;
END $$;;

CREATE OR REPLACE FUNCTION count_old_bodies() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    PERFORM count_texts(tenant, sum(size)::bigint) FROM (
        SELECT tenant, -octet_length(body::text) AS size FROM removed
    ) AS sizes GROUP BY tenant;
    RETURN NULL;
END $$;;

CREATE OR REPLACE FUNCTION size_of_run(request JSON) RETURNS BIGINT LANGUAGE sql IMMUTABLE AS $$
    SELECT octet_length(request::text)
        + coalesce(substring(request::text from '"imported_from": ?\{"bytes": ?(\d{1,15})')::bigint, 0)
$$;;

CREATE OR REPLACE FUNCTION size_of_submission(decisions JSON, input JSON, calls JSON) RETURNS BIGINT LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(octet_length(decisions::text), 0) + coalesce(octet_length(input::text), 0)
        + coalesce(octet_length(calls::text), 0)
$$;;

CREATE OR REPLACE FUNCTION count_new_runs() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    PERFORM count_texts(tenant, sum(size)::bigint) FROM (
        SELECT tenant, size_of_run(request) AS size FROM added
    ) AS sizes GROUP BY tenant;
    RETURN NULL;
END $$;;

CREATE OR REPLACE FUNCTION count_old_runs() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    PERFORM count_texts(tenant, sum(size)::bigint) FROM (
        SELECT tenant, -size_of_run(request) AS size FROM removed
        UNION ALL SELECT removed.tenant, -size_of_submission(decisions, input, calls)
        FROM removed JOIN submissions ON submissions.run_id = removed.id
    ) AS sizes GROUP BY tenant;
    RETURN NULL;
END $$;;

CREATE OR REPLACE FUNCTION count_new_submissions() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    PERFORM count_texts(tenant, sum(size)::bigint) FROM (
        SELECT runs.tenant, size_of_submission(decisions, input, calls) AS size
        FROM added JOIN runs ON runs.id = added.run_id
    ) AS sizes GROUP BY tenant;
    RETURN NULL;
END $$;;

CREATE OR REPLACE FUNCTION count_new_contents() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    PERFORM count_texts(tenant, sum(size)::bigint) FROM (
        SELECT tenant, length(content) AS size FROM added WHERE id NOT LIKE 'file%'
    ) AS sizes GROUP BY tenant;
    RETURN NULL;
END $$;;

CREATE OR REPLACE FUNCTION count_old_contents() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    PERFORM count_texts(tenant, sum(size)::bigint) FROM (
        SELECT tenant, -length(content) AS size FROM removed WHERE id NOT LIKE 'file%'
    ) AS sizes GROUP BY tenant;
    RETURN NULL;
END $$;;

CREATE OR REPLACE TRIGGER counted AFTER INSERT ON assistants
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_new_bodies();;

CREATE OR REPLACE TRIGGER recounted AFTER UPDATE ON assistants
REFERENCING NEW TABLE AS added OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_changed_bodies();;

CREATE OR REPLACE TRIGGER counted_off AFTER DELETE ON assistants
REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_old_bodies();;

CREATE OR REPLACE TRIGGER counted AFTER INSERT ON threads
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_new_bodies();;

CREATE OR REPLACE TRIGGER recounted AFTER UPDATE ON threads
REFERENCING NEW TABLE AS added OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_changed_bodies();;

CREATE OR REPLACE TRIGGER counted_off AFTER DELETE ON threads
REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_old_bodies();;

CREATE OR REPLACE TRIGGER counted AFTER INSERT ON messages
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_new_bodies();;

CREATE OR REPLACE TRIGGER recounted AFTER UPDATE ON messages
REFERENCING NEW TABLE AS added OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_changed_bodies();;

CREATE OR REPLACE TRIGGER counted_off AFTER DELETE ON messages
REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_old_bodies();;

CREATE OR REPLACE TRIGGER counted AFTER INSERT ON conversations
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_new_bodies();;

CREATE OR REPLACE TRIGGER recounted AFTER UPDATE ON conversations
REFERENCING NEW TABLE AS added OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_changed_bodies();;

CREATE OR REPLACE TRIGGER counted_off AFTER DELETE ON conversations
REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_old_bodies();;

CREATE OR REPLACE TRIGGER counted AFTER INSERT ON items
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_new_bodies();;

CREATE OR REPLACE TRIGGER recounted AFTER UPDATE ON items
REFERENCING NEW TABLE AS added OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_changed_bodies();;

CREATE OR REPLACE TRIGGER counted_off AFTER DELETE ON items
REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_old_bodies();;

CREATE OR REPLACE TRIGGER counted AFTER INSERT ON registered_tools
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_new_bodies();;

CREATE OR REPLACE TRIGGER recounted AFTER UPDATE ON registered_tools
REFERENCING NEW TABLE AS added OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_changed_bodies();;

CREATE OR REPLACE TRIGGER counted_off AFTER DELETE ON registered_tools
REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_old_bodies();;

CREATE OR REPLACE TRIGGER counted AFTER INSERT ON runs
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_new_runs();;

CREATE OR REPLACE TRIGGER counted_off AFTER DELETE ON runs
REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_old_runs();;

CREATE OR REPLACE TRIGGER counted AFTER INSERT ON submissions
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_new_submissions();;

CREATE OR REPLACE TRIGGER counted AFTER INSERT ON contents
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_new_contents();;

CREATE OR REPLACE TRIGGER counted_off AFTER DELETE ON contents
REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_old_contents();;

INSERT INTO storage_used (tenant, what, bytes) SELECT tenant, 'texts', sum(size) FROM (
    SELECT tenant, octet_length(body::text) AS size FROM assistants
    UNION ALL SELECT tenant, octet_length(body::text) AS size FROM threads
    UNION ALL SELECT tenant, octet_length(body::text) AS size FROM messages
    UNION ALL SELECT tenant, octet_length(body::text) AS size FROM conversations
    UNION ALL SELECT tenant, octet_length(body::text) AS size FROM items
    UNION ALL SELECT tenant, octet_length(body::text) AS size FROM registered_tools
    UNION ALL SELECT tenant, size_of_run(request) FROM runs
    UNION ALL SELECT runs.tenant, size_of_submission(submissions.decisions, submissions.input, submissions.calls)
    FROM submissions JOIN runs ON runs.id = submissions.run_id
    UNION ALL SELECT tenant, length(content) FROM contents WHERE id NOT LIKE 'file%'
) AS sizes GROUP BY tenant;;

