CREATE TABLE assistants (
	number BIGSERIAL NOT NULL,
	tenant VARCHAR(64) NOT NULL,
	id VARCHAR(64) NOT NULL,
	created_at INTEGER NOT NULL,
	body JSON NOT NULL,
	PRIMARY KEY (number),
	UNIQUE (id)
);
CREATE INDEX assistants_of_tenant ON assistants (tenant, number);
CREATE TABLE threads (
	number BIGSERIAL NOT NULL,
	tenant VARCHAR(64) NOT NULL,
	id VARCHAR(64) NOT NULL,
	created_at INTEGER NOT NULL,
	key VARCHAR(256),
	body JSON NOT NULL,
	PRIMARY KEY (number),
	UNIQUE (tenant, key),
	UNIQUE (id)
);
CREATE INDEX threads_of_tenant ON threads (tenant, number);
CREATE TABLE messages (
	number BIGSERIAL NOT NULL,
	tenant VARCHAR(64) NOT NULL,
	id VARCHAR(64) NOT NULL,
	created_at INTEGER NOT NULL,
	thread_id VARCHAR(64) NOT NULL,
	run_id VARCHAR(64),
	body JSON NOT NULL,
	PRIMARY KEY (number),
	UNIQUE (id)
);
CREATE INDEX messages_of_tenant ON messages (tenant, number);
CREATE INDEX messages_of_thread ON messages (thread_id, number);
CREATE TABLE runs (
	number BIGSERIAL NOT NULL,
	tenant VARCHAR(64) NOT NULL,
	id VARCHAR(64) NOT NULL,
	created_at INTEGER NOT NULL,
	thread_id VARCHAR(64),
	status VARCHAR(20) NOT NULL,
	holds BOOLEAN NOT NULL,
	expires_at INTEGER,
	epoch INTEGER NOT NULL,
	request JSON NOT NULL,
	state JSON NOT NULL,
	key_id VARCHAR(64),
	PRIMARY KEY (number),
	UNIQUE (id)
);
CREATE UNIQUE INDEX one_run_at_a_time ON runs (thread_id) WHERE holds;
CREATE INDEX runs_of_tenant ON runs (tenant, number);
CREATE INDEX runs_of_key ON runs (key_id, status);
CREATE INDEX runs_by_status ON runs (status, created_at);
CREATE INDEX runs_of_thread ON runs (thread_id, number);
CREATE TABLE events (
	run_id VARCHAR(64) NOT NULL,
	seq INTEGER NOT NULL,
	epoch INTEGER NOT NULL,
	at FLOAT NOT NULL,
	kind VARCHAR(16) NOT NULL,
	payload TEXT NOT NULL,
	PRIMARY KEY (run_id, seq)
);
CREATE TABLE conversations (
	number BIGSERIAL NOT NULL,
	tenant VARCHAR(64) NOT NULL,
	id VARCHAR(64) NOT NULL,
	created_at INTEGER NOT NULL,
	body JSON NOT NULL,
	PRIMARY KEY (number),
	UNIQUE (id)
);
CREATE INDEX conversations_of_tenant ON conversations (tenant, number);
CREATE TABLE items (
	number BIGSERIAL NOT NULL,
	tenant VARCHAR(64) NOT NULL,
	id VARCHAR(64) NOT NULL,
	created_at INTEGER NOT NULL,
	conversation_id VARCHAR(64) NOT NULL,
	item_id VARCHAR(64) NOT NULL,
	run_id VARCHAR(64),
	body JSON NOT NULL,
	PRIMARY KEY (number),
	UNIQUE (conversation_id, item_id),
	UNIQUE (id)
);
CREATE INDEX items_of_conversation ON items (conversation_id, number);
CREATE INDEX items_by_id ON items (tenant, item_id);
CREATE INDEX items_of_tenant ON items (tenant, number);
CREATE TABLE files (
	number BIGSERIAL NOT NULL,
	tenant VARCHAR(64) NOT NULL,
	id VARCHAR(64) NOT NULL,
	created_at INTEGER NOT NULL,
	expires_at INTEGER,
	body JSON NOT NULL,
	PRIMARY KEY (number),
	UNIQUE (id)
);
CREATE INDEX files_of_tenant ON files (tenant, number);
CREATE TABLE contents (
	tenant VARCHAR(64) NOT NULL,
	id VARCHAR(64) NOT NULL,
	content BYTEA NOT NULL,
	PRIMARY KEY (id)
);
CREATE TABLE vector_stores (
	number BIGSERIAL NOT NULL,
	tenant VARCHAR(64) NOT NULL,
	id VARCHAR(64) NOT NULL,
	created_at INTEGER NOT NULL,
	expires_at INTEGER,
	body JSON NOT NULL,
	PRIMARY KEY (number),
	UNIQUE (id)
);
CREATE INDEX vector_stores_of_tenant ON vector_stores (tenant, number);
CREATE TABLE vector_store_batches (
	number BIGSERIAL NOT NULL,
	tenant VARCHAR(64) NOT NULL,
	id VARCHAR(64) NOT NULL,
	created_at INTEGER NOT NULL,
	vector_store_id VARCHAR(64) NOT NULL,
	body JSON NOT NULL,
	PRIMARY KEY (number),
	UNIQUE (id)
);
CREATE INDEX vector_store_batches_of_tenant ON vector_store_batches (tenant, number);
CREATE TABLE vector_store_files (
	number BIGSERIAL NOT NULL,
	tenant VARCHAR(64) NOT NULL,
	id VARCHAR(64) NOT NULL,
	created_at INTEGER NOT NULL,
	vector_store_id VARCHAR(64) NOT NULL,
	file_id VARCHAR(64) NOT NULL,
	batch_id VARCHAR(64),
	status VARCHAR(20) NOT NULL,
	usage_bytes INTEGER NOT NULL,
	body JSON NOT NULL,
	PRIMARY KEY (number),
	UNIQUE (vector_store_id, file_id),
	UNIQUE (id)
);
CREATE INDEX files_in_turn ON vector_store_files (status, tenant, number);
CREATE INDEX bytes_in_stores ON vector_store_files (tenant, usage_bytes);
CREATE INDEX vector_store_files_of_tenant ON vector_store_files (tenant, number);
CREATE INDEX files_of_batch ON vector_store_files (batch_id);
CREATE INDEX files_by_status ON vector_store_files (status, number);
CREATE TABLE requests (
	tenant VARCHAR(64) NOT NULL,
	key VARCHAR(256) NOT NULL,
	route VARCHAR(256) NOT NULL,
	created_at INTEGER NOT NULL,
	body_hash VARCHAR(64) NOT NULL,
	response JSON,
	PRIMARY KEY (tenant, key, route)
);
CREATE TABLE keys (
	hash VARCHAR(64) NOT NULL,
	tenant VARCHAR(64) NOT NULL,
	created_at INTEGER NOT NULL,
	id VARCHAR(64),
	name VARCHAR(256),
	prefix VARCHAR(16),
	scopes JSON,
	limits JSON,
	expires_at INTEGER,
	revoked_at INTEGER,
	PRIMARY KEY (hash)
);
CREATE TABLE secrets (
	name VARCHAR(64) NOT NULL,
	value BYTEA NOT NULL,
	PRIMARY KEY (name)
);
CREATE TABLE versions (
	version SERIAL NOT NULL,
	PRIMARY KEY (version)
);
