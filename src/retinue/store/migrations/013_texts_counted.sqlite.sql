-- How many bytes of texts each tenant has: what clients wrote into any table. Triggers count them, since rows are written
-- and deleted in many places. Logs of imported runs say their size in the run's request. What answers and decisions of
-- people weigh is taken off with their run, whose row is deleted before them.
-- Beside older servers: triggers count for them, too.

CREATE TRIGGER assistants_counted AFTER INSERT ON assistants BEGIN
    INSERT INTO storage_used VALUES (NEW.tenant, 'texts', length(CAST(NEW.body AS BLOB)))
    ON CONFLICT (tenant, what) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER assistants_recounted AFTER UPDATE OF body ON assistants BEGIN
    INSERT INTO storage_used VALUES (NEW.tenant, 'texts', length(CAST(NEW.body AS BLOB)) - length(CAST(OLD.body AS BLOB)))
    ON CONFLICT (tenant, what) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER assistants_counted_off AFTER DELETE ON assistants BEGIN
    INSERT INTO storage_used VALUES (OLD.tenant, 'texts', -length(CAST(OLD.body AS BLOB)))
    ON CONFLICT (tenant, what) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER threads_counted AFTER INSERT ON threads BEGIN
    INSERT INTO storage_used VALUES (NEW.tenant, 'texts', length(CAST(NEW.body AS BLOB)))
    ON CONFLICT (tenant, what) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER threads_recounted AFTER UPDATE OF body ON threads BEGIN
    INSERT INTO storage_used VALUES (NEW.tenant, 'texts', length(CAST(NEW.body AS BLOB)) - length(CAST(OLD.body AS BLOB)))
    ON CONFLICT (tenant, what) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER threads_counted_off AFTER DELETE ON threads BEGIN
    INSERT INTO storage_used VALUES (OLD.tenant, 'texts', -length(CAST(OLD.body AS BLOB)))
    ON CONFLICT (tenant, what) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER messages_counted AFTER INSERT ON messages BEGIN
    INSERT INTO storage_used VALUES (NEW.tenant, 'texts', length(CAST(NEW.body AS BLOB)))
    ON CONFLICT (tenant, what) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER messages_recounted AFTER UPDATE OF body ON messages BEGIN
    INSERT INTO storage_used VALUES (NEW.tenant, 'texts', length(CAST(NEW.body AS BLOB)) - length(CAST(OLD.body AS BLOB)))
    ON CONFLICT (tenant, what) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER messages_counted_off AFTER DELETE ON messages BEGIN
    INSERT INTO storage_used VALUES (OLD.tenant, 'texts', -length(CAST(OLD.body AS BLOB)))
    ON CONFLICT (tenant, what) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER conversations_counted AFTER INSERT ON conversations BEGIN
    INSERT INTO storage_used VALUES (NEW.tenant, 'texts', length(CAST(NEW.body AS BLOB)))
    ON CONFLICT (tenant, what) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER conversations_recounted AFTER UPDATE OF body ON conversations BEGIN
    INSERT INTO storage_used VALUES (NEW.tenant, 'texts', length(CAST(NEW.body AS BLOB)) - length(CAST(OLD.body AS BLOB)))
    ON CONFLICT (tenant, what) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER conversations_counted_off AFTER DELETE ON conversations BEGIN
    INSERT INTO storage_used VALUES (OLD.tenant, 'texts', -length(CAST(OLD.body AS BLOB)))
    ON CONFLICT (tenant, what) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER items_counted AFTER INSERT ON items BEGIN
    INSERT INTO storage_used VALUES (NEW.tenant, 'texts', length(CAST(NEW.body AS BLOB)))
    ON CONFLICT (tenant, what) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER items_recounted AFTER UPDATE OF body ON items BEGIN
    INSERT INTO storage_used VALUES (NEW.tenant, 'texts', length(CAST(NEW.body AS BLOB)) - length(CAST(OLD.body AS BLOB)))
    ON CONFLICT (tenant, what) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER items_counted_off AFTER DELETE ON items BEGIN
    INSERT INTO storage_used VALUES (OLD.tenant, 'texts', -length(CAST(OLD.body AS BLOB)))
    ON CONFLICT (tenant, what) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER registered_tools_counted AFTER INSERT ON registered_tools BEGIN
    INSERT INTO storage_used VALUES (NEW.tenant, 'texts', length(CAST(NEW.body AS BLOB)))
    ON CONFLICT (tenant, what) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER registered_tools_recounted AFTER UPDATE OF body ON registered_tools BEGIN
    INSERT INTO storage_used VALUES (NEW.tenant, 'texts', length(CAST(NEW.body AS BLOB)) - length(CAST(OLD.body AS BLOB)))
    ON CONFLICT (tenant, what) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER registered_tools_counted_off AFTER DELETE ON registered_tools BEGIN
    INSERT INTO storage_used VALUES (OLD.tenant, 'texts', -length(CAST(OLD.body AS BLOB)))
    ON CONFLICT (tenant, what) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER runs_counted AFTER INSERT ON runs BEGIN
    INSERT INTO storage_used VALUES (
        NEW.tenant, 'texts', length(CAST(NEW.request AS BLOB)) + CASE WHEN json_valid(NEW.request) THEN coalesce(json_extract(NEW.request, '$.imported_from.bytes'), 0) ELSE 0 END
    )
    ON CONFLICT (tenant, what) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER submissions_counted AFTER INSERT ON submissions BEGIN
    INSERT INTO storage_used
    SELECT tenant, 'texts', coalesce(length(CAST(NEW.decisions AS BLOB)), 0) + coalesce(length(CAST(NEW.input AS BLOB)), 0) + coalesce(length(CAST(NEW.calls AS BLOB)), 0)
    FROM runs WHERE id = NEW.run_id
    ON CONFLICT (tenant, what) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER runs_counted_off AFTER DELETE ON runs BEGIN
    INSERT INTO storage_used VALUES (
        OLD.tenant, 'texts', -(length(CAST(OLD.request AS BLOB)) + CASE WHEN json_valid(OLD.request) THEN coalesce(json_extract(OLD.request, '$.imported_from.bytes'), 0) ELSE 0 END) - coalesce((
            SELECT sum(coalesce(length(CAST(decisions AS BLOB)), 0) + coalesce(length(CAST(input AS BLOB)), 0) + coalesce(length(CAST(calls AS BLOB)), 0)) FROM submissions WHERE run_id = OLD.id
        ), 0)
    )
    ON CONFLICT (tenant, what) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER contents_counted AFTER INSERT ON contents WHEN NEW.id NOT LIKE 'file%' BEGIN
    INSERT INTO storage_used VALUES (NEW.tenant, 'texts', length(NEW.content))
    ON CONFLICT (tenant, what) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER contents_counted_off AFTER DELETE ON contents WHEN OLD.id NOT LIKE 'file%' BEGIN
    INSERT INTO storage_used VALUES (OLD.tenant, 'texts', -length(OLD.content))
    ON CONFLICT (tenant, what) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

INSERT INTO storage_used (tenant, what, bytes) SELECT tenant, 'texts', sum(size) FROM (
    SELECT tenant, length(CAST(body AS BLOB)) AS size FROM assistants
    UNION ALL SELECT tenant, length(CAST(body AS BLOB)) AS size FROM threads
    UNION ALL SELECT tenant, length(CAST(body AS BLOB)) AS size FROM messages
    UNION ALL SELECT tenant, length(CAST(body AS BLOB)) AS size FROM conversations
    UNION ALL SELECT tenant, length(CAST(body AS BLOB)) AS size FROM items
    UNION ALL SELECT tenant, length(CAST(body AS BLOB)) AS size FROM registered_tools
    UNION ALL SELECT tenant, length(CAST(request AS BLOB)) + CASE WHEN json_valid(request) THEN coalesce(json_extract(request, '$.imported_from.bytes'), 0) ELSE 0 END FROM runs
    UNION ALL SELECT runs.tenant, coalesce(length(CAST(submissions.decisions AS BLOB)), 0) + coalesce(length(CAST(submissions.input AS BLOB)), 0) + coalesce(length(CAST(submissions.calls AS BLOB)), 0)
    FROM submissions JOIN runs ON runs.id = submissions.run_id
    UNION ALL SELECT tenant, length(content) FROM contents WHERE id NOT LIKE 'file%'
) AS sizes GROUP BY tenant;
