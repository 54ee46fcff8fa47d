-- PostgreSQL stores events in the order in which they are written anyway.

COMMENT ON TABLE events IS 'in the order in which they were written';
