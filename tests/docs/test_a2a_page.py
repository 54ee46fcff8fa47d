"""docs/a2a.md: its file is right, and gives members."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from docs.test_docs import blocks
from retinue import A2AAgent, RemoteAgent
from retinue.config import check, load_spec
from retinue.config.builder import Builder
from retinue.core.tools.delegation import is_member

PAGE = Path(__file__).parents[2] / "docs" / "a2a.md"


def test_its_file_gives_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = blocks(PAGE.read_text(encoding="utf-8"), "yaml")
    (tmp_path / "a.yml").write_text(text)
    assert check(tmp_path / "a.yml") == []
    monkeypatch.setenv("CRITIC_KEY", "sk-critic-0123456789")
    monkeypatch.setenv("TRAVEL_KEY", "sk-travel-0123456789")
    critic, travel = Builder(load_spec(tmp_path / "a.yml")).build_tools("leader")
    assert is_member(critic)
    assert is_member(travel)
    assert isinstance(critic.something, RemoteAgent)
    assert isinstance(travel.something, A2AAgent)
    assert (travel.name, travel.timeout) == ("travel", math.inf)
