"""The statements that make an empty database's schema: `tables`, and the triggers that count what tenants keep.

Triggers count, since rows are written in many places and deleted with what they belong to. Logs of imported runs say
their size in the run's request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sqlalchemy import Dialect, LargeBinary, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from . import tables

_DIALECTS = {"sqlite": sqlite.dialect, "postgresql": postgresql.dialect}
_LENGTH = {"sqlite": "length(CAST({} AS BLOB))", "postgresql": "octet_length({}::text)"}
_LOG_SIZE = {
    "sqlite": "CASE WHEN json_valid({0}) THEN coalesce(json_extract({0}, '$.imported_from.bytes'), 0) ELSE 0 END",
    "postgresql": """coalesce(substring({}::text from '"imported_from": ?\\{{"bytes": ?(\\d{{1,15}})')::bigint, 0)""",
}  # a pattern, since PostgreSQL reads no JSON that has a NUL in it


class _Counted(NamedTuple):
    """A table whose rows count as `what`: by the number in its column `bytes`, or by the lengths of its `texts`. Of
    those that are `changed`, rows are also updated."""

    table: Table
    what: str
    texts: Sequence[str] = ()
    changed: bool = False

    def size(self, dialect: str, row: str = "") -> str:
        """Return the expression of a row's size; `row` is a prefix of columns."""
        if not self.texts:
            return f"{row}bytes"
        parts = [
            f"length({row}{name})"
            if isinstance(self.table.c[name].type, LargeBinary)
            else f"coalesce({_LENGTH[dialect].format(row + name)}, 0)"
            for name in self.texts
        ]
        return " + ".join([*parts, *([_LOG_SIZE[dialect].format(row + "request")] if "request" in self.texts else [])])


_BODIES = (
    tables.assistants,
    tables.threads,
    tables.messages,
    tables.conversations,
    tables.items,
    tables.registered_tools,
)
_COUNTED = (
    *(_Counted(table, "texts", ["body"], changed=True) for table in _BODIES),
    _Counted(tables.runs, "texts", ["request"]),
    _Counted(tables.run_messages, "texts", ["content"]),
    _Counted(tables.run_texts, "texts", ["content"]),
    _Counted(tables.submissions, "texts", ["decisions", "input", "calls"]),
    _Counted(tables.contents, "files", ["content"]),
    _Counted(tables.images, "images"),
    _Counted(tables.memories, "memories", changed=True),
    _Counted(tables.workspace_blobs, "workspaces", ["content"]),
)
_ADD = "ON CONFLICT (tenant, what, part) DO UPDATE SET bytes = storage_used.bytes + excluded.bytes;"


def schema_statements(dialect: str) -> tuple[str, ...]:
    """Return the statements for `"sqlite"` or `"postgresql"`."""
    triggers = _sqlite_triggers if dialect == "sqlite" else _postgresql_triggers
    return (*_table_statements(_DIALECTS[dialect]()), *(one for counted in _COUNTED for one in triggers(counted)))


def _table_statements(dialect: Dialect) -> Iterator[str]:
    for table in tables.metadata.sorted_tables:
        yield str(CreateTable(table).compile(dialect=dialect)).strip()
        for index in sorted(table.indexes, key=lambda one: str(one.name)):
            yield str(CreateIndex(index).compile(dialect=dialect))


def _sqlite_triggers(one: _Counted) -> Iterator[str]:
    new, old = one.size("sqlite", "NEW."), one.size("sqlite", "OLD.")
    changes = {"INSERT": ("NEW", new), "DELETE": ("OLD", f"-({old})")}
    if one.changed:
        changes[f"UPDATE OF {', '.join(one.texts) or 'bytes'}"] = "NEW", f"{new} - ({old})"
    for change, (row, size) in changes.items():
        yield (
            f"CREATE TRIGGER {one.table.name}_counted_at_{change.split()[0].lower()} AFTER {change} "
            f"ON {one.table.name} BEGIN\n"
            f"    INSERT INTO storage_used VALUES ({row}.tenant, '{one.what}', 0, {size})\n    {_ADD}\nEND"
        )


def _postgresql_triggers(one: _Counted) -> Iterator[str]:
    """Yield triggers that count once a statement: a count that changes many times in one transaction is found ever more
    slowly."""
    name, size = one.table.name, one.size("postgresql")
    counts = [
        f"    IF TG_OP <> '{other}' THEN\n"
        f"        INSERT INTO storage_used SELECT tenant, '{one.what}', pg_backend_pid(), {sign}sum({size})\n"
        f"        FROM {rows} GROUP BY tenant {_ADD}\n    END IF;\n"
        for other, sign, rows in (("DELETE", "", "added"), ("INSERT", "-", "removed"))
    ]
    yield (
        f"CREATE FUNCTION count_{name}() RETURNS TRIGGER LANGUAGE plpgsql AS $$\nBEGIN\n"
        f"{''.join(counts)}    RETURN NULL;\nEND $$"
    )
    rows = {"INSERT": "NEW TABLE AS added", "DELETE": "OLD TABLE AS removed"}
    if one.changed:
        rows["UPDATE"] = "NEW TABLE AS added OLD TABLE AS removed"
    for change, seen in rows.items():
        yield (
            f"CREATE TRIGGER counted_at_{change.lower()} AFTER {change} ON {name} "
            f"REFERENCING {seen} FOR EACH STATEMENT EXECUTE FUNCTION count_{name}()"
        )
