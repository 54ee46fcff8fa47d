CREATE TABLE user_sums (
    tenant VARCHAR(64) NOT NULL,
    "user" VARCHAR(256) NOT NULL,
    day INTEGER NOT NULL,
    part VARCHAR(64) NOT NULL,
    runs BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    cost BIGINT NOT NULL,
    PRIMARY KEY (tenant, "user", day, part)
);

CREATE TABLE policies (
    number BIGSERIAL PRIMARY KEY,
    tenant VARCHAR(64) NOT NULL,
    "user" VARCHAR(256),
    id VARCHAR(64) NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    body JSON NOT NULL
);

CREATE INDEX policies_of_tenant ON policies (tenant, number);

CREATE INDEX policies_of_user ON policies (tenant, "user", number) WHERE "user" IS NOT NULL;
