"""Files as objects: what is wired to what, and what each key of an agent changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import retinue.components
from fakes.config_files import SEED
from retinue import Agent, Budget, DataError, Decision, Executor, Pipeline, PromptModel, UsageError
from retinue.components import PromptNode, PromptTemplate
from retinue.config import check
from retinue.config.specs import AgentParams
from retinue.config.yaml_files import load
from retinue.core.events import Asked
from retinue.models.reply_limits import Limited
from retinue.strategies import STRATEGIES
from retinue.tools import calculator

REACT = "[{when: '^2', call: {tool: calculator, input: 2^3}}, {when: '^8', finish: It is 8.}]"
SCRIPTED = f"""\
retinue: 1
components:
  - name: Model
    type: PromptModel
    params: {{engine: scripted, script: {REACT}}}
agents:
  - name: agent
    params: {{model: Model, strategy: STRATEGY, tools: [calculator]}}
"""


class Serp:
    """Stands in for the search until it is here."""

    def __init__(self, api_key: str = "", top_k: int = 3) -> None:
        self.api_key = api_key
        self.top_k = top_k
        self.given = {"api_key": api_key, "top_k": top_k}

    def run(self, query: str) -> dict[str, Any]:
        return {"results": f"{query}: 47 years"}


class PythonRuntime:
    """Stands in for the sandbox until it is here."""

    def run(self, python_runtime_input: list[str]) -> dict[str, Any]:
        return {"results": f"ran {len(python_runtime_input)}"}


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    serp = type("SerpAPIComponent", (Serp,), {})
    for name, kind in (("SerpAPIComponent", serp), ("PythonRuntime", PythonRuntime)):
        if not hasattr(retinue.components, name):
            monkeypatch.setattr(retinue.components, name, kind, raising=False)
    monkeypatch.setenv("DAVINCIMODEL_PARAMS_API_KEY", "XYZ")
    monkeypatch.setenv("SERP_PARAMS_API_KEY", "XYZ")


def written(folder: Path, text: str, name: str = "agents.yml") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def agent_with(folder: Path, **params: Any) -> Agent:
    given = {"model": "scripted", "script": [{"finish": "done"}], "tools": ["calculator"]} | params
    given = {key: value for key, value in given.items() if value is not None}
    agent = load(written(folder, json.dumps({"agents": [{"name": "a", "params": given}]})), "agents")
    assert isinstance(agent, Agent)
    return agent


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_agent_without_tools_is_nothing_wrong_and_answers(strategy: str, tmp_path: Path) -> None:
    script = [{"when": "Make a plan", "raw": "1. Think"}, {"finish": "Paris"}]
    params = {"script": script, "strategy": strategy, "instructions": "You are a guide."}
    file = written(tmp_path, json.dumps({"agents": [{"name": "a", "params": params}]}))
    assert check(file) == []
    agent = load(file, "agents", human=lambda action, problem: Decision("approve"))
    result = agent.run("What is the capital of France?")
    assert (result.answer, result.transcript.splitlines()[0]) == ("Paris", "You are a guide.")


def test_the_file_of_seed_000_loads_saves_and_loads_as_an_equal_agent(tmp_path: Path) -> None:
    agent = Agent.load_from_yaml(SEED, agent_name="agent")
    assert [tool.name for tool in agent.tools] == ["Search", "Calculator"]
    assert agent.tools[0].description.startswith("useful for when you need to answer questions about current events.")
    assert isinstance(agent.prompt_node, PromptNode)
    assert agent.prompt_node.stop_words == ("Observation:",)
    assert isinstance(agent.tools[1].something, Pipeline)
    assert [node.name for node in agent.tools[1].something.nodes] == ["CalculatorInput", "Calculator"]
    agent.save_to_yaml(tmp_path / "again.yml")
    again = Agent.load_from_yaml(tmp_path / "again.yml")
    assert again == agent
    assert hash(again) == hash(agent)
    again.save_to_yaml(tmp_path / "third.yml")
    assert (tmp_path / "third.yml").read_text() == (tmp_path / "again.yml").read_text()
    assert "XYZ" not in (tmp_path / "again.yml").read_text()
    again.tools = again.tools[:-1]
    assert again != agent


def test_a_pipeline_loads_by_itself(tmp_path: Path) -> None:
    pipeline = Pipeline.load_from_yaml(SEED, "calculator_pipeline")
    pipeline.save_to_yaml(tmp_path / "p.yml")
    assert Pipeline.load_from_yaml(tmp_path / "p.yml") == pipeline
    assert "agents" not in (tmp_path / "p.yml").read_text()


def test_of_several_agents_one_is_named(tmp_path: Path) -> None:
    agents = "agents:\n" + "".join(f"  - {{name: {n}, params: {{model: m, tools: [calculator]}}}}\n" for n in "ab")
    path = written(tmp_path, agents)
    with pytest.raises(UsageError, match="several agents; say which: a, b"):
        Agent.load_from_yaml(path)
    with pytest.raises(DataError, match="unknown agent 'c'"):
        Agent.load_from_yaml(path, "c")
    with pytest.raises(DataError, match="there are no pipelines"):
        Pipeline.load_from_yaml(path)


@pytest.mark.parametrize(
    ("exposed", "expected"),
    [("", "top"), (", exposed: false", "top"), (", exposed: true", "several agents; say which: top, helper")],
)
def test_the_agent_that_is_nobodys_worker_needs_no_name(exposed: str, expected: str, tmp_path: Path) -> None:
    top = "  - {name: top, params: {model: scripted, script: [{say: hi}], workers: [helper]}}\n"
    helper = (
        f"  - {{name: helper, params: {{model: scripted, script: [{{say: hi}}], role_description: Helps.{exposed}}}}}\n"
    )
    path = written(tmp_path, f"agents:\n{top}{helper}")
    if expected == "top":
        assert Agent.load_from_yaml(path).name == "top"
    else:
        with pytest.raises(UsageError, match=expected):
            Agent.load_from_yaml(path)


@pytest.mark.parametrize("strategy", ["react", "tool_calling"])
def test_a_script_in_yaml_answers(strategy: str, tmp_path: Path) -> None:
    agent = Agent.load_from_yaml(written(tmp_path, SCRIPTED.replace("STRATEGY", strategy)))
    assert agent.run("2 to the power of 3?").answer == "It is 8."
    assert [result.answer for result in agent.run_batch(["2^3?", "2 ^ 3 ?"])] == ["It is 8."] * 2


def test_variables_and_parameters_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """\
components:
  - {name: M, type: PromptModel, params: {model_name_or_path: "${NAME}", base_url: "http://h", api_key: "${K}"}}
  - {name: Node, type: PromptNode, params: {model_name_or_path: M, top_k: 1}}
agents:
  - {name: a, params: {prompt_node: Node, role_description: "${ROLE}", tools: [calculator]}}
"""
    path = written(tmp_path, text)
    with pytest.raises(DataError) as failed:
        load(path, "agents")
    lines = [(line.split(":")[1], line.rpartition(": ")[2]) for line in str(failed.value).splitlines()]
    assert lines == [(at, f"the environment variable {name} is not set") for at, name in zip("225", NAMES, strict=True)]
    environ = {"NAME": "gpt", "K": "planted", "NODE_PARAMS_TOP_K": "3", "M_PARAMS_BASE_URL": "http://i", "ROLE": "R"}
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    agent = load(path, "agents")
    assert agent.prompt_node.top_k == 3
    assert agent.model.name == "gpt"
    assert agent.prompt_node.model.given["base_url"] == "http://i"
    agent.save_to_yaml(tmp_path / "b.yml")
    again = (tmp_path / "b.yml").read_text()
    assert all(name in again for name in ("${NAME}", "${K}", "${ROLE}", "top_k: 1", "http://h"))
    assert not any(value in again for value in ("planted", "gpt", "http://i"))


NAMES = ("NAME", "K", "ROLE")
KEYS: list[tuple[dict[str, Any], Any]] = [
    ({"strategy": "self_ask"}, lambda a: a.strategy == STRATEGIES["self_ask"]),
    ({"strategy": "humanInLoopPlanExec"}, lambda a: a.strategy.approve),
    ({"instructions": "Speak French."}, lambda a: a.instructions == "Speak French."),
    ({"role_description": "You are R."}, lambda a: a.instructions == "You are R."),
    ({"questions": ["  What is ${HOME}?"]}, lambda a: a.questions == ("What is ${HOME}?",)),
    ({"custom_prompt": "Be brief."}, lambda a: a.instructions == "Be brief."),
    ({"custom_prompt": "Q: $question"}, lambda a: a.strategy.prompt == "Q: $question"),
    ({"require_human_feedback": True}, lambda a: a.tools[0].approval),
    ({"require_human_feedback": ["sum"], "tools": {"sum": {"callable_api": "calculator"}}},
     lambda a: a.tools[0].approval),
    ({"budget": {"steps": 3, "tokens": 9, "seconds": 5, "stale_steps": 2}}, lambda a: a.budget == Budget(3, 5, 9, 2)),
    ({"budget": {"steps": None}}, lambda a: a.budget.steps is None),
    ({"budget": {"early_stopping_method": "force"}}, lambda a: a.budget.early_stopping_method == "force"),
    ({"recursion_limit": 7}, lambda a: a.budget.steps == 7),
    ({"max_iterations": 7}, lambda a: a.budget.steps == 7),
    ({"max_steps": 7}, lambda a: a.budget.steps == 7),
    ({"max_execution_time": 2.5}, lambda a: a.budget.seconds == 2.5),
    ({"early_stopping_method": "force"}, lambda a: a.budget.early_stopping_method == "force"),
    ({"answer": {"type": "integer"}}, lambda a: a.schema == {"type": "integer"}),
    ({"max_new_tokens": 9}, lambda a: isinstance(a.model, Limited) and a.model.max_tokens == 9),
    ({"temperature": 0.5}, lambda a: a.model.given["temperature"] == 0.5),
    ({"effort": "high", "verbosity": "low", "thinking_tokens": 9},
     lambda a: [a.model.given[key] for key in ("effort", "verbosity", "thinking_tokens")] == ["high", "low", 9]),
    ({"top_p": 0.5, "top_k": 4}, lambda a: a.model.given["options"] == {"top_p": 0.5, "top_k": 4}),
    ({"repetition_penalty": 1.1}, lambda a: a.model.given["options"] == {"repetition_penalty": 1.1}),
    ({"stream": False}, lambda a: a.model.given["stream"] is False),
    ({"timeout": 4}, lambda a: (a.model.given["limits"].connect, a.model.given["limits"].total) == (4, 4)),
    ({"api_key": "k"}, lambda a: a.model.given["api_key"] == "k"),
    ({"model": None, "script": None, "llm_engine": "tgi", "llm_endpoint_url": "http://h", "llm_model_id": "m"},
     lambda a: a.model.given["engine"] == "tgi" and a.model.given["base_url"] == "http://h" and a.model.name == "m"),
    ({"role": "planner", "tools": None}, lambda a: a.strategy.name == "planner" and not a.strategy.approve),
    ({"role": "planner", "tools": None, "require_human_feedback": True}, lambda a: a.strategy.approve),
    ({"role": "executor", "model": None, "script": None}, lambda a: isinstance(a, Executor)),
    ({"tools": {"sum": {"callable_api": "calculator"}}}, lambda a: [tool.name for tool in a.tools] == ["sum"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("params", "changed"), KEYS, ids=lambda value: ",".join(value) if isinstance(value, dict) else ""
)
def test_each_key_changes_what_it_should(params: dict[str, Any], changed: Any, tmp_path: Path) -> None:
    assert changed(agent_with(tmp_path, **params))


def test_no_key_is_forgotten_here() -> None:
    elsewhere = {"prompt_node", "memory", "with_memory", "memory_type", "store_config"}  # above; with memories
    elsewhere |= {"workers", "handoffs", "exposed", "registered_tools"}  # tests/teams
    elsewhere |= {"models", "fall_back_on"}  # tests/models/test_fallbacks.py
    elsewhere |= {"hooks"}  # tests/config/test_hooks_in_files.py
    elsewhere |= {"harness", "context"}  # tests/config/test_{harness,context}_in_files.py
    assert {key for params, _ in KEYS for key in params} | elsewhere == set(AgentParams.model_fields)


def test_what_is_said_of_a_role_stands_before_every_prompt(tmp_path: Path) -> None:
    for strategy in STRATEGIES:
        agent = agent_with(tmp_path, strategy=strategy, role_description="You are R.", require_human_feedback=False)
        log = agent.run("?").events
        asked = [event for event in log if isinstance(event, Asked)]
        assert asked[0].messages[0].content.startswith("You are R."), strategy


def test_settings_of_a_component_are_said_there(tmp_path: Path) -> None:
    path = written(tmp_path, SCRIPTED.replace("strategy: STRATEGY", "temperature: 1"))
    with pytest.raises(DataError, match="8:28: the component 'Model' is the model; set 'temperature' there"):
        Agent.load_from_yaml(path)


def test_a_planner_plans(tmp_path: Path) -> None:
    script = [{"raw": '{"steps": ["find the age", "raise it"]}'}]
    result = agent_with(tmp_path, role="planner", tools=None, script=script).run("How old?")
    assert json.loads(result.answer) == {"steps": ["find the age", "raise it"]}


def test_an_executor_runs_what_it_is_given(tmp_path: Path) -> None:
    executor = agent_with(tmp_path, role="executor", model=None, script=None)
    assert isinstance(executor, Executor)
    assert executor.run({"tool": "calculator", "input": "2^3"}).answer == "8"
    both = executor.run([{"tool": "calculator", "input": "1+1"}, {"tool": "Nope", "input": ""}])
    assert json.loads(both.answer or "")[0] == {"tool": "calculator", "outcome": "result", "output": "2"}
    assert json.loads(both.answer or "")[1]["outcome"] == "unknown_tool"
    wrongs: list[Any] = ["what?", {"input": "1"}, [], {"tool": "Nope"}]
    for wrong in wrongs:
        assert executor.run(wrong).stop_reason == "ERROR"
    asking = agent_with(tmp_path, role="executor", model=None, script=None, require_human_feedback=True)
    assert isinstance(asking, Executor)
    assert asking.run({"tool": "calculator", "input": "1"}).stop_reason == "AWAITING_HUMAN"


def test_an_agent_is_a_tool_of_another(tmp_path: Path) -> None:
    text = """\
agents:
  - name: boss
    params:
      script: [{when: far, call: {tool: worker, input: how far}}, {when: 3 km, finish: 3 km}]
      tools: [{name: worker, pipeline_or_node: worker}]
  - {name: worker, params: {role_description: Knows ways., script: [{finish: 3 km}], tools: [calculator]}}
"""
    agent = Agent.load_from_yaml(written(tmp_path, text), "boss")
    assert agent.tools[0].description == "Knows ways."
    assert agent.run("How far?").answer == "3 km"


def test_a_prompt_nodes_template_is_the_prompt() -> None:
    model = PromptModel(script=["Final Answer: yes Observation: no"])
    node = PromptNode(model, PromptTemplate(prompt_text="Tools: $tool_names. $query\n"), stop_words=["Observation:"])
    agent = Agent(prompt_node=node)
    agent.add_tool("Calculator", calculator.something, "for math")
    result = agent.run("Is it?")
    assert result.answer is not None
    (asked,) = [event for event in result.events if isinstance(event, Asked)]
    assert asked.messages[0].content.startswith("Tools: Calculator. Is it?\n")


def test_an_agent_that_only_talks_needs_no_tools(tmp_path: Path) -> None:
    file = tmp_path / "agents.yaml"
    params = "{script: [{say: Hello}], strategy: tool_calling}"
    file.write_text(f"retinue: 1\nagents:\n  - {{name: talker, params: {params}}}\n")
    assert Agent.load_from_yaml(file).run("Hi").answer == "Hello"


@pytest.mark.parametrize("none", ["[]", "{}"])
def test_an_agent_that_says_it_has_no_tools_gets_none_of_those_at_the_top(none: str, tmp_path: Path) -> None:
    path = tmp_path / "a.yml"
    path.write_text(
        SCRIPTED.replace("[calculator]", none).replace("STRATEGY", "tool_calling")
        + "  - {name: all, params: {model: Model}}\n"
        "tools: {danger: {callable_api: calculator}}\n"
    )
    assert Agent.load_from_yaml(path, "agent").tools == ()
    assert [tool.name for tool in Agent.load_from_yaml(path, "all").tools] == ["danger"]
    agent = Agent.load_from_yaml(path, "agent")
    agent.save_to_yaml(tmp_path / "saved.yml")
    assert Agent.load_from_yaml(tmp_path / "saved.yml").tools == ()


@pytest.mark.parametrize("more", ["role: executor", "model: m, require_human_feedback: [danger]"])
def test_what_needs_a_tool_is_refused_where_there_are_said_to_be_none(more: str, tmp_path: Path) -> None:
    path = tmp_path / "a.yml"
    path.write_text(
        f"agents: [{{name: a, params: {{{more}, tools: []}}}}]\ntools: {{danger: {{callable_api: calculator}}}}\n"
    )
    with pytest.raises(DataError, match=r"an executor needs 'tools'|unknown tool 'danger'; there are none"):
        load(path, "agents")
