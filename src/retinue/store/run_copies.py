"""Copies of what belongs to a run, for another run that begins where it was."""

from __future__ import annotations

from sqlalchemy import Connection, Table, insert, literal, select

from .tables import contents, run_images, run_tools

_IDS: tuple[tuple[Table, str], ...] = ((run_images, "run_id"), (run_tools, "run_id"), (contents, "id"))


def copy_belongings(connection: Connection, run_id: str, to: str) -> None:
    """Give the run `to` the images, the tools and the long conversation that a run was asked with."""
    for table, name in _IDS:
        others = [column for column in table.c if column.name != name]
        found = select(literal(to), *others).where(table.c[name] == run_id)
        connection.execute(insert(table).from_select([name, *(column.name for column in others)], found))
