"""Groups and chains in files: what they become, and where their mistakes are."""

from __future__ import annotations

import re
from pathlib import Path
from runpy import run_path
from textwrap import dedent

import pytest

from docs.test_docs import blocks
from fakes import fork_server
from retinue import Agent, DataError, Decision, StopReason
from retinue.config import check
from retinue.config.specs import (
    CaseSpec,
    ChainSpec,
    ConditionalSpec,
    EdgeSpec,
    FieldSpec,
    GroupSpec,
    HumanSpec,
    RoleSpec,
    SelectorSpec,
)
from retinue.core.events import Called
from retinue.teams import Chain

FUNCTIONS = '''
def outline(question: str) -> list:
    """Say what is to be written."""
    return [question, question.upper()]

def count(draft: str) -> int:
    return len(draft)

def should_continue(state: dict) -> str:
    return "done" if state["visits"]["count"] > 1 else "again"

def longest(old, new):
    return max(old, new, key=len)
'''
FILE = """\
retinue: 1
agents:
  - name: writer
    params: {model: scripted, script: [{say: "a text"}]}
groups:
  - name: report
    description: Writes a report.
    state:
      draft: str
      size: {type: int, reducer: add, default: 1}
      best: {type: str, reducer: "parts.py:longest", default: ""}
    answer: draft
    max_visits: 5
    budget: {seconds: 60}
    roles:
      - {name: outline, callable_api: "parts.py:outline"}
      - {name: write, agent: writer, input: [question, outline], output: draft}
      - {name: count, callable_api: "parts.py:count", output: size}
      - {name: approve, human: {shows: draft, question: "Publish it?"}}
    edges:
      - {head: START, tail: outline}
      - {head_node: outline, tail_node: write}
      - {head: write, tail: count}
      - {head: approve, tail: END}
      - {head: write, tail: approve, on: error}
    conditional_edges:
      - head_node: count
        tail_nodes: {again: write, done: approve}
        Should_Continue: {function: "parts.py:should_continue"}
chains:
  - name: twice
    steps: [writer, {name: count, callable_api: "parts.py:count"}]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "parts.py").write_text(FUNCTIONS)
    (tmp_path / "a.yml").write_text(FILE)
    return tmp_path


def test_a_group_of_a_file_runs(folder: Path) -> None:
    assert check(folder / "a.yml") == []
    agent = Agent.load_from_yaml(folder / "a.yml", "report")
    parked = agent.run("q")
    assert parked.stop_reason is StopReason.AWAITING_HUMAN
    done = agent.resume(parked.events, {"consult_1": Decision("approve")})
    assert done.answer == "a text"
    assert done.return_values["state"]["size"] == 1 + 6 + 6
    names = [event.action.tool for event in done.events if isinstance(event, Called)]
    assert names == ["outline", "write", "count", "select_count", "write", "count", "select_count"]


def test_a_chain_of_a_file_runs(folder: Path) -> None:
    agent = Agent.load_from_yaml(folder / "a.yml", "twice")
    assert isinstance(agent, Chain)
    assert agent.run("q").answer == "6"


def test_the_only_one_that_no_other_is_made_of_is_meant(folder: Path) -> None:
    text = (folder / "a.yml").read_text()
    (folder / "one.yml").write_text(text[: text.index("chains:")])
    assert Agent.load_from_yaml(folder / "one.yml").name == "report"
    with pytest.raises(Exception, match="several agents; say which: report, twice"):
        Agent.load_from_yaml(folder / "a.yml")


def test_it_is_written_as_it_was_read(folder: Path) -> None:
    agent = Agent.load_from_yaml(folder / "a.yml", "report")
    agent.save_to_yaml(folder / "b.yml")
    assert check(folder / "b.yml") == []
    assert Agent.load_from_yaml(folder / "b.yml", "report") == agent
    assert "Should_Continue" not in (folder / "b.yml").read_text()


def run_cli(*args: str | Path) -> str:
    done = fork_server.retinue(*args)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_is_drawn(folder: Path) -> None:
    said = run_cli("draw", folder / "a.yml", "--group", "report")
    assert "write !→ approve" in said
    assert "count ?→ write, approve" in said
    assert run_cli("draw", folder / "a.yml") == said
    run_cli("draw", folder / "a.yml", "--group", "report", "--svg", folder / "a.svg")
    assert (folder / "a.svg").read_text().count("<rect") == 6


BROKEN = """\
groups:
  - name: g
    state:
      draft: string
      notes: {type: int, reducer: append}
      visits: int
      best: {reducer: apend}
    answer: drft
    roles:
      - {name: a, callable_api: "no.py:f"}
      - {name: b, agent: writr}
      - {name: c}
      - {name: START, agent: writer}
      - {name: d, agent: writer, human: {}, input: nothing, output: errors}
    edges:
      - {head: START, tail: a}
      - {head: a, tail: bb}
      - {head: a, tail: bb}
      - {head: b, tail: END, on: failure}
    conditional_edges:
      - {head: a, tails: [b, END], selector: "scroe >= 8"}
      - {head: b, tails: [], selector: {when: [{if: "draft =", to: x}], function: "parts.py:f"}}
      - {head: d, tails: [END], selector: {question: "Who?"}}
      - {head: d, tails: [END], selector: {}}
  - name: g
    roles: []
    edges: []
agents:
  - {name: writer, params: {model: scripted, script: [x]}}
chains:
  - {name: h, steps: [writer, nobody, h, {name: x, agent: g}, {name: x, agent: g}]}
"""


def test_all_mistakes_are_told_with_their_places(folder: Path) -> None:
    (folder / "b.yml").write_text(BROKEN)
    said = [str(problem).partition("b.yml:")[2] for problem in check(folder / "b.yml")]
    assert said == dedent(EXPECTED).strip().splitlines()


EXPECTED = """
    4:14: draft: want 'any', 'str', 'int', 'float', 'bool', 'list' or 'dict', not 'string'
    5:14: the reducer append needs a list, not int
    6:7: 'visits' is kept by the graph; choose another name
    7:23: reducer: unknown reducer 'apend'; did you mean 'append'?
    8:13: answer: unknown field 'drft'; did you mean 'draft'?
    10:33: callable_api: 'no.py' does not exist here
    11:26: unknown agent 'writr'; did you mean 'writer'?
    12:16: nothing is called 'c'; the role needs an 'agent', 'pipeline', 'component', 'callable_api' or 'human'
    13:16: START is where every graph begins; choose another name
    14:34: both 'agent' and 'human' have this role; keep one
    14:52: input: unknown field 'nothing'; there are: question, history, errors, visits, draft, notes, best, a, b, c, START
    14:69: output: the field 'errors' is kept by the graph; choose another name
    17:25: no role 'bb'; did you mean 'b'?
    18:9: there are two edges from 'a' to 'bb'
    18:25: no role 'bb'; did you mean 'b'?
    19:34: on: want 'error', not 'failure'
    21:46: the expression: unknown field 'scroe'; there are: question, history, errors, visits, draft, notes, best, a, b, c, START
    22:26: the conditional edges from 'b' have no candidates
    22:53: the expression: '=' at character 7: want '=='
    22:73: both 'when' and 'function' choose; keep one
    23:43: a model is to choose, but the group has none; needs 'model'
    24:43: selector: needs 'when', 'function', or a 'question' for a model
    25:11: 'g' is already the name of a group
    26:12: roles: want a list that is not empty
    31:31: unknown agent, pipeline, component, group or chain 'nobody'; there are: writer, g, h
    31:39: circular references: h needs h
    31:70: two steps are called 'x'; give one of them another name
"""  # noqa: E501


def test_a_mistake_that_only_building_finds_has_the_place_of_its_group(folder: Path) -> None:
    (folder / "b.yml").write_text(FILE.replace("input: [question, outline]", "input: approve"))
    with pytest.raises(DataError, match=r"b\.yml:6:11: report: .*\n- role write: it reads the field 'approve'"):
        Agent.load_from_yaml(folder / "b.yml", "report")


def test_the_pages_files_are_right(folder: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "graphs.md").read_text("utf-8")
    (folder / "parts.py").touch()
    (text,) = blocks(page, "yaml")
    (folder / "page.yml").write_text(text)
    assert check(folder / "page.yml") == []


def test_the_page_names_every_key() -> None:
    named = set(re.findall(r"`([A-Za-z_]+)`", (Path(__file__).parents[2] / "docs" / "graphs.md").read_text("utf-8")))
    specs = (GroupSpec, ChainSpec, RoleSpec, HumanSpec, EdgeSpec, ConditionalSpec, SelectorSpec, FieldSpec, CaseSpec)
    assert {known.alias or key for spec in specs for key, known in spec.model_fields.items()} - {"on"} <= named


def test_the_example_draws_its_graph_and_answers(capsys: pytest.CaptureFixture[str]) -> None:
    run_path(str(Path(__file__).parents[2] / "examples" / "graph.py"), run_name="example")["main"]("How is tea made?")
    said = capsys.readouterr().out
    assert "review ?→ write, approve" in said
    assert "A text with numbers. {'search': 1, 'count': 1, 'write': 2, 'review': 2, 'approve': 1}" in said
