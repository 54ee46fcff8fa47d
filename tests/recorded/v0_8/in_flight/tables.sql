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
CREATE TABLE messages (
	number BIGSERIAL NOT NULL,
	tenant VARCHAR(64) NOT NULL,
	id VARCHAR(64) NOT NULL,
	created_at BIGINT NOT NULL,
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
	request JSON NOT NULL,
	PRIMARY KEY (number),
	UNIQUE (id)
);
CREATE INDEX runs_of_thread ON runs (thread_id, number);
CREATE INDEX runs_by_status ON runs (status, created_at);
CREATE INDEX runs_of_agent ON runs (tenant, agent, number);
CREATE INDEX runs_of_origin ON runs (forked_from);
CREATE UNIQUE INDEX one_run_at_a_time ON runs (thread_id) WHERE holds;
CREATE INDEX runs_of_key ON runs (key_id, status);
CREATE INDEX runs_of_tenant ON runs (tenant, number);
CREATE INDEX runs_of_driver ON runs (driver, status);
CREATE INDEX runs_of_tenant_by_time ON runs (tenant, created_at);
CREATE INDEX runs_of_parent ON runs (parent_id);
CREATE INDEX runs_of_tenant_by_status ON runs (tenant, status, number);
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
	tenant VARCHAR(64) NOT NULL,
	name VARCHAR(64) NOT NULL,
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
CREATE TABLE events (
	run_id VARCHAR(64) NOT NULL,
	seq INTEGER NOT NULL,
	epoch INTEGER NOT NULL,
	at FLOAT NOT NULL,
	kind VARCHAR(16) NOT NULL,
	payload TEXT NOT NULL,
	version SMALLINT DEFAULT 1 NOT NULL,
	PRIMARY KEY (run_id, seq)
);
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
	UNIQUE (id)
);
CREATE INDEX items_of_tenant ON items (tenant, number);
CREATE INDEX items_by_id ON items (tenant, item_id);
CREATE INDEX items_of_conversation ON items (conversation_id, number);
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
CREATE INDEX files_of_tenant ON files (tenant, number);
CREATE TABLE contents (
	tenant VARCHAR(64) NOT NULL,
	id VARCHAR(64) NOT NULL,
	content BYTEA NOT NULL,
	PRIMARY KEY (id)
);
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
CREATE TABLE run_images (
	run_id VARCHAR(64) NOT NULL,
	tenant VARCHAR(64) NOT NULL,
	image_id VARCHAR(64) NOT NULL,
	PRIMARY KEY (run_id, image_id)
);
CREATE INDEX runs_of_image ON run_images (tenant, image_id);
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
CREATE INDEX memories_of_tenant ON memories (tenant, number);
CREATE TABLE storage_used (
	tenant VARCHAR(64) NOT NULL,
	what VARCHAR(16) NOT NULL,
	bytes BIGINT NOT NULL,
	PRIMARY KEY (tenant, what)
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
CREATE TABLE run_tools (
	run_id VARCHAR(64) NOT NULL,
	tenant VARCHAR(64) NOT NULL,
	body JSON NOT NULL,
	PRIMARY KEY (run_id)
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
CREATE INDEX vector_stores_of_tenant ON vector_stores (tenant, number);
CREATE TABLE vector_store_batches (
	number BIGSERIAL NOT NULL,
	tenant VARCHAR(64) NOT NULL,
	id VARCHAR(64) NOT NULL,
	created_at BIGINT NOT NULL,
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
	UNIQUE (id)
);
CREATE INDEX files_of_batch ON vector_store_files (batch_id);
CREATE INDEX vector_store_files_of_tenant ON vector_store_files (tenant, number);
CREATE INDEX files_by_status ON vector_store_files (status, number);
CREATE INDEX files_in_turn ON vector_store_files (status, tenant, number);
CREATE INDEX bytes_in_stores ON vector_store_files (tenant, usage_bytes);
CREATE TABLE requests (
	tenant VARCHAR(64) NOT NULL,
	key VARCHAR(256) NOT NULL,
	route VARCHAR(256) NOT NULL,
	created_at BIGINT NOT NULL,
	body_hash VARCHAR(64) NOT NULL,
	response JSON,
	PRIMARY KEY (tenant, key, route)
);
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
CREATE TABLE secrets (
	name VARCHAR(64) NOT NULL,
	value BYTEA NOT NULL,
	PRIMARY KEY (name)
);
CREATE TABLE processes (
	id VARCHAR(64) NOT NULL,
	seen_at FLOAT NOT NULL,
	PRIMARY KEY (id)
);
CREATE TABLE versions (
	version SERIAL NOT NULL,
	PRIMARY KEY (version)
);
