"""docs/tutorial.md, followed from its first step to its last, in an empty folder: each command prints what it says."""

from __future__ import annotations

import re
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path

import pytest
from releasing.archives import build

from docs.reader import Reader
from docs.test_docs import ROOT

PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)


def follow(reader: Reader, languages: Collection[str]) -> None:
    """Follow the page: save its files, and type what is in its blocks of these languages."""
    with ExitStack() as serving:
        for language, title, text in BLOCK.findall(PAGE):
            if title:
                reader.save(title, text)
            elif language not in languages:
                continue
            elif text.startswith("$ retinue serve"):
                command, printed = text.removeprefix("$ ").split("\n", 1)
                serving.enter_context(reader.serve(command, printed))
            elif language == "console":
                reader.follow(text)
            else:
                if text.endswith("cd desk\n"):
                    reader.open_a_terminal()
                reader.paste(text)


@pytest.mark.full
def test_each_step_prints_what_the_page_says(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    follow(reader, ["console"])
    assert (reader.folder / "real.yml").exists()  # the last file of the page


def test_its_files_are_right(tmp_path: Path) -> None:
    """Each file of agents, also the one that only a real model runs."""
    from retinue.config import check

    for _, title, text in BLOCK.findall(PAGE):
        if title.endswith(".yml"):
            (tmp_path / title).write_text(text, encoding="utf-8")
            assert check(tmp_path / title) == []


@pytest.mark.model
@pytest.mark.long
def test_a_stranger_follows_it_from_the_first_command_to_the_last(tmp_path: Path, embedded_model: Path) -> None:
    """With what `pip` installs into the page's environment: the wheel of this tree, and what it needs."""
    wheel = build(ROOT, tmp_path, "wheel", 1_700_000_000)
    (folder := tmp_path / "stranger").mkdir()
    cache = str(embedded_model.parents[1])
    reader = Reader(folder, PIP_FIND_LINKS=str(wheel.parent), RETINUE_CACHE=cache)
    for name in ("retinue", "python"):
        (folder / ".bin" / name).unlink()
    follow(reader, ["sh", "console"])
    reader.type('retinue run real.yml "What does a parking space cost a month?"', "…45…")
