-- Images that runs are shown, what agents remember, and the tools that tenants registered.

CREATE TABLE images (
    tenant VARCHAR(64) NOT NULL,
    id VARCHAR(64) NOT NULL,
    created_at INTEGER NOT NULL,
    media_type VARCHAR(32) NOT NULL,
    bytes INTEGER NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (tenant, id)
);

CREATE INDEX images_by_age ON images (created_at);

CREATE TABLE run_images (
    run_id VARCHAR(64) NOT NULL,
    image_id VARCHAR(64) NOT NULL,
    tenant VARCHAR(64) NOT NULL,
    PRIMARY KEY (run_id, image_id)
);

CREATE INDEX runs_of_image ON run_images (tenant, image_id);
