-- Beside older servers: they know nothing of these texts, which go with their runs
CREATE TABLE run_texts (
    run_id VARCHAR(64) NOT NULL,
    tenant VARCHAR(64) NOT NULL,
    "key" VARCHAR(64) NOT NULL,
    call_id VARCHAR(64),
    content BLOB NOT NULL,
    PRIMARY KEY (run_id, "key"),
    FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);

CREATE INDEX run_texts_by_key ON run_texts (tenant, "key");

CREATE TRIGGER run_texts_counted_at_insert AFTER INSERT ON run_texts BEGIN
    INSERT INTO storage_used VALUES (NEW.tenant, 'texts', 0, length(NEW.content))
    ON CONFLICT (tenant, what, part) DO UPDATE SET bytes = storage_used.bytes + excluded.bytes;
END;

CREATE TRIGGER run_texts_counted_at_delete AFTER DELETE ON run_texts BEGIN
    INSERT INTO storage_used VALUES (OLD.tenant, 'texts', 0, -(length(OLD.content)))
    ON CONFLICT (tenant, what, part) DO UPDATE SET bytes = storage_used.bytes + excluded.bytes;
END;
