"""The context of an agent in a file: its checks, its model, export, and the snapshot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from retinue import Agent, PromptModel
from retinue.config import check
from retinue.config.agent_snapshot import rebuild, take_snapshot
from retinue.core.loop.compaction import Context, read_context

FILE = """
components:
  - {name: Small, type: PromptModel, params: {script: [A summary.]}}
agents:
  - name: clerk
    params:
      model: scripted
      script: [hello]
      context: {}
"""


def write(folder: Path, context: str) -> Path:
    (folder / "agents.yml").write_text(FILE.replace("context: {}", f"context: {context}"))
    return folder / "agents.yml"


def test_shares_and_model_are_what_the_file_says(tmp_path: Path) -> None:
    spec = Agent.load_from_yaml(
        write(tmp_path, "{results: 0.1, clear: null, summary: 8000, drop: 1, model: Small}")
    ).spec
    assert (spec.context.results, spec.context.clear, spec.context.summary, spec.context.drop) == (0.1, None, 8_000, 1)
    assert spec.context.model is not None
    assert spec.context.model.name == "scripted"
    assert Agent.load_from_yaml(write(tmp_path, "{}")).spec.context == Context()
    assert Agent.load_from_yaml(write(tmp_path, "false")).spec.context == read_context(False)
    assert Agent.load_from_yaml(write(tmp_path, "true")).spec.context == Context()


@pytest.mark.parametrize(
    ("context", "told"),
    [
        ("7", "9:16: context: want true or false or a mapping, not 7"),
        ("{results: 0}", "9:26: results: want more than 0, not 0"),
        ("{sumary: 0.5}", "9:17: unknown key 'sumary'; did you mean 'summary'?"),
        ("{model: Smal}", "9:24: model: no component is called 'Smal'; did you mean 'Small'?"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, context: str, told: str) -> None:
    file = write(tmp_path, context)
    assert [str(one).removeprefix(f"{file}:") for one in check(file)] == [told]


def test_it_is_written_and_kept_as_it_was(tmp_path: Path) -> None:
    agent = Agent.load_from_yaml(write(tmp_path, "{clear: null, model: Small}"))
    agent.save_to_yaml(tmp_path / "again.yml")
    assert Agent.load_from_yaml(tmp_path / "again.yml") == agent
    model = PromptModel("scripted", script=["x"])
    for context in (Context(results=0.1, summary=None), Context(model=PromptModel("scripted", script=["y"])), False):
        made = Agent(model, context=context, name="a")
        made.save_to_yaml(tmp_path / "new.yml")
        again = Agent.load_from_yaml(tmp_path / "new.yml").spec.context
        assert (again.results, again.clear, again.summary) == (made.spec.context.results, *_rest(made.spec.context))
        assert (again.model is None) == (made.spec.context.model is None)
    rebuilt = rebuild(json.loads(json.dumps(take_snapshot(agent).body)), Agent.load_from_yaml(write(tmp_path, "true")))
    assert rebuilt.spec.context.clear is None


def _rest(context: Context) -> tuple[float | None, float | None]:
    return context.clear, context.summary
