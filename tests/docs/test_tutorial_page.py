"""docs/tutorial.md, followed from its first step to its last, in an empty folder: each command prints what it says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from docs.reader import TYPED, Reader
from docs.test_docs import ROOT

PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)


def steps() -> Iterator[tuple[str, str, str]]:
    """What the page has its reader do: save a file (its name, its text), or type a command (which, what is printed)."""
    for language, title, text in BLOCK.findall(PAGE):
        if title:
            yield "save", title, text
        elif language == "console":
            for part in re.split(r"^(?=\$ )", text, flags=re.MULTILINE)[1:]:
                command = TYPED.match(part)
                assert command
                yield "type", command[1], part[command.end() :].removeprefix("\n")


def test_each_step_prints_what_the_page_says(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    with suppress(StopIteration):
        followed = steps()
        for what, name, text in followed:
            if what == "save":
                reader.save(name, text)
            elif name.startswith("retinue serve"):
                with reader.serve(name, text):
                    _go_on(reader, followed)
            else:
                reader.type(name, text)
    assert (reader.folder / "real.yml").exists()  # the last file of the page


def _go_on(reader: Reader, followed: Iterator[tuple[str, str, str]]) -> None:
    for what, name, text in followed:
        if what == "save":
            reader.save(name, text)
        else:
            reader.type(name, text)


def test_its_files_are_right(tmp_path: Path) -> None:
    """Each file of agents, also the one that only a real model runs."""
    from retinue.config import check

    for _, title, text in BLOCK.findall(PAGE):
        if title.endswith(".yml"):
            (tmp_path / title).write_text(text, encoding="utf-8")
            assert check(tmp_path / title) == []


@pytest.mark.model
@pytest.mark.long
def test_the_embedded_model_answers_at_its_end(tmp_path: Path, embedded_model: Path) -> None:
    reader = Reader(tmp_path)
    del reader.env["RETINUE_CACHE"]
    for what, name, text in steps():
        if what == "save":
            reader.save(name, text)
        elif name.startswith(("mkdir", "cd", "retinue index")):
            reader.type(name, text)
    (command,) = re.findall(r"^retinue run real.yml .*$", PAGE, re.MULTILINE)
    reader.type(command, "…45…")
