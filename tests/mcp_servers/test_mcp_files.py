"""MCP servers in files of agents: approved, checked, saved; and nothing is started before it is used."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from fakes import mcp_server
from fakes.mcp_server import served
from retinue import Agent, DataError, UsageError
from retinue._internal.pin_file import PINS
from retinue.cli import main
from retinue.config import check
from retinue.mcp import MCPTools
from retinue.mcp.tool_pins import Offer, read_pins, write_pins
from retinue.tools import calculator

FILE = """\
components:
  - name: weather
    type: MCPTools
    params:
      url: ${{WEATHER_URL}}
      headers: {{Authorization: "Bearer ${{WEATHER_TOKEN}}", X-Key: spoken-out}}
      tools: [add, to-day]
      options: {{add: {{approval: true}}}}
{tools}agents:
  - name: guide
    params:
      script: [{{when: "^Sunny", finish: Sunny.}}, {{when: weather, call: {{tool: weather_to_day, input: Rome}}}}]
{own}"""
OWN = "      tools: [weather, calculator]\n"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WEATHER_TOKEN", "the token")
    monkeypatch.setenv("WEATHER_URL", "http://127.0.0.1:9/mcp")
    path = tmp_path / "agents.yml"
    path.write_text(FILE.format(tools="", own=OWN))
    return path


def pinned(folder: Path) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    offers = [Offer("add", "Add.", schema), Offer("to-day", "The weather.", schema, "read")]
    write_pins(folder / PINS, {"weather": {offer.name: offer for offer in offers}})


def test_from_approving_to_answering(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with served() as port:
        monkeypatch.setenv("WEATHER_URL", f"http://127.0.0.1:{port}/mcp")
        assert main(["tools", str(file)]) == 2
        problem = "agents.yml:13:15: tools: the tools of the MCP server weather are not approved"
        assert problem in capsys.readouterr().err
        assert main(["pin", str(file), "--yes"]) == 0
        shown = capsys.readouterr().out
        assert "weather_add (new, read)\n    Add two numbers.\n" in shown
        assert "weather_forget" not in shown  # it is not chosen
        assert main(["pin", str(file)]) == 0  # there is nothing to ask
        assert "already approved" in capsys.readouterr().out
        agent = Agent.load_from_yaml(file)
        assert [(one.name, one.approval) for one in agent.tools[:2]] == [
            ("weather_add", True),
            ("weather_to_day", False),
        ]
        assert agent.run("What is the weather?").answer == "Sunny."
        agent.tools[0].something.server.stop()


def test_approving_is_asked_and_shows_what_changed_and_what_hides(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned(file.parent)
    monkeypatch.setitem(mcp_server.TOOLS, "add", ("Add\u200b two.\x1b[2J", {}, None))
    with served() as port:
        monkeypatch.setenv("WEATHER_URL", f"http://127.0.0.1:{port}/mcp")
        monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
        assert main(["pin", str(file)]) == 1
    shown = capsys.readouterr().out
    assert "weather_add (CHANGED, once)\n    Add\\u200b two.\\u001b[2J\n" in shown
    assert read_pins(file.parent / PINS)["weather"]["add"].description == "Add."


def test_nothing_is_started_by_checking_and_listing(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pinned(file.parent)
    mark = file.parent / "started"
    text = file.read_text().replace("url: ${WEATHER_URL}", f"command: touch\n      args: [{mark}]")
    file.write_text("".join(line for line in text.splitlines(keepends=True) if "headers" not in line))
    assert main(["check", str(file)]) == 0
    assert main(["tools", str(file)]) == 0
    assert "weather_to_day: The weather." in capsys.readouterr().out
    assert Agent.load_from_yaml(file).tools
    assert not mark.exists()


@pytest.mark.parametrize("tools", ["tools: [weather]\n", "tools: weather\n"])
def test_a_server_may_stand_at_the_top(file: Path, tools: str) -> None:
    pinned(file.parent)
    file.write_text(FILE.format(tools=tools, own=""))
    (warning,) = check(file)
    assert "weather serves every user with the same credentials" in str(warning)
    assert [one.name for one in Agent.load_from_yaml(file).tools] == ["weather_add", "weather_to_day"]


def test_saved_without_secrets_and_read_as_the_same(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned(file.parent)
    agent = Agent.load_from_yaml(file)
    agent.save_to_yaml(file.parent / "again.yml")
    text = (file.parent / "again.yml").read_text()
    assert "Authorization: Bearer ${WEATHER_TOKEN}" in text
    assert "X-Key: ${WEATHER_X_KEY}" in text
    assert "spoken-out" not in text
    monkeypatch.setenv("WEATHER_X_KEY", "x")
    assert Agent.load_from_yaml(file.parent / "again.yml") == agent
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(UsageError, match="save it there"):
        agent.save_to_yaml(tmp_path / "elsewhere" / "a.yml")


def test_from_code_to_a_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pinned(file.parent)
    given = {"command": "c", "args": ["--token", "sekret", "--key=sekret", "-v"], "env": {"T": "sekret"}}
    server = MCPTools("weather", pins=file.parent / PINS, tools=["add"], **given)  # type: ignore[arg-type]
    agent = Agent("local", [*server.tools(), calculator])
    path = file.parent / "code.yml"
    agent.save_to_yaml(path)
    assert "sekret" not in path.read_text()
    for name in ("WEATHER__TOKEN", "WEATHER__KEY", "WEATHER_T"):
        monkeypatch.setenv(name, "sekret")
    again = Agent.load_from_yaml(path)
    assert [one.name for one in again.tools] == ["weather_add", "Calculator"]
    assert again.tools[0].something.server.given == {**server.given, "cwd": str(path.parent)}  # the file's folder
    server.pins = None
    with pytest.raises(UsageError, match="must be in a file beside this one"):
        agent.save_to_yaml(path)


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ("{}", "3:5: want either a 'command' to run or a 'url'"),
        ("{command: a, url: 'http://b'}", "5:13: want either a 'command' to run or a 'url'"),
        ("{url: 'ftp://b'}", "5:19: url: want http://… or https://…, without a user name, not 'ftp://b'"),
        ("{command: a, headers: {a: b}}", "5:35: 'headers' goes with 'url'"),
        ("{command: a, env: {a: 1}}", "5:31: env: want a mapping of names to single-line texts; put numbers in quotes"),
        ("{command: a, args: b}", "5:32: args: want a list, not 'b'"),
        ("{command: a, options: {b: {approval: 1}}}", "5:50: approval: want true or false, not 1"),
        ("{command: a, shell: true}", "5:26: unknown parameter of MCPTools 'shell'"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(params: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "a.yml"
    path.write_text(f"retinue: 1\ncomponents:\n  - name: s\n    type: MCPTools\n    params: {params}\n")
    assert [str(one).removeprefix(f"{path}:")[: len(problem)] for one in check(path)] == [problem]


def test_a_name_that_tools_cannot_have(tmp_path: Path) -> None:
    path = tmp_path / "a.yml"
    path.write_text("components:\n  - {name: a-b, type: MCPTools, params: {command: x}}\n")
    assert "at most 32 letters, digits and underscores" in str(check(path)[0])


def test_two_servers_whose_tools_collide(file: Path) -> None:
    schema = {"type": "object", "properties": {}}
    offers = {name: Offer(name, "x", schema) for name in ("b_c", "c")}
    write_pins(file.parent / PINS, {"a": {"b_c": offers["b_c"]}, "a_b": {"c": offers["c"]}})
    servers = "".join(f"  - {{name: {name}, type: MCPTools, params: {{command: x}}}}\n" for name in ("a", "a_b"))
    agent = "agents:\n  - {name: x, params: {script: [{finish: y}], tools: [a, a_b]}}\n"
    file.write_text(f"components:\n{servers}{agent}")
    with pytest.raises(DataError, match="two tools are called 'a_b_c'"):
        Agent.load_from_yaml(file)


# ── the file of what was approved ────────────────────────────────────────────────────────────────

TEXTS = st.text(max_size=5)
LEAVES = st.none() | st.booleans() | st.integers() | TEXTS
JSON = st.recursive(
    LEAVES, lambda one: st.lists(one, max_size=2) | st.dictionaries(TEXTS, one, max_size=2), max_leaves=4
)
OFFERS = st.builds(Offer, TEXTS, TEXTS, st.dictionaries(TEXTS, JSON, max_size=2))


@settings(max_examples=50)
@given(offers=st.lists(OFFERS, max_size=3), server=TEXTS)
def test_what_is_approved_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, offers: list[Offer], server: str
) -> None:
    path = tmp_path_factory.mktemp("pins") / PINS
    pins = {server: {offer.name: offer for offer in offers}}
    write_pins(path, pins)
    assert read_pins(path) == pins


@settings(max_examples=100)
@given(content=st.binary(max_size=40) | JSON.map(lambda value: json.dumps(value).encode()))
def test_what_is_no_such_file_is_said(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("pins") / PINS
    path.write_bytes(content)
    with pytest.raises(DataError, match=PINS):
        read_pins(path)


def test_importing_and_loading_imports_no_sdk(file: Path) -> None:
    pinned(file.parent)
    code = f"""
import sys
from retinue import Agent
Agent.load_from_yaml({str(file)!r})
print("mcp" in sys.modules, "httpx2" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"
