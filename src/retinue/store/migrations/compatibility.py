"""Whether servers of the version before may go on while a migration runs, and after it.

They may if the migration only adds: tables, columns that nobody has to fill, and indexes that forbid nothing. Whatever
changes or takes away something is not compatible. Nor is a migration whose file says so, because a server writes
something since then that an older one cannot read: `-- Not beside older servers: WHY`, on a line of its own.
"""

from __future__ import annotations

import re

_MARK = re.compile(r"^-- Not beside older servers: \S", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*$", re.MULTILINE)
_ADDS = re.compile(
    r"CREATE TABLE \w+ \([^;]*\);|CREATE INDEX [^;]*;|ALTER TABLE \w+ ADD COLUMN \w+ [\w() ]+( DEFAULT \S+)?( NOT NULL)?;",
    re.IGNORECASE,
)
_FORBIDS = re.compile(r"\b(REFERENCES|CHECK|TRIGGER|GENERATED)\b", re.IGNORECASE)
_MUST_BE_FILLED = re.compile(r"ADD COLUMN (?!.*\bDEFAULT\b).*\bNOT NULL\b|ADD COLUMN .*\bUNIQUE\b", re.IGNORECASE)


def only_adds(script: str, statements: tuple[str, ...]) -> bool:
    """Whether a migration, the `script` with these statements, is compatible with servers of the version before."""
    return not _MARK.search(script) and all(map(_adds, statements))


def _adds(statement: str) -> bool:
    plain = " ".join(_COMMENT.sub("", statement).split())
    return bool(_ADDS.fullmatch(plain)) and not _FORBIDS.search(plain) and not _MUST_BE_FILLED.search(plain)
