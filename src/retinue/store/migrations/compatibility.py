"""Whether servers of the version before may go on while a migration runs, and after it.

They may if the migration only adds: tables, columns that nobody has to fill, and indexes that forbid nothing. Whatever
changes or takes away something is not compatible. A line of a migration's file may say otherwise: `-- Beside older
servers: WHY`, where only rows are added that older ones do not look at, or `-- Not beside older servers: WHY`, where
servers write something since then that an older one cannot read.
"""

from __future__ import annotations

import re

_MARK = re.compile(r"^-- (?P<not>Not b|B)eside older servers: \S", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*$", re.MULTILINE)
_ADDS = re.compile(
    r"CREATE TABLE \w+ \([^;]*\)( WITHOUT ROWID)?;|CREATE INDEX [^;]*;|"
    r"ALTER TABLE \w+ ADD COLUMN \w+ [\w() ]+( DEFAULT \S+)?( NOT NULL)?;",
    re.IGNORECASE,
)
_FORBIDS = re.compile(r"\b(REFERENCES|CHECK|TRIGGER|GENERATED)\b", re.IGNORECASE)
_MUST_BE_FILLED = re.compile(r"ADD COLUMN (?!.*\bDEFAULT\b).*\bNOT NULL\b|ADD COLUMN .*\bUNIQUE\b", re.IGNORECASE)


def is_compatible(script: str, statements: tuple[str, ...]) -> bool:
    """Return whether servers of the version before may go on beside a migration, the `script` with these
    statements."""
    if said := _MARK.search(script):
        return said["not"] == "B"
    return all(map(_adds, statements))


def _adds(statement: str) -> bool:
    plain = " ".join(_COMMENT.sub("", statement).split())
    return bool(_ADDS.fullmatch(plain)) and not _FORBIDS.search(plain) and not _MUST_BE_FILLED.search(plain)
