-- Indexes for what servers ask every second or every ten minutes, and for what is deleted with something else. And a
-- reply's streamed pieces go into its own row.
-- Beside older servers: to a client that resumes a stream in the middle of such a reply they tell only its end.

ALTER TABLE events ADD COLUMN pieces TEXT;

CREATE INDEX runs_due ON runs (expires_at) WHERE holds;

CREATE INDEX runs_not_stored ON runs (created_at) WHERE NOT stored AND thread_id IS NULL AND parent_id IS NULL;

CREATE INDEX messages_of_run ON messages (run_id);

CREATE INDEX batches_of_store ON vector_store_batches (vector_store_id);

CREATE INDEX entries_of_file ON vector_store_files (file_id);

CREATE INDEX files_by_expiry ON files (expires_at);

CREATE INDEX vector_stores_by_expiry ON vector_stores (expires_at);

CREATE INDEX requests_by_age ON requests (created_at);

CREATE INDEX keys_by_age ON keys (created_at);
