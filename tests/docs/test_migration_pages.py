"""docs/migrating: the programs before and after work, and the original's files are read unchanged."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from docs.test_docs import ROOT, blocks, run
from fakes.config_files import SEED
from retinue import Agent
from retinue.config import load_tools

FOLDER = ROOT / "docs" / "migrating"
PAGES = sorted(FOLDER.glob("*.md"))
PROGRAMS = [
    pytest.param(code, id=f"{page.stem}-{at}")
    for page in PAGES
    for at, code in enumerate(blocks(page.read_text("utf-8"), "python"))
]


@pytest.mark.parametrize("code", PROGRAMS)
def test_a_program_runs(code: str, tmp_path: Path) -> None:
    run(code, {"RETINUE_CACHE": str(tmp_path)}, "DeprecationWarning")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_its_parts_and_its_links_lead_somewhere(page: Path) -> None:
    text = page.read_text("utf-8")
    assert "\n## What maps to what\n" in text
    assert "no counterpart" in text
    assert "\n## Pitfalls\n" in text
    for target in re.findall(r"\]\((?!https?://)([^)#]+)\)", text):
        assert (page.parent / target).exists(), target


def test_haystacks_file_is_read_unchanged(tmp_path: Path) -> None:
    agent = Agent.load_from_yaml(SEED, agent_name="agent")
    agent.save_to_yaml(tmp_path / "again.yml")
    text = (tmp_path / "again.yml").read_text("utf-8")
    assert "Search" in text
    assert "Calculator" in text


def test_opeas_tool_file_is_read_unchanged_by_the_pages_agent(tmp_path: Path) -> None:
    (text,) = blocks((FOLDER / "opea.md").read_text("utf-8"), "yaml")
    (tmp_path / "agents.yml").write_text(text)
    shutil.copy(SEED.parent / "opea_worker_agent_tools.yaml", tmp_path / "worker_agent_tools.yaml")
    (tmp_path / "worker_agent_tools.py").write_text("def search_knowledge_base(query):\n    return query\n")
    assert [tool.name for tool in load_tools(tmp_path / "worker_agent_tools.yaml")] == ["search_knowledge_base"]
    assert Agent.load_from_yaml(tmp_path / "agents.yml").name == "worker"
