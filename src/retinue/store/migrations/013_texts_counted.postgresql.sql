-- How many bytes of texts each tenant has: what clients wrote into any table. Triggers count them, since rows are written
-- and deleted in many places. Logs of imported runs say their size in the run's request. What answers and decisions of
-- people weigh is taken off with their run, whose row is deleted before them.
-- Beside older servers: triggers count for them, too.
-- Each connection has a part of its own, so that none waits for another.

CREATE FUNCTION count_texts(owner VARCHAR, size BIGINT) RETURNS VOID LANGUAGE sql AS $$
    INSERT INTO storage_used VALUES (owner, 'texts' || pg_backend_pid(), size)
    ON CONFLICT (tenant, what) DO UPDATE SET bytes = storage_used.bytes + excluded.bytes
$$;

CREATE FUNCTION count_body() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN PERFORM count_texts(OLD.tenant, -octet_length(OLD.body::text)); END IF;
    IF TG_OP <> 'DELETE' THEN PERFORM count_texts(NEW.tenant, octet_length(NEW.body::text)); END IF;
    RETURN NULL;
END $$;

-- only what Retinue wrote is read as JSON: PostgreSQL cannot look into one that has a \u0000 anywhere
CREATE FUNCTION size_of_run(kind TEXT, request JSON) RETURNS BIGINT LANGUAGE sql IMMUTABLE AS $$
    SELECT octet_length(request::text)
        + CASE kind WHEN 'imported' THEN coalesce((request -> 'imported_from' ->> 'bytes')::bigint, 0) ELSE 0 END
$$;

CREATE FUNCTION size_of_submission(decisions JSON, input JSON, calls JSON) RETURNS BIGINT LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(octet_length(decisions::text), 0) + coalesce(octet_length(input::text), 0)
        + coalesce(octet_length(calls::text), 0)
$$;

CREATE FUNCTION count_run() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM count_texts(NEW.tenant, size_of_run(NEW.kind, NEW.request));
    ELSE
        PERFORM count_texts(OLD.tenant, -size_of_run(OLD.kind, OLD.request) - coalesce((
            SELECT sum(size_of_submission(decisions, input, calls)) FROM submissions WHERE run_id = OLD.id
        ), 0)::bigint);
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION count_submission() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    PERFORM count_texts(tenant, size_of_submission(NEW.decisions, NEW.input, NEW.calls)) FROM runs WHERE id = NEW.run_id;
    RETURN NULL;
END $$;

CREATE FUNCTION count_content() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM count_texts(NEW.tenant, length(NEW.content));
    ELSE
        PERFORM count_texts(OLD.tenant, -length(OLD.content));
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER counted AFTER INSERT OR UPDATE OF body OR DELETE ON assistants
FOR EACH ROW EXECUTE FUNCTION count_body();

CREATE TRIGGER counted AFTER INSERT OR UPDATE OF body OR DELETE ON threads
FOR EACH ROW EXECUTE FUNCTION count_body();

CREATE TRIGGER counted AFTER INSERT OR UPDATE OF body OR DELETE ON messages
FOR EACH ROW EXECUTE FUNCTION count_body();

CREATE TRIGGER counted AFTER INSERT OR UPDATE OF body OR DELETE ON conversations
FOR EACH ROW EXECUTE FUNCTION count_body();

CREATE TRIGGER counted AFTER INSERT OR UPDATE OF body OR DELETE ON items
FOR EACH ROW EXECUTE FUNCTION count_body();

CREATE TRIGGER counted AFTER INSERT OR UPDATE OF body OR DELETE ON registered_tools
FOR EACH ROW EXECUTE FUNCTION count_body();

CREATE TRIGGER counted AFTER INSERT OR DELETE ON runs FOR EACH ROW EXECUTE FUNCTION count_run();

CREATE TRIGGER counted AFTER INSERT ON submissions FOR EACH ROW EXECUTE FUNCTION count_submission();

CREATE TRIGGER counted AFTER INSERT ON contents
FOR EACH ROW WHEN (NEW.id NOT LIKE 'file%') EXECUTE FUNCTION count_content();

CREATE TRIGGER counted_off AFTER DELETE ON contents
FOR EACH ROW WHEN (OLD.id NOT LIKE 'file%') EXECUTE FUNCTION count_content();

INSERT INTO storage_used (tenant, what, bytes) SELECT tenant, 'texts', sum(size) FROM (
    SELECT tenant, octet_length(body::text) AS size FROM assistants
    UNION ALL SELECT tenant, octet_length(body::text) AS size FROM threads
    UNION ALL SELECT tenant, octet_length(body::text) AS size FROM messages
    UNION ALL SELECT tenant, octet_length(body::text) AS size FROM conversations
    UNION ALL SELECT tenant, octet_length(body::text) AS size FROM items
    UNION ALL SELECT tenant, octet_length(body::text) AS size FROM registered_tools
    UNION ALL SELECT tenant, size_of_run(kind, request) FROM runs
    UNION ALL SELECT runs.tenant, coalesce(octet_length(submissions.decisions::text), 0) + coalesce(octet_length(submissions.input::text), 0) + coalesce(octet_length(submissions.calls::text), 0)
    FROM submissions JOIN runs ON runs.id = submissions.run_id
    UNION ALL SELECT tenant, length(content) FROM contents WHERE id NOT LIKE 'file%'
) AS sizes GROUP BY tenant;
