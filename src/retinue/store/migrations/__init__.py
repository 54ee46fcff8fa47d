"""Numbered migrations of the schema, in SQL, and their runner.

A migration is `NNN_name.sql`, or a pair `NNN_name.sqlite.sql` and `NNN_name.postgresql.sql` if the dialects differ. Its
statements are separated by blank lines. A migration that was released is never changed. `compatibility` says which
of them older servers may go on beside.
"""

from .migration_runner import (
    Migration,
    fits,
    is_current,
    load_migrations,
    migrate,
    missing_migrations,
    newest,
    version_of,
)

__all__ = [
    "Migration",
    "fits",
    "is_current",
    "load_migrations",
    "migrate",
    "missing_migrations",
    "newest",
    "version_of",
]
