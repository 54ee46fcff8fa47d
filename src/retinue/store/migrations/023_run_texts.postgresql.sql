-- Beside older servers: they know nothing of these texts, which go with their runs
CREATE TABLE run_texts (
    run_id VARCHAR(64) NOT NULL,
    tenant VARCHAR(64) NOT NULL,
    key VARCHAR(64) NOT NULL,
    call_id VARCHAR(64),
    content BYTEA NOT NULL,
    PRIMARY KEY (run_id, key),
    FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);

CREATE INDEX run_texts_by_key ON run_texts (tenant, key);

CREATE FUNCTION count_run_texts() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO storage_used SELECT tenant, 'texts', pg_backend_pid(), sum(length(content))
        FROM added GROUP BY tenant ON CONFLICT (tenant, what, part) DO UPDATE SET bytes = storage_used.bytes + excluded.bytes;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO storage_used SELECT tenant, 'texts', pg_backend_pid(), -sum(length(content))
        FROM removed GROUP BY tenant ON CONFLICT (tenant, what, part) DO UPDATE SET bytes = storage_used.bytes + excluded.bytes;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER counted_at_insert AFTER INSERT ON run_texts
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_run_texts();

CREATE TRIGGER counted_at_delete AFTER DELETE ON run_texts
REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_run_texts();
