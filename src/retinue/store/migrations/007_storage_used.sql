-- How many bytes of images and memories each tenant has, so that nobody has to add them up.

CREATE TABLE storage_used (
    tenant VARCHAR(64) NOT NULL,
    what VARCHAR(16) NOT NULL,
    bytes BIGINT NOT NULL,
    PRIMARY KEY (tenant, what)
);

INSERT INTO storage_used (tenant, what, bytes) SELECT tenant, 'images', sum(bytes) FROM images GROUP BY tenant;

INSERT INTO storage_used (tenant, what, bytes) SELECT tenant, 'memories', sum(bytes) FROM memories GROUP BY tenant;

DROP INDEX bytes_of_memories;
