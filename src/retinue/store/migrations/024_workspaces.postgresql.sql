-- Beside older servers: they neither read nor write what is here, and what they delete takes it along
CREATE TABLE workspaces (
    id VARCHAR(64) PRIMARY KEY NOT NULL, tenant VARCHAR(64) NOT NULL,
    thread_id VARCHAR(64) UNIQUE, conversation_id VARCHAR(64) UNIQUE, run_id VARCHAR(64) UNIQUE,
    FOREIGN KEY(thread_id) REFERENCES threads (id) ON DELETE CASCADE,
    FOREIGN KEY(conversation_id) REFERENCES conversations (id) ON DELETE CASCADE,
    FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);

CREATE TABLE workspace_versions (
    workspace_id VARCHAR(64) NOT NULL,
    version INTEGER NOT NULL, key TEXT NOT NULL, at FLOAT NOT NULL,
    PRIMARY KEY (workspace_id, version), UNIQUE (workspace_id, key),
    FOREIGN KEY(workspace_id) REFERENCES workspaces (id) ON DELETE CASCADE
);

CREATE TABLE workspace_files (
    workspace_id VARCHAR(64) NOT NULL,
    path VARCHAR(512) COLLATE "C" NOT NULL, version INTEGER NOT NULL, until INTEGER,
    tenant VARCHAR(64) NOT NULL, blob_id VARCHAR(64) NOT NULL, size INTEGER NOT NULL,
    PRIMARY KEY (workspace_id, path, version),
    FOREIGN KEY(workspace_id) REFERENCES workspaces (id) ON DELETE CASCADE
);

CREATE INDEX files_there ON workspace_files (workspace_id, path) WHERE until IS NULL;

CREATE INDEX files_of_blob ON workspace_files (tenant, blob_id);

CREATE TABLE workspace_blobs (
    tenant VARCHAR(64) NOT NULL, id VARCHAR(64) NOT NULL, created_at BIGINT NOT NULL, content BYTEA NOT NULL,
    PRIMARY KEY (tenant, id)
);

CREATE INDEX workspace_blobs_by_age ON workspace_blobs (created_at, tenant, id);

CREATE FUNCTION count_workspace_blobs() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO storage_used SELECT tenant, 'workspaces', pg_backend_pid(), sum(length(content))
        FROM added GROUP BY tenant ON CONFLICT (tenant, what, part) DO UPDATE SET bytes = storage_used.bytes + excluded.bytes;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO storage_used SELECT tenant, 'workspaces', pg_backend_pid(), -sum(length(content))
        FROM removed GROUP BY tenant ON CONFLICT (tenant, what, part) DO UPDATE SET bytes = storage_used.bytes + excluded.bytes;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER counted_at_insert AFTER INSERT ON workspace_blobs REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_workspace_blobs();

CREATE TRIGGER counted_at_delete AFTER DELETE ON workspace_blobs REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_workspace_blobs();
