-- Not beside older servers: they would show a user what is another user's
ALTER TABLE keys ADD COLUMN "user" VARCHAR(256);

ALTER TABLE assistants ADD COLUMN "user" VARCHAR(256);

ALTER TABLE threads ADD COLUMN "user" VARCHAR(256);

ALTER TABLE runs ADD COLUMN "user" VARCHAR(256);

ALTER TABLE conversations ADD COLUMN "user" VARCHAR(256);

ALTER TABLE files ADD COLUMN "user" VARCHAR(256);

ALTER TABLE memories ADD COLUMN "user" VARCHAR(256);

ALTER TABLE vector_stores ADD COLUMN "user" VARCHAR(256);

ALTER TABLE processes ADD COLUMN stops BOOLEAN NOT NULL DEFAULT FALSE;

CREATE INDEX assistants_of_user ON assistants (tenant, "user", number) WHERE "user" IS NOT NULL;

CREATE INDEX threads_of_user ON threads (tenant, "user", number) WHERE "user" IS NOT NULL;

CREATE INDEX runs_of_user ON runs (tenant, "user", number) WHERE "user" IS NOT NULL;

CREATE INDEX conversations_of_user ON conversations (tenant, "user", number) WHERE "user" IS NOT NULL;

CREATE INDEX files_of_user ON files (tenant, "user", number) WHERE "user" IS NOT NULL;

CREATE INDEX memories_of_user ON memories (tenant, "user", number) WHERE "user" IS NOT NULL;

CREATE INDEX vector_stores_of_user ON vector_stores (tenant, "user", number) WHERE "user" IS NOT NULL;

CREATE TABLE sealed_secrets (
    tenant VARCHAR(64) NOT NULL,
    "user" VARCHAR(256) NOT NULL,
    name VARCHAR(64) NOT NULL,
    sealed TEXT NOT NULL,
    changed_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, "user", name)
);
