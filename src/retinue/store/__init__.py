"""What is kept of threads, runs and their logs: SQLAlchemy Core on SQLite (WAL) or PostgreSQL. JSON only."""
