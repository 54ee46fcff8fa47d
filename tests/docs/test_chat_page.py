"""The conversation of docs/chat.md, had in a real terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.reader import steady
from docs.test_docs import ROOT, blocks
from fakes.tmux import Terminal

PAGE = (ROOT / "docs" / "chat.md").read_text(encoding="utf-8")


@pytest.mark.full
def test_its_conversation_goes_as_it_says(tmp_path: Path) -> None:
    (file,) = blocks(PAGE, "yaml")
    (tmp_path / "team.yml").write_text(file)
    shown = blocks(PAGE, "console")[0].partition("\n")[2]
    env = {"RETINUE_CACHE": str(tmp_path / "cache")}
    with Terminal(["chat", "team.yml", "--agent", "guide"], height=60, folder=tmp_path, env=env) as terminal:
        terminal.until("\n›")
        terminal.type("How many people live in Lyon,\\", "Enter")
        terminal.type("and how many in Paris?", "Enter")
        terminal.until("4 replies, 1 tool step")
        terminal.until("\n›", 2)
        terminal.type("And together?", "Enter")
        terminal.until("answer instead:")
        terminal.type("a", "Enter")
        terminal.until("2 replies, 1 tool step")
        terminal.until("\n›", 3)
        terminal.type("/save cities.md", "Enter")
        terminal.until("saved in cities.md")
        seen = terminal.shows(history=True)
    assert steady(shown) in steady(seen)
    assert "2,625,250 inhabitants" in (tmp_path / "cities.md").read_text("utf-8")
