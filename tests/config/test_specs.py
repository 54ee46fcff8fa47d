"""Whole files: what loads, as what, and its JSON Schema."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from fakes.config_files import SEED, opea
from retinue.config import build_json_schema, check, load_spec
from retinue.config.registry import COMPONENTS, TOOLS
from retinue.config.specs import ToolRef


def test_the_agent_of_seed_000_loads() -> None:
    assert check(SEED) == []
    spec = load_spec(SEED)
    assert spec.version == "ignore"
    assert [component.type for component in spec.components or ()] == [
        "PromptNode", "PromptModel", "SerpAPIComponent", "PromptNode", "PythonRuntime", "PromptTemplate",
    ]  # fmt: skip
    (agent,) = spec.agents or []
    assert agent.params.prompt_node == "AgentPromptNode"
    assert isinstance(agent.params.tools, list)
    assert [tool.pipeline_or_node for tool in agent.params.tools if isinstance(tool, ToolRef)] == [
        "Serp",
        "calculator_pipeline",
    ]
    line, column = spec.source.place(("agents", 0, "params", "tools", 1, "name"), at_key=True)
    assert SEED.read_text("utf-8").splitlines()[line - 1][column - 1 :] == "name: Calculator"


def test_the_agents_of_seed_003_load(tmp_path: Path) -> None:
    path = opea(tmp_path)
    assert check(path) == []
    supervisor, worker, planner, executor = load_spec(path).agents or []
    assert supervisor.params.llm_engine == "tgi"
    assert supervisor.params.custom_prompt == "You are a music expert.\n"
    assert isinstance(supervisor.params.tools, list)
    assert isinstance(supervisor.params.tools[2], ToolRef)
    assert supervisor.params.tools[2].options == {"effects": "read"}
    assert worker.params.budget is not None
    assert (worker.params.budget.steps, worker.params.budget.seconds) == (4, 30)
    assert (planner.params.role, planner.params.tools) == ("planner", None)
    assert isinstance(executor.params.tools, dict)
    assert executor.params.tools["weather"].callable_api == "http://localhost:9000/weather"


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "retinue: 1\n", "agents:\ncomponents:\ntools:\n", "---\n{}\n"])
def test_an_empty_file_says_nothing_wrong(text: str, tmp_path: Path) -> None:
    path = tmp_path / "empty.yml"
    path.write_text(text)
    assert check(path) == []
    assert load_spec(path).agents is None


def test_a_spec_does_not_change() -> None:
    spec = load_spec(SEED)
    with pytest.raises(ValidationError, match="frozen"):
        spec.version = "2"


def test_the_schema_describes_a_whole_file() -> None:
    schema = build_json_schema()
    json.dumps(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["additionalProperties"] is False
    sections = {"components", "pipelines", "agents", "groups", "chains", "tools"}
    assert set(schema["properties"]) == {"retinue", "version", *sections}
    assert schema["$defs"]["ComponentSpec"]["properties"]["type"]["anyOf"][0]["enum"] == list(COMPONENTS)
    assert {"ToolEntry", "ToolRef", "AgentParams", "ArgumentSpec"} <= set(schema["$defs"])


def test_builders_are_ours_and_there() -> None:
    from importlib import import_module

    for known in (*COMPONENTS.values(), *TOOLS.values()):
        if known.builder:
            module, _, attribute = known.builder.partition(":")
            assert module.startswith("retinue.")
            assert hasattr(import_module(module), attribute)
