-- How many bytes of texts each tenant has: what clients wrote into any table. Triggers count them, since rows are written
-- and deleted in many places. Logs of imported runs say their size in the run's request. What answers and decisions of
-- people weigh is taken off with their run, whose row is deleted before them.
-- Beside older servers: triggers count for them, too.
-- They count once a statement: a row that is changed many times in one transaction is found ever more slowly.
-- Each connection has a part of its own, so that none waits for another. A request is searched as a text: PostgreSQL
-- reads no JSON that has a NUL in it.

CREATE OR REPLACE FUNCTION count_texts(owner VARCHAR, size BIGINT) RETURNS VOID LANGUAGE sql AS $$
    INSERT INTO storage_used VALUES (owner, 'texts' || pg_backend_pid(), size)
    ON CONFLICT (tenant, what) DO UPDATE SET bytes = storage_used.bytes + excluded.bytes
$$;

CREATE OR REPLACE FUNCTION count_new_bodies() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    PERFORM count_texts(tenant, sum(size)::bigint) FROM (
        SELECT tenant, octet_length(body::text) AS size FROM added
    ) AS sizes GROUP BY tenant;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION count_changed_bodies() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    PERFORM count_texts(tenant, sum(size)::bigint) FROM (
        SELECT tenant, octet_length(body::text) AS size FROM added
        UNION ALL SELECT tenant, -octet_length(body::text) FROM removed
    ) AS sizes GROUP BY tenant;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION count_old_bodies() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    PERFORM count_texts(tenant, sum(size)::bigint) FROM (
        SELECT tenant, -octet_length(body::text) AS size FROM removed
    ) AS sizes GROUP BY tenant;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION size_of_run(request JSON) RETURNS BIGINT LANGUAGE sql IMMUTABLE AS $$
    SELECT octet_length(request::text)
        + coalesce(substring(request::text from '"imported_from": ?\{"bytes": ?(\d{1,15})')::bigint, 0)
$$;

CREATE OR REPLACE FUNCTION size_of_submission(decisions JSON, input JSON, calls JSON) RETURNS BIGINT LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(octet_length(decisions::text), 0) + coalesce(octet_length(input::text), 0)
        + coalesce(octet_length(calls::text), 0)
$$;

CREATE OR REPLACE FUNCTION count_new_runs() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    PERFORM count_texts(tenant, sum(size)::bigint) FROM (
        SELECT tenant, size_of_run(request) AS size FROM added
    ) AS sizes GROUP BY tenant;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION count_old_runs() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    PERFORM count_texts(tenant, sum(size)::bigint) FROM (
        SELECT tenant, -size_of_run(request) AS size FROM removed
        UNION ALL SELECT removed.tenant, -size_of_submission(decisions, input, calls)
        FROM removed JOIN submissions ON submissions.run_id = removed.id
    ) AS sizes GROUP BY tenant;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION count_new_submissions() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    PERFORM count_texts(tenant, sum(size)::bigint) FROM (
        SELECT runs.tenant, size_of_submission(decisions, input, calls) AS size
        FROM added JOIN runs ON runs.id = added.run_id
    ) AS sizes GROUP BY tenant;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION count_new_contents() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    PERFORM count_texts(tenant, sum(size)::bigint) FROM (
        SELECT tenant, length(content) AS size FROM added WHERE id NOT LIKE 'file%'
    ) AS sizes GROUP BY tenant;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION count_old_contents() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    PERFORM count_texts(tenant, sum(size)::bigint) FROM (
        SELECT tenant, -length(content) AS size FROM removed WHERE id NOT LIKE 'file%'
    ) AS sizes GROUP BY tenant;
    RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER counted AFTER INSERT ON assistants
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_new_bodies();

CREATE OR REPLACE TRIGGER recounted AFTER UPDATE ON assistants
REFERENCING NEW TABLE AS added OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_changed_bodies();

CREATE OR REPLACE TRIGGER counted_off AFTER DELETE ON assistants
REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_old_bodies();

CREATE OR REPLACE TRIGGER counted AFTER INSERT ON threads
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_new_bodies();

CREATE OR REPLACE TRIGGER recounted AFTER UPDATE ON threads
REFERENCING NEW TABLE AS added OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_changed_bodies();

CREATE OR REPLACE TRIGGER counted_off AFTER DELETE ON threads
REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_old_bodies();

CREATE OR REPLACE TRIGGER counted AFTER INSERT ON messages
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_new_bodies();

CREATE OR REPLACE TRIGGER recounted AFTER UPDATE ON messages
REFERENCING NEW TABLE AS added OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_changed_bodies();

CREATE OR REPLACE TRIGGER counted_off AFTER DELETE ON messages
REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_old_bodies();

CREATE OR REPLACE TRIGGER counted AFTER INSERT ON conversations
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_new_bodies();

CREATE OR REPLACE TRIGGER recounted AFTER UPDATE ON conversations
REFERENCING NEW TABLE AS added OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_changed_bodies();

CREATE OR REPLACE TRIGGER counted_off AFTER DELETE ON conversations
REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_old_bodies();

CREATE OR REPLACE TRIGGER counted AFTER INSERT ON items
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_new_bodies();

CREATE OR REPLACE TRIGGER recounted AFTER UPDATE ON items
REFERENCING NEW TABLE AS added OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_changed_bodies();

CREATE OR REPLACE TRIGGER counted_off AFTER DELETE ON items
REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_old_bodies();

CREATE OR REPLACE TRIGGER counted AFTER INSERT ON registered_tools
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_new_bodies();

CREATE OR REPLACE TRIGGER recounted AFTER UPDATE ON registered_tools
REFERENCING NEW TABLE AS added OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_changed_bodies();

CREATE OR REPLACE TRIGGER counted_off AFTER DELETE ON registered_tools
REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_old_bodies();

CREATE OR REPLACE TRIGGER counted AFTER INSERT ON runs
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_new_runs();

CREATE OR REPLACE TRIGGER counted_off AFTER DELETE ON runs
REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_old_runs();

CREATE OR REPLACE TRIGGER counted AFTER INSERT ON submissions
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_new_submissions();

CREATE OR REPLACE TRIGGER counted AFTER INSERT ON contents
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_new_contents();

CREATE OR REPLACE TRIGGER counted_off AFTER DELETE ON contents
REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_old_contents();

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
) AS sizes GROUP BY tenant;
