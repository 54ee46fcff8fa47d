"""Persistence of threads, runs and event logs: SQLAlchemy Core on SQLite (WAL) or PostgreSQL. JSON only."""
