-- Random bytes that only the server knows; indexes that find a tenant's rows, or an item by its id, without scanning
-- other tenants'.

CREATE TABLE secrets (
    name VARCHAR(64) NOT NULL PRIMARY KEY,
    value BYTEA NOT NULL
);

CREATE INDEX assistants_of_tenant ON assistants (tenant, number);

CREATE INDEX threads_of_tenant ON threads (tenant, number);

CREATE INDEX messages_of_tenant ON messages (tenant, number);

CREATE INDEX runs_of_tenant ON runs (tenant, number);

CREATE INDEX conversations_of_tenant ON conversations (tenant, number);

CREATE INDEX items_of_tenant ON items (tenant, number);

CREATE INDEX files_of_tenant ON files (tenant, number);

CREATE INDEX vector_stores_of_tenant ON vector_stores (tenant, number);

CREATE INDEX vector_store_batches_of_tenant ON vector_store_batches (tenant, number);

CREATE INDEX vector_store_files_of_tenant ON vector_store_files (tenant, number);

CREATE INDEX items_by_id ON items (tenant, item_id);

CREATE INDEX files_in_turn ON vector_store_files (status, tenant, number);

CREATE INDEX bytes_in_stores ON vector_store_files (tenant, usage_bytes);
