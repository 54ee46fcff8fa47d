"""What the docs of 0.1.0 name goes on working: imports, names, files, commands, routes, kinds of events, tables.

`documented_0_1_0.json` was made from those docs, from the command line, from the server's OpenAPI document and from
the tables as they were then. It is not to be changed, but by what a later version adds.
"""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest

from fakes.openapi import document
from retinue._internal.moved import FORMER
from retinue.cli.main import cli
from retinue.config import check
from retinue.core.events import KINDS
from retinue.store.tables import metadata

SAID = json.loads((Path(__file__).parent / "documented_0_1_0.json").read_text("utf-8"))


def found(name: str) -> object:
    """What a dotted name leads to. Raises `ImportError` or `AttributeError`."""
    parts = name.split(".")
    module: Any = import_module(parts[0])
    for number, part in enumerate(parts[1:], 2):
        try:
            module = getattr(module, part)
        except AttributeError:
            module = import_module(".".join(parts[:number]))
    return module


@pytest.mark.parametrize("statement", SAID["imports"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_import(statement: str) -> None:
    _, module, _, name = statement.split(" ")
    assert getattr(import_module(module), name) is not None


@pytest.mark.parametrize("name", SAID["names"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_name(name: str) -> None:
    assert found(name) is not None


@pytest.mark.parametrize("former", FORMER)
def test_a_former_module_is_the_one_of_today_and_says_so(former: str) -> None:
    sys.modules.pop(f"retinue.{former}", None)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        module = import_module(f"retinue.{former}")
    assert module is import_module(f"retinue.{FORMER[former]}")
    assert f"retinue.{former} is retinue.{FORMER[former]} now" in {str(one.message) for one in said}
    assert module.__name__ == f"retinue.{FORMER[former]}"


def test_who_imports_a_former_module_is_told_where(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("from retinue.ports import Model\nimport retinue.strategies.quoting\n")
    done = subprocess.run(
        [sys.executable, "-W", "always::DeprecationWarning", "mine.py"], cwd=tmp_path, capture_output=True, text=True
    )
    told = [line for line in done.stderr.splitlines() if "DeprecationWarning" in line]
    assert done.returncode == 0
    assert told[0].endswith("mine.py:1: DeprecationWarning: retinue.ports is retinue.core.protocols now")
    assert any("mine.py:2:" in line for line in told[1:])


def test_what_is_nowhere_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"retinue\.nowhere"):
        import_module("retinue.nowhere")


@pytest.mark.parametrize("text", SAID["files"])
def test_a_file(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text(text)
    assert check(tmp_path / "a.yml") == []


def options(command: click.Command, said: Any, path: str = "retinue") -> list[str]:
    """What a command lacks of what was said of it."""
    context = click.Context(command)
    if isinstance(said, Mapping):
        assert isinstance(command, click.Group)
        lacking = [f"{path} {name}" for name in said if command.get_command(context, name) is None]
        inner = [(name, command.get_command(context, name)) for name in said]
        return lacking + [one for name, sub in inner if sub for one in options(sub, said[name], f"{path} {name}")]
    there = {word for one in command.params for word in (*one.opts, *one.secondary_opts)}
    return [f"{path} {word}" for word in said if word not in there]


def test_commands_and_their_options() -> None:
    assert options(cli, SAID["commands"]) == []


def test_operations_and_the_names_of_their_shapes() -> None:
    now = document()
    there = {f"{method.upper()} {path}" for path, item in now["paths"].items() for method in item}
    assert set(SAID["operations"]) - there == set()
    assert set(SAID["shapes"]) - set(now["components"]["schemas"]) == set()


def test_kinds_of_events_and_their_fields() -> None:
    now = {kind: {field.name for field in fields(event)} for kind, event in KINDS.items()}
    lacking = {kind: set(names) - now.get(kind, set()) for kind, names in SAID["events"].items()}
    assert {kind: names for kind, names in lacking.items() if names or kind not in now} == {}


REPLACED = {"state"}  # JSON, of which a migration makes columns and submissions


def test_tables_and_their_columns() -> None:
    now = {table.name: {column.name for column in table.columns} for table in metadata.sorted_tables}
    lacking = {name: set(columns) - now.get(name, set()) for name, columns in SAID["tables"].items()}
    assert {name: columns for name, columns in lacking.items() if columns or name not in now} == {"runs": REPLACED}


def test_loggers_that_the_docs_name() -> None:
    from retinue.core import run_log
    from retinue.server import log_output

    assert {run_log.logger.name, log_output.ACCESS.name} == set(SAID["loggers"])
