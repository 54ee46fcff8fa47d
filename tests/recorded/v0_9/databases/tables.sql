CREATE TABLE assistants (
	number BIGSERIAL NOT NULL,
	tenant VARCHAR(64) NOT NULL,
	id VARCHAR(64) NOT NULL,
	created_at BIGINT NOT NULL,
	body JSON NOT NULL,
	PRIMARY KEY (number),
	UNIQUE (id)
);

CREATE INDEX assistants_of_tenant ON assistants (tenant, number);

CREATE TABLE audit_entries (
	number BIGSERIAL NOT NULL,
	tenant VARCHAR(64) NOT NULL,
	id VARCHAR(64) NOT NULL,
	created_at BIGINT NOT NULL,
	actor VARCHAR(128) NOT NULL,
	action VARCHAR(32) NOT NULL,
	target VARCHAR(256) NOT NULL,
	detail JSON NOT NULL,
	request_id VARCHAR(64),
	address VARCHAR(64),
	PRIMARY KEY (number),
	UNIQUE (id)
);

CREATE INDEX audit_entries_by_age ON audit_entries (created_at);

CREATE INDEX audit_entries_of_tenant ON audit_entries (tenant, number);

CREATE TABLE conversations (
	number BIGSERIAL NOT NULL,
	tenant VARCHAR(64) NOT NULL,
	id VARCHAR(64) NOT NULL,
	created_at BIGINT NOT NULL,
	body JSON NOT NULL,
	PRIMARY KEY (number),
	UNIQUE (id)
);

CREATE INDEX conversations_of_tenant ON conversations (tenant, number);

CREATE TABLE files (
	number BIGSERIAL NOT NULL,
	tenant VARCHAR(64) NOT NULL,
	id VARCHAR(64) NOT NULL,
	created_at BIGINT NOT NULL,
	expires_at BIGINT,
	body JSON NOT NULL,
	PRIMARY KEY (number),
	UNIQUE (id)
);

CREATE INDEX files_by_expiry ON files (expires_at);

CREATE INDEX files_of_tenant ON files (tenant, number);

CREATE TABLE images (
	tenant VARCHAR(64) NOT NULL,
	id VARCHAR(64) NOT NULL,
	created_at BIGINT NOT NULL,
	media_type VARCHAR(32) NOT NULL,
	bytes INTEGER NOT NULL,
	content BYTEA NOT NULL,
	PRIMARY KEY (tenant, id)
);

CREATE INDEX images_by_age ON images (created_at);

CREATE TABLE keys (
	hash VARCHAR(64) NOT NULL,
	tenant VARCHAR(64) NOT NULL,
	created_at BIGINT NOT NULL,
	id VARCHAR(64),
	name VARCHAR(256),
	prefix VARCHAR(16),
	scopes JSON,
	limits JSON,
	expires_at BIGINT,
	revoked_at BIGINT,
	PRIMARY KEY (hash)
);

CREATE INDEX keys_by_age ON keys (created_at);

CREATE TABLE memories (
	number BIGSERIAL NOT NULL,
	tenant VARCHAR(64) NOT NULL,
	id VARCHAR(64) NOT NULL,
	created_at BIGINT NOT NULL,
	owner VARCHAR(300) NOT NULL,
	agent TEXT NOT NULL,
	part INTEGER NOT NULL,
	kind VARCHAR(16) NOT NULL,
	updated_at BIGINT NOT NULL,
	bytes INTEGER NOT NULL,
	body TEXT NOT NULL,
	PRIMARY KEY (number),
	UNIQUE (tenant, owner, agent, part),
	UNIQUE (id)
);

CREATE INDEX memories_by_age ON memories (updated_at);

CREATE INDEX memories_of_tenant ON memories (tenant, number);

CREATE TABLE processes (
	id VARCHAR(64) NOT NULL,
	seen_at FLOAT NOT NULL,
	PRIMARY KEY (id)
);

CREATE TABLE quotas (
	tenant VARCHAR(64) NOT NULL,
	what VARCHAR(8) NOT NULL,
	period VARCHAR(8) NOT NULL,
	most BIGINT,
	PRIMARY KEY (tenant, what, period)
);

CREATE TABLE registered_tools (
	number BIGSERIAL NOT NULL,
	tenant VARCHAR(64) NOT NULL,
	id VARCHAR(64) NOT NULL,
	created_at BIGINT NOT NULL,
	name VARCHAR(64) NOT NULL,
	body JSON NOT NULL,
	PRIMARY KEY (number),
	UNIQUE (tenant, name),
	UNIQUE (id)
);

CREATE INDEX registered_tools_of_tenant ON registered_tools (tenant, number);

CREATE TABLE requests (
	tenant VARCHAR(64) NOT NULL,
	key VARCHAR(256) NOT NULL,
	route VARCHAR(256) NOT NULL,
	created_at BIGINT NOT NULL,
	body_hash VARCHAR(64) NOT NULL,
	response JSON,
	PRIMARY KEY (tenant, key, route)
);

CREATE INDEX requests_by_age ON requests (created_at);

CREATE TABLE runs (
	number BIGSERIAL NOT NULL,
	tenant VARCHAR(64) NOT NULL,
	id VARCHAR(64) NOT NULL,
	created_at BIGINT NOT NULL,
	key_id VARCHAR(64),
	kind VARCHAR(16) NOT NULL,
	agent TEXT NOT NULL,
	thread_id VARCHAR(64),
	parent_id VARCHAR(64),
	root_id VARCHAR(64),
	call_id VARCHAR(64),
	status VARCHAR(20) NOT NULL,
	holds BOOLEAN NOT NULL,
	expires_at BIGINT,
	epoch INTEGER NOT NULL,
	driver VARCHAR(64),
	attempts INTEGER NOT NULL,
	progress INTEGER,
	started_at BIGINT,
	ended_at BIGINT,
	ending VARCHAR(16),
	error JSON,
	incomplete VARCHAR(64),
	prompt_tokens BIGINT,
	completion_tokens BIGINT,
	cached_tokens BIGINT,
	metadata JSON NOT NULL,
	waiting JSON,
	turns INTEGER NOT NULL,
	deleted JSON,
	stored BOOLEAN NOT NULL,
	snapshot VARCHAR(64),
	forked_from VARCHAR(64),
	counted INTEGER DEFAULT 0 NOT NULL,
	request JSON NOT NULL,
	PRIMARY KEY (number),
	UNIQUE (id),
	FOREIGN KEY(parent_id) REFERENCES runs (id) ON DELETE CASCADE
);

CREATE UNIQUE INDEX one_run_at_a_time ON runs (thread_id) WHERE holds;

CREATE INDEX runs_by_status ON runs (status, created_at);

CREATE INDEX runs_due ON runs (expires_at) WHERE holds;

CREATE INDEX runs_not_stored ON runs (created_at) WHERE NOT stored AND thread_id IS NULL AND parent_id IS NULL;

CREATE INDEX runs_of_agent ON runs (tenant, agent, number);

CREATE INDEX runs_of_driver ON runs (driver, status);

CREATE INDEX runs_of_key ON runs (key_id, status);

CREATE INDEX runs_of_origin ON runs (forked_from);

CREATE INDEX runs_of_parent ON runs (parent_id);

CREATE INDEX runs_of_snapshot ON runs (tenant, snapshot) WHERE snapshot IS NOT NULL;

CREATE INDEX runs_of_tenant ON runs (tenant, number);

CREATE INDEX runs_of_tenant_by_status ON runs (tenant, status, number);

CREATE INDEX runs_of_tenant_by_time ON runs (tenant, created_at);

CREATE INDEX runs_of_thread ON runs (thread_id, number);

CREATE TABLE secrets (
	name VARCHAR(64) NOT NULL,
	value BYTEA NOT NULL,
	PRIMARY KEY (name)
);

CREATE TABLE snapshots (
	tenant VARCHAR(64) NOT NULL,
	hash VARCHAR(64) NOT NULL,
	body JSON NOT NULL,
	PRIMARY KEY (tenant, hash)
);

CREATE TABLE storage_used (
	tenant VARCHAR(64) NOT NULL,
	what VARCHAR(16) NOT NULL,
	part INTEGER NOT NULL,
	bytes BIGINT NOT NULL,
	PRIMARY KEY (tenant, what, part)
);

CREATE TABLE threads (
	number BIGSERIAL NOT NULL,
	tenant VARCHAR(64) NOT NULL,
	id VARCHAR(64) NOT NULL,
	created_at BIGINT NOT NULL,
	key VARCHAR(256),
	body JSON NOT NULL,
	PRIMARY KEY (number),
	UNIQUE (tenant, key),
	UNIQUE (id)
);

CREATE INDEX threads_of_tenant ON threads (tenant, number);

CREATE TABLE usage_sums (
	tenant VARCHAR(64) NOT NULL,
	day INTEGER NOT NULL,
	part VARCHAR(64) NOT NULL,
	runs BIGINT NOT NULL,
	tokens BIGINT NOT NULL,
	cost BIGINT NOT NULL,
	PRIMARY KEY (tenant, day, part)
);

CREATE TABLE vector_stores (
	number BIGSERIAL NOT NULL,
	tenant VARCHAR(64) NOT NULL,
	id VARCHAR(64) NOT NULL,
	created_at BIGINT NOT NULL,
	expires_at BIGINT,
	body JSON NOT NULL,
	PRIMARY KEY (number),
	UNIQUE (id)
);

CREATE INDEX vector_stores_by_expiry ON vector_stores (expires_at);

CREATE INDEX vector_stores_of_tenant ON vector_stores (tenant, number);

CREATE TABLE versions (
	version SERIAL NOT NULL,
	compatible BOOLEAN,
	PRIMARY KEY (version)
);

CREATE TABLE contents (
	tenant VARCHAR(64) NOT NULL,
	id VARCHAR(64) NOT NULL,
	content BYTEA NOT NULL,
	PRIMARY KEY (id),
	FOREIGN KEY(id) REFERENCES files (id) ON DELETE CASCADE
);

CREATE TABLE events (
	run_id VARCHAR(64) NOT NULL,
	seq INTEGER NOT NULL,
	epoch INTEGER NOT NULL,
	at FLOAT NOT NULL,
	kind VARCHAR(16) NOT NULL,
	payload TEXT NOT NULL,
	version SMALLINT DEFAULT 1 NOT NULL,
	pieces TEXT,
	PRIMARY KEY (run_id, seq),
	FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);

CREATE TABLE items (
	number BIGSERIAL NOT NULL,
	tenant VARCHAR(64) NOT NULL,
	id VARCHAR(64) NOT NULL,
	created_at BIGINT NOT NULL,
	conversation_id VARCHAR(64) NOT NULL,
	item_id VARCHAR(64) NOT NULL,
	run_id VARCHAR(64),
	body JSON NOT NULL,
	PRIMARY KEY (number),
	UNIQUE (conversation_id, item_id),
	UNIQUE (id),
	FOREIGN KEY(conversation_id) REFERENCES conversations (id) ON DELETE CASCADE
);

CREATE INDEX items_by_id ON items (tenant, item_id);

CREATE INDEX items_of_conversation ON items (conversation_id, number);

CREATE INDEX items_of_tenant ON items (tenant, number);

CREATE TABLE messages (
	number BIGSERIAL NOT NULL,
	tenant VARCHAR(64) NOT NULL,
	id VARCHAR(64) NOT NULL,
	created_at BIGINT NOT NULL,
	thread_id VARCHAR(64) NOT NULL,
	run_id VARCHAR(64),
	body JSON NOT NULL,
	PRIMARY KEY (number),
	UNIQUE (id),
	FOREIGN KEY(thread_id) REFERENCES threads (id) ON DELETE CASCADE
);

CREATE INDEX messages_of_run ON messages (run_id);

CREATE INDEX messages_of_tenant ON messages (tenant, number);

CREATE INDEX messages_of_thread ON messages (thread_id, number);

CREATE TABLE run_images (
	run_id VARCHAR(64) NOT NULL,
	tenant VARCHAR(64) NOT NULL,
	image_id VARCHAR(64) NOT NULL,
	PRIMARY KEY (run_id, image_id),
	FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);

CREATE INDEX runs_of_image ON run_images (tenant, image_id);

CREATE TABLE run_messages (
	run_id VARCHAR(64) NOT NULL,
	tenant VARCHAR(64) NOT NULL,
	content BYTEA NOT NULL,
	PRIMARY KEY (run_id),
	FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);

CREATE TABLE run_metadata (
	run_id VARCHAR(64) NOT NULL,
	tenant VARCHAR(64) NOT NULL,
	name VARCHAR(64) NOT NULL,
	value VARCHAR(512) NOT NULL,
	number BIGINT NOT NULL,
	PRIMARY KEY (run_id, name),
	FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);

CREATE INDEX runs_by_metadata ON run_metadata (tenant, name, value, number);

CREATE TABLE run_tools (
	run_id VARCHAR(64) NOT NULL,
	tenant VARCHAR(64) NOT NULL,
	body JSON NOT NULL,
	PRIMARY KEY (run_id),
	FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);

CREATE TABLE submissions (
	run_id VARCHAR(64) NOT NULL,
	tenant VARCHAR(64) NOT NULL,
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
	UNIQUE (run_id, mark),
	FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);

CREATE TABLE vector_store_batches (
	number BIGSERIAL NOT NULL,
	tenant VARCHAR(64) NOT NULL,
	id VARCHAR(64) NOT NULL,
	created_at BIGINT NOT NULL,
	vector_store_id VARCHAR(64) NOT NULL,
	body JSON NOT NULL,
	PRIMARY KEY (number),
	UNIQUE (id),
	FOREIGN KEY(vector_store_id) REFERENCES vector_stores (id) ON DELETE CASCADE
);

CREATE INDEX batches_of_store ON vector_store_batches (vector_store_id);

CREATE INDEX vector_store_batches_of_tenant ON vector_store_batches (tenant, number);

CREATE TABLE vector_store_files (
	number BIGSERIAL NOT NULL,
	tenant VARCHAR(64) NOT NULL,
	id VARCHAR(64) NOT NULL,
	created_at BIGINT NOT NULL,
	vector_store_id VARCHAR(64) NOT NULL,
	file_id VARCHAR(64) NOT NULL,
	batch_id VARCHAR(64),
	status VARCHAR(20) NOT NULL,
	usage_bytes INTEGER NOT NULL,
	indexer VARCHAR(64),
	body JSON NOT NULL,
	PRIMARY KEY (number),
	UNIQUE (vector_store_id, file_id),
	UNIQUE (id),
	FOREIGN KEY(vector_store_id) REFERENCES vector_stores (id) ON DELETE CASCADE,
	FOREIGN KEY(file_id) REFERENCES files (id) ON DELETE CASCADE
);

CREATE INDEX bytes_in_stores ON vector_store_files (tenant, usage_bytes);

CREATE INDEX entries_of_file ON vector_store_files (file_id);

CREATE INDEX files_by_status ON vector_store_files (status, number);

CREATE INDEX files_in_turn ON vector_store_files (status, tenant, number);

CREATE INDEX files_of_batch ON vector_store_files (batch_id);

CREATE INDEX vector_store_files_of_tenant ON vector_store_files (tenant, number);

CREATE FUNCTION count_assistants() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO storage_used SELECT tenant, 'texts', pg_backend_pid(), sum(coalesce(octet_length(body::text), 0))
        FROM added GROUP BY tenant ON CONFLICT (tenant, what, part) DO UPDATE SET bytes = storage_used.bytes + excluded.bytes;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO storage_used SELECT tenant, 'texts', pg_backend_pid(), -sum(coalesce(octet_length(body::text), 0))
        FROM removed GROUP BY tenant ON CONFLICT (tenant, what, part) DO UPDATE SET bytes = storage_used.bytes + excluded.bytes;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER counted_at_insert AFTER INSERT ON assistants REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_assistants();

CREATE TRIGGER counted_at_delete AFTER DELETE ON assistants REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_assistants();

CREATE TRIGGER counted_at_update AFTER UPDATE ON assistants REFERENCING NEW TABLE AS added OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_assistants();

CREATE FUNCTION count_threads() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO storage_used SELECT tenant, 'texts', pg_backend_pid(), sum(coalesce(octet_length(body::text), 0))
        FROM added GROUP BY tenant ON CONFLICT (tenant, what, part) DO UPDATE SET bytes = storage_used.bytes + excluded.bytes;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO storage_used SELECT tenant, 'texts', pg_backend_pid(), -sum(coalesce(octet_length(body::text), 0))
        FROM removed GROUP BY tenant ON CONFLICT (tenant, what, part) DO UPDATE SET bytes = storage_used.bytes + excluded.bytes;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER counted_at_insert AFTER INSERT ON threads REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_threads();

CREATE TRIGGER counted_at_delete AFTER DELETE ON threads REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_threads();

CREATE TRIGGER counted_at_update AFTER UPDATE ON threads REFERENCING NEW TABLE AS added OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_threads();

CREATE FUNCTION count_messages() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO storage_used SELECT tenant, 'texts', pg_backend_pid(), sum(coalesce(octet_length(body::text), 0))
        FROM added GROUP BY tenant ON CONFLICT (tenant, what, part) DO UPDATE SET bytes = storage_used.bytes + excluded.bytes;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO storage_used SELECT tenant, 'texts', pg_backend_pid(), -sum(coalesce(octet_length(body::text), 0))
        FROM removed GROUP BY tenant ON CONFLICT (tenant, what, part) DO UPDATE SET bytes = storage_used.bytes + excluded.bytes;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER counted_at_insert AFTER INSERT ON messages REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_messages();

CREATE TRIGGER counted_at_delete AFTER DELETE ON messages REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_messages();

CREATE TRIGGER counted_at_update AFTER UPDATE ON messages REFERENCING NEW TABLE AS added OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_messages();

CREATE FUNCTION count_conversations() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO storage_used SELECT tenant, 'texts', pg_backend_pid(), sum(coalesce(octet_length(body::text), 0))
        FROM added GROUP BY tenant ON CONFLICT (tenant, what, part) DO UPDATE SET bytes = storage_used.bytes + excluded.bytes;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO storage_used SELECT tenant, 'texts', pg_backend_pid(), -sum(coalesce(octet_length(body::text), 0))
        FROM removed GROUP BY tenant ON CONFLICT (tenant, what, part) DO UPDATE SET bytes = storage_used.bytes + excluded.bytes;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER counted_at_insert AFTER INSERT ON conversations REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_conversations();

CREATE TRIGGER counted_at_delete AFTER DELETE ON conversations REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_conversations();

CREATE TRIGGER counted_at_update AFTER UPDATE ON conversations REFERENCING NEW TABLE AS added OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_conversations();

CREATE FUNCTION count_items() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO storage_used SELECT tenant, 'texts', pg_backend_pid(), sum(coalesce(octet_length(body::text), 0))
        FROM added GROUP BY tenant ON CONFLICT (tenant, what, part) DO UPDATE SET bytes = storage_used.bytes + excluded.bytes;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO storage_used SELECT tenant, 'texts', pg_backend_pid(), -sum(coalesce(octet_length(body::text), 0))
        FROM removed GROUP BY tenant ON CONFLICT (tenant, what, part) DO UPDATE SET bytes = storage_used.bytes + excluded.bytes;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER counted_at_insert AFTER INSERT ON items REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_items();

CREATE TRIGGER counted_at_delete AFTER DELETE ON items REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_items();

CREATE TRIGGER counted_at_update AFTER UPDATE ON items REFERENCING NEW TABLE AS added OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_items();

CREATE FUNCTION count_registered_tools() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO storage_used SELECT tenant, 'texts', pg_backend_pid(), sum(coalesce(octet_length(body::text), 0))
        FROM added GROUP BY tenant ON CONFLICT (tenant, what, part) DO UPDATE SET bytes = storage_used.bytes + excluded.bytes;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO storage_used SELECT tenant, 'texts', pg_backend_pid(), -sum(coalesce(octet_length(body::text), 0))
        FROM removed GROUP BY tenant ON CONFLICT (tenant, what, part) DO UPDATE SET bytes = storage_used.bytes + excluded.bytes;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER counted_at_insert AFTER INSERT ON registered_tools REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_registered_tools();

CREATE TRIGGER counted_at_delete AFTER DELETE ON registered_tools REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_registered_tools();

CREATE TRIGGER counted_at_update AFTER UPDATE ON registered_tools REFERENCING NEW TABLE AS added OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_registered_tools();

CREATE FUNCTION count_runs() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO storage_used SELECT tenant, 'texts', pg_backend_pid(), sum(coalesce(octet_length(request::text), 0) + coalesce(substring(request::text from '"imported_from": ?\{"bytes": ?(\d{1,15})')::bigint, 0))
        FROM added GROUP BY tenant ON CONFLICT (tenant, what, part) DO UPDATE SET bytes = storage_used.bytes + excluded.bytes;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO storage_used SELECT tenant, 'texts', pg_backend_pid(), -sum(coalesce(octet_length(request::text), 0) + coalesce(substring(request::text from '"imported_from": ?\{"bytes": ?(\d{1,15})')::bigint, 0))
        FROM removed GROUP BY tenant ON CONFLICT (tenant, what, part) DO UPDATE SET bytes = storage_used.bytes + excluded.bytes;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER counted_at_insert AFTER INSERT ON runs REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_runs();

CREATE TRIGGER counted_at_delete AFTER DELETE ON runs REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_runs();

CREATE FUNCTION count_run_messages() RETURNS TRIGGER LANGUAGE plpgsql AS $$
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

CREATE TRIGGER counted_at_insert AFTER INSERT ON run_messages REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_run_messages();

CREATE TRIGGER counted_at_delete AFTER DELETE ON run_messages REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_run_messages();

CREATE FUNCTION count_submissions() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO storage_used SELECT tenant, 'texts', pg_backend_pid(), sum(coalesce(octet_length(decisions::text), 0) + coalesce(octet_length(input::text), 0) + coalesce(octet_length(calls::text), 0))
        FROM added GROUP BY tenant ON CONFLICT (tenant, what, part) DO UPDATE SET bytes = storage_used.bytes + excluded.bytes;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO storage_used SELECT tenant, 'texts', pg_backend_pid(), -sum(coalesce(octet_length(decisions::text), 0) + coalesce(octet_length(input::text), 0) + coalesce(octet_length(calls::text), 0))
        FROM removed GROUP BY tenant ON CONFLICT (tenant, what, part) DO UPDATE SET bytes = storage_used.bytes + excluded.bytes;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER counted_at_insert AFTER INSERT ON submissions REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_submissions();

CREATE TRIGGER counted_at_delete AFTER DELETE ON submissions REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_submissions();

CREATE FUNCTION count_contents() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO storage_used SELECT tenant, 'files', pg_backend_pid(), sum(length(content))
        FROM added GROUP BY tenant ON CONFLICT (tenant, what, part) DO UPDATE SET bytes = storage_used.bytes + excluded.bytes;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO storage_used SELECT tenant, 'files', pg_backend_pid(), -sum(length(content))
        FROM removed GROUP BY tenant ON CONFLICT (tenant, what, part) DO UPDATE SET bytes = storage_used.bytes + excluded.bytes;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER counted_at_insert AFTER INSERT ON contents REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_contents();

CREATE TRIGGER counted_at_delete AFTER DELETE ON contents REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_contents();

CREATE FUNCTION count_images() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO storage_used SELECT tenant, 'images', pg_backend_pid(), sum(bytes)
        FROM added GROUP BY tenant ON CONFLICT (tenant, what, part) DO UPDATE SET bytes = storage_used.bytes + excluded.bytes;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO storage_used SELECT tenant, 'images', pg_backend_pid(), -sum(bytes)
        FROM removed GROUP BY tenant ON CONFLICT (tenant, what, part) DO UPDATE SET bytes = storage_used.bytes + excluded.bytes;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER counted_at_insert AFTER INSERT ON images REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_images();

CREATE TRIGGER counted_at_delete AFTER DELETE ON images REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_images();

CREATE FUNCTION count_memories() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO storage_used SELECT tenant, 'memories', pg_backend_pid(), sum(bytes)
        FROM added GROUP BY tenant ON CONFLICT (tenant, what, part) DO UPDATE SET bytes = storage_used.bytes + excluded.bytes;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO storage_used SELECT tenant, 'memories', pg_backend_pid(), -sum(bytes)
        FROM removed GROUP BY tenant ON CONFLICT (tenant, what, part) DO UPDATE SET bytes = storage_used.bytes + excluded.bytes;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER counted_at_insert AFTER INSERT ON memories REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_memories();

CREATE TRIGGER counted_at_delete AFTER DELETE ON memories REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_memories();

CREATE TRIGGER counted_at_update AFTER UPDATE ON memories REFERENCING NEW TABLE AS added OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_memories();

