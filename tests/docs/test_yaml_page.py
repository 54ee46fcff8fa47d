"""docs/yaml.md: its files are right, its Python runs, and it names every key there is."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from docs.test_docs import blocks
from fakes import fork_server
from retinue.config import build_json_schema, check
from retinue.config.registry import COMPONENTS
from retinue.config.specs import AgentParams, BudgetSpec, ToolOptions
from retinue.strategies import STRATEGIES

PAGE = (Path(__file__).parents[2] / "docs" / "yaml.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("text", blocks(PAGE, "yaml"))
def test_a_file_is_right(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text(text)
    assert check(tmp_path / "a.yml") == []


def test_its_python_runs() -> None:
    code = "\n".join(blocks(PAGE, "python"))
    done = fork_server.python(["-W", "error", "-c", code])
    assert (done.returncode, done.stderr) == (0, "")


def test_the_published_schema_is_the_codes() -> None:
    published = (Path(__file__).parents[2] / "docs" / "retinue.schema.json").read_text(encoding="utf-8")
    assert json.loads(published) == build_json_schema(), "run: retinue schema > docs/retinue.schema.json"


def test_every_key_is_named() -> None:
    named = set(re.findall(r"`([A-Za-z_0-9]+)`", PAGE))
    wanted = {*AgentParams.model_fields, *BudgetSpec.model_fields, *ToolOptions.model_fields, *STRATEGIES, *COMPONENTS}
    assert wanted <= named
