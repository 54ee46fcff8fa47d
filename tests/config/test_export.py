"""Agents and pipelines written down: equal when they are read again, and without any secret."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from retinue import Agent, Budget, ExampleCall, Executor, Pipeline, PromptModel, Tool, ToolExample, UsageError, tool
from retinue._internal.yaml_text import dump_value, read_text
from retinue.components import PromptNode, PromptTemplate
from retinue.config import check, dump, load_spec
from retinue.strategies import STRATEGIES
from retinue.strategies.planexec import Planner
from retinue.tools import calculator

SCRIPT = [{"finish": "done"}]


def saved(something: Agent | Pipeline, folder: Path, name: str = "a.yml") -> str:
    something.save_to_yaml(folder / name)
    assert check(folder / name) == []
    return (folder / name).read_text("utf-8")


def test_the_program_of_seed_000_is_written_as_a_file_that_loads(tmp_path: Path) -> None:
    model = PromptModel(script=SCRIPT)
    template = PromptTemplate(prompt_text="Write python for\n$query")
    pipeline = Pipeline(name="calc")
    pipeline.add_node(PromptNode(model, template, output_variable="code"), "Input", ["Query"])
    agent = Agent(prompt_node=PromptNode(model, stop_words=["Observation:"]), budget=Budget(steps=5, stale_steps=None))
    agent.add_tool("Search", PromptNode(model), "useful for search", effects="read", timeout=5)
    agent.add_tool("Calculator", pipeline, "useful for math")
    agent.add_tool("sum", calculator.something, "sums")
    text = saved(agent, tmp_path)
    again = Agent.load_from_yaml(tmp_path / "a.yml")
    assert saved(again, tmp_path, "b.yml") == text
    assert Agent.load_from_yaml(tmp_path / "b.yml") == again
    assert (again.budget, again.tools[0].effects, again.tools[0].timeout) == (agent.budget, "read", 5)
    assert again.tools[1].something.nodes[0].component.output == "code"
    assert again.prompt_node is not None
    assert again.prompt_node.model is again.tools[0].something.model


@pytest.mark.parametrize("strategy", [*STRATEGIES.values(), Planner(), Planner(approve=True)], ids=str)
def test_strategies_and_roles_are_written(strategy: Any, tmp_path: Path) -> None:
    tools = [] if strategy.name == "planner" else [calculator]
    saved(Agent(PromptModel(script=SCRIPT), tools, strategy=strategy), tmp_path)
    assert Agent.load_from_yaml(tmp_path / "a.yml").strategy == strategy


def test_an_executor_and_agents_of_agents_are_written(tmp_path: Path) -> None:
    boss = Agent(PromptModel(script=SCRIPT), name="boss", require_human_feedback=["doer"])
    boss.add_tool("doer", Executor([calculator], name="doer_agent"), "does it")
    text = saved(boss, tmp_path)
    assert "role: executor" in text
    again = Agent.load_from_yaml(tmp_path / "a.yml", "boss")
    assert isinstance(again.tools[0].something, Executor)
    assert again.tools[0].approval


def test_what_one_may_ask_is_written(tmp_path: Path) -> None:
    agent = Agent(PromptModel(script=SCRIPT), questions=["What is open?", "README.md"])
    text = saved(agent, tmp_path)
    again = Agent.load_from_yaml(tmp_path / "a.yml")
    assert again.questions == agent.questions == ("What is open?", "README.md")
    (tmp_path / "other").mkdir()
    assert saved(again, tmp_path / "other") == text
    assert again.with_answers({"type": "object"}).questions == agent.questions
    again.questions = ("What else?",)
    with pytest.raises(UsageError, match="was changed since it was loaded"):
        again.save_to_yaml(tmp_path / "b.yml")


def test_a_function_of_a_file_beside_is_written_and_others_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def age(name: str) -> int:\n    'The age of a person.'\n    return 47\n")
    from retinue.tools.function_loader import load_module

    agent = Agent(PromptModel(script=SCRIPT), [load_module(tmp_path / "mine.py").age])
    assert "callable_api: mine.py:age" in saved(agent, tmp_path)
    assert Agent.load_from_yaml(tmp_path / "a.yml").tools[0].description == "The age of a person."

    @tool
    def local(text: str) -> str:
        "Local."
        return text

    for wrong in (local, lambda text: text):
        agent = Agent(PromptModel(script=SCRIPT))
        agent.add_tool("x", wrong.something if isinstance(wrong, Tool) else wrong, "x")
        with pytest.raises(UsageError, match=r"tool x: cannot be written"):
            agent.save_to_yaml(tmp_path / "c.yml")
    assert not (tmp_path / "c.yml").exists()


def test_worked_examples_are_written_but_not_those_that_come_along(tmp_path: Path) -> None:
    model, call = PromptModel(script=SCRIPT), ExampleCall("I ask.", "nodes", "seven")
    mine = ToolExample("How many nodes?", (call,), "seven", follow_up="And twice that?")
    ask = Tool("Ask", PromptNode(model), "asks", examples=(mine,))
    own = replace(calculator, name="own", examples=(mine,))
    none = replace(calculator, name="none", examples=())
    text = saved(Agent(model, [ask, own, none, calculator]), tmp_path)
    again = Agent.load_from_yaml(tmp_path / "a.yml")
    assert [one.examples for one in again.tools] == [(mine,), (mine,), (), calculator.examples]
    assert "(62 + 14) / 7" not in text


def test_tools_added_to_a_loaded_agent_are_written_and_other_changes_are_an_error(tmp_path: Path) -> None:
    saved(Agent(PromptModel(script=SCRIPT), [calculator]), tmp_path)
    agent = Agent.load_from_yaml(tmp_path / "a.yml")
    agent.add_tool("Ask", PromptNode(PromptModel(script=SCRIPT)), "asks")
    saved(agent, tmp_path, "b.yml")
    assert [one.name for one in Agent.load_from_yaml(tmp_path / "b.yml").tools] == ["Calculator", "Ask"]
    agent.budget = Budget(steps=2)
    with pytest.raises(UsageError, match="was changed since it was loaded"):
        agent.save_to_yaml(tmp_path / "c.yml")


def test_what_a_file_cannot_say_is_an_error(tmp_path: Path) -> None:
    class Own:
        name = "own"

        def __call__(self, task: Any) -> Any: ...

    cases = [
        Agent(PromptModel(script=SCRIPT), [calculator], strategy=Own()),
        Pipeline(inputs=("query", "documents")),
    ]
    function = Pipeline()
    function.add_node(lambda query: query, "f")
    for something in (*cases, function):
        with pytest.raises(UsageError):
            something.save_to_yaml(tmp_path / "a.yml")
    with pytest.raises(UsageError, match="cannot be written"):
        Agent(PromptModel(script=SCRIPT), [calculator]).save_to_yaml(tmp_path / "none" / "a.yml")


PLANTED = "sk-planted-5ecret"
SECRETS = f"""\
retinue: 1
components:
  - name: my-model
    type: PromptModel
    params:
      base_url: https://user:{PLANTED}@host/v1
      model_name_or_path: m
      api_key: {PLANTED}
      options: {{headers: {{Authorization: Bearer {PLANTED}}}, list: [{{token: {PLANTED}}}], kept: no}}
agents:
  - name: a
    params:
      model: my-model
      tools:
        far:
          callable_api: https://u:{PLANTED}@h/x?api_key={PLANTED}&q=1
          description: far
          env: TOKEN={PLANTED},OTHER=${{OTHER}}
"""


def test_no_secret_is_ever_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTHER", "planted-too")
    (tmp_path / "in.yml").write_text(SECRETS)
    text = saved(Agent.load_from_yaml(tmp_path / "in.yml"), tmp_path)
    assert "planted" not in text
    assert "api_key: ${MY_MODEL_PARAMS_API_KEY}" in text
    assert "env: TOKEN=${TOKEN},OTHER=${OTHER}" in text
    monkeypatch.setenv("OPENAI_API_KEY", PLANTED)
    agent = Agent(PromptModel("m", api_key=PLANTED, options={"api_key": PLANTED}), [calculator])
    text = saved(agent, tmp_path)
    assert "planted" not in text
    assert "api_key: ${AGENT_MODEL_PARAMS_API_KEY}" in text


def test_what_names_other_files_is_saved_beside_them(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text("def f(query: str) -> str:\n    return query\n")
    text = "agents: [{name: a, params: {script: [x], tools: {f: {callable_api: 't.py:f', description: d}}}}]\n"
    (tmp_path / "in.yml").write_text(text)
    agent = Agent.load_from_yaml(tmp_path / "in.yml")
    saved(agent, tmp_path)
    (tmp_path / "other").mkdir()
    with pytest.raises(UsageError, match="names files in"):
        agent.save_to_yaml(tmp_path / "other" / "a.yml")


NAMES = st.sampled_from(["a", "B_2", "x-y", "na me", "no", "é", "1", "true"])
PARAMS = st.fixed_dictionaries(
    {"script": st.just(SCRIPT), "tools": st.sampled_from([["calculator"], {"s": {"callable_api": "calculator"}}])},
    optional={
        "strategy": st.sampled_from(sorted(STRATEGIES)),
        "role_description": st.text(st.characters(codec="utf-8", exclude_characters="$"), max_size=20),
        "max_steps": st.integers(1, 50),
        "max_execution_time": st.floats(0.1, 1e6),
        "temperature": st.floats(0, 2),
        "stream": st.booleans(),
        "require_human_feedback": st.booleans(),
        "early_stopping_method": st.sampled_from(["force", "generate"]),
        "answer": st.sampled_from([{"type": "integer"}, {"type": "array", "items": {"type": "string"}}]),
        "budget": st.fixed_dictionaries({}, optional={"tokens": st.integers(1, 99), "stale_steps": st.none()}),
    },
)


@settings(max_examples=60)
@given(st.dictionaries(NAMES, PARAMS, min_size=1, max_size=3))
def test_load_of_save_is_the_same(agents: dict[str, dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, again = Path(folder) / "a.yml", Path(folder) / "b.yml"
        file = {"retinue": 1, "agents": [{"name": name, "params": params} for name, params in agents.items()]}
        path.write_text(dump_value(file), "utf-8")
        assert read_text(dump(load_spec(path))).value == file
        for name in agents:
            agent = Agent.load_from_yaml(path, name)
            agent.save_to_yaml(again)
            loaded = Agent.load_from_yaml(again)
            assert loaded == agent
            assert (loaded.budget, loaded.strategy, loaded.schema) == (agent.budget, agent.strategy, agent.schema)
