"""Numbered migrations of the schema, in SQL, and their runner.

A migration is `NNN_name.sql`, or a pair `NNN_name.sqlite.sql` and `NNN_name.postgresql.sql` if the dialects differ. Its
statements are separated by blank lines. A migration that was released is never changed.
"""

from .migration_runner import Migration, is_current, load_migrations, migrate

__all__ = ["Migration", "is_current", "load_migrations", "migrate"]
