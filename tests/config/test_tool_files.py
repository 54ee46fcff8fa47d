"""Tool files of seed 003: every form of `callable_api`, arguments, environment, folders."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from aiohttp import web

from fakes.loopback import Loopback
from retinue import DataError, ExampleCall, NotDone, ToolError, ToolExample
from retinue.config import load_tools
from retinue.core.tools.signature import InvalidInput
from retinue.core.tools.tool import Tool
from retinue.core.tools.toolbox import Toolbox
from retinue.core.values import AgentAction

FORMATS = Path(__file__).parents[1] / "data" / "formats"
MUSIC = """
def search_knowledge_base(query: str) -> dict: return {"retrieved_data": f"found {query}", "more": 1}
def search_sql_database(query): return "not a mapping"
def get_artist_birth_place(artist_name): return {"place": artist_name}
async def get_billboard_rank_date(rank, date): return {"billboard_info": [rank + 1, date]}
def get_song_release_date(song_name): raise LookupError(song_name)
def get_members(band_name): return ["a", "b"]
def get_grammy_best_artist_by_year(year): return {"grammy_best_new_artist": None, "year": year}
"""
FINANCE = """
def finqa_agent(query): return query
def research_agent(company): return {"report": company}
"""


def called(tool: Tool, tool_input: Any = "") -> str:
    return asyncio.run(tool.call(tool_input))


def tools_of(folder: Path, text: str, code: str = "", environ: Mapping[str, str] | None = None) -> dict[str, Tool]:
    (folder / "tools.yaml").write_text(text, "utf-8")
    (folder / "code.py").write_text(code, "utf-8")
    with patch.dict(os.environ, environ or {}):
        return {tool.name: tool for tool in load_tools(folder / "tools.yaml")}


def test_the_supervisors_file_loads_unchanged(tmp_path: Path) -> None:
    shutil.copy(FORMATS / "opea_supervisor_agent_tools.yaml", tmp_path / "tools.yaml")
    (tmp_path / "tools.py").write_text(MUSIC)
    tools = {tool.name: tool for tool in load_tools(tmp_path / "tools.yaml")}
    assert list(tools) == [
        "search_knowledge_base", "search_artist_database", "get_artist_birth_place", "get_billboard_rank_date",
        "get_song_release_date", "get_members", "get_grammy_best_artist_by_year",
    ]  # fmt: skip
    assert tools["get_members"].description == "Get the member list of a band."
    assert tools["get_billboard_rank_date"].signature.parameters == {
        "type": "object",
        "properties": {
            "rank": {"type": "integer", "description": "the rank of interest, for example 1 for top 1"},
            "date": {"type": "string", "description": "date"},
        },
        "required": ["rank", "date"],
        "additionalProperties": False,
    }
    assert called(tools["search_knowledge_base"], "jazz") == "found jazz"
    assert called(tools["search_artist_database"], {"query": "x"}) == "not a mapping"
    assert called(tools["get_artist_birth_place"], "Adele") == '{"place": "Adele"}'
    assert called(tools["get_billboard_rank_date"], {"rank": 1, "date": "1984"}) == '[2, "1984"]'
    assert called(tools["get_members"], "ABBA") == '["a", "b"]'
    assert called(tools["get_grammy_best_artist_by_year"], {"year": 1999}) == ""
    with pytest.raises(InvalidInput, match="year"):
        called(tools["get_grammy_best_artist_by_year"], {"year": "soon"})
    box = Toolbox(tools.values())
    seen = asyncio.run(box.run(AgentAction("get_song_release_date", "Hello")))
    assert (seen.outcome, seen.text) == ("unknown", "get_song_release_date failed: LookupError: Hello")


def test_the_workers_and_the_finance_file_load_unchanged(tmp_path: Path) -> None:
    shutil.copy(FORMATS / "opea_worker_agent_tools.yaml", tmp_path / "worker_agent_tools.yaml")
    shutil.copy(FORMATS / "opea_finance_supervisor_agent_tools.yaml", tmp_path / "finance.yml")
    (tmp_path / "worker_agent_tools.py").write_text(MUSIC)
    (tmp_path / "supervisor_tools.py").write_text(FINANCE)
    (tmp_path / "sum_agent_tools.py").write_text(
        "def summarize(doc_name, company): return f'{doc_name} of {company}'\n"
    )
    tools = {tool.name: tool for tool in load_tools(tmp_path)}
    assert list(tools) == ["finqa_agent", "summarization_tool", "research_agent", "search_knowledge_base"]
    assert called(tools["summarization_tool"], {"doc_name": "10-K", "company": "Acme"}) == "10-K of Acme"
    assert called(tools["research_agent"], "Acme") == "Acme"
    assert called(tools["search_knowledge_base"], "x") == "found x"


ALL_FORMS = """
calculator: {callable_api: calculator}
sums: {callable_api: retinue.tools.calculator.calculator, description: Adds up., effects: idempotent}
search: {callable_api: passages, params: {path: library.jsonl, top_k: 1}}
today: {callable_api: code.py:today}
marked: {callable_api: code.py:marked, timeout: 5}
mixed:
  callable_api: code.py:mixed
  description: Everything.
  args_schema:
    a: {type: str}
    b: {type: int, default: 5, description: how many}
    c: {type: float, default: 1}
    d: {type: bool, default: false}
    e: {type: list, default: [1]}
    f: {type: dict, default: null}
    json: {type: str, default: x}
"""
ALL_CODE = '''
from retinue import tool
def today():
    """The date of today.

    As text."""
    return "2024-01-01"
@tool(effects="read", name="other")
def marked(query: str) -> str:
    """Marked."""
    return query
def mixed(**given): return given
'''


def test_all_forms_of_what_may_be_called(tmp_path: Path) -> None:
    (tmp_path / "library.jsonl").write_text('{"title": "Paris", "text": "Paris lies on the Seine."}\n')
    tools = tools_of(tmp_path, ALL_FORMS, ALL_CODE)
    assert called(tools["calculator"], "2 + 3") == called(tools["sums"], "2 + 3") == "5"
    assert (tools["sums"].description, tools["sums"].effects) == ("Adds up.", "idempotent")
    assert called(tools["search"], "Seine") == "[Paris] Paris lies on the Seine."
    assert tools["today"].description == "The date of today."
    assert (tools["today"].signature.parameters["properties"], called(tools["today"])) == ({}, "2024-01-01")
    assert (tools["marked"].effects, tools["marked"].timeout, called(tools["marked"], "q")) == ("read", 5, "q")
    assert tools["mixed"].signature.parameters["required"] == ["a"]
    assert called(tools["mixed"], {"a": "x", "b": 7, "json": "y"}) == (
        '{"a": "x", "b": 7, "c": 1, "d": false, "e": [1], "f": null, "json": "y"}'
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: {callable_api: 'code.py:nothing'}", "1:19: a: code.py has no 'nothing'"),
        ("a: {callable_api: 'code.py:system'}", "1:19: a: 'system' is not a function defined by code.py"),
        ("a: {callable_api: 'code.py:VALUE'}", "1:19: a: 'VALUE' is not a function defined by code.py"),
        ("a: {callable_api: 'bad.py:run'}", "1:19: a: bad.py cannot be imported: ModuleNotFoundError: No module"),
        ("a: {callable_api: retinue.tools.passages.passages}", "1:19: a: retinue.tools.passages.passages is not"),
        ("a: {callable_api: retinue.tools.passages.sqlite3}", "1:19: a: 'sqlite3' is not a function defined by"),
        ("a: {callable_api: retinue.tools.nowhere.x}", "1:19: a: retinue.tools.nowhere cannot be imported"),
        ("a: {callable_api: 'http://${NO_HOST}/', description: d}", "1:19: callable_api: the environment variable NO"),
    ],
)  # fmt: skip
def test_what_cannot_be_built_says_where(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("import no_such_package_here\n")
    with pytest.raises(DataError) as raised:
        tools_of(tmp_path, text, "from os import system\nVALUE = 5\n")
    assert str(raised.value).startswith(f"{tmp_path / 'tools.yaml'}:{problem}")


def test_a_tool_of_any_other_package_may_not_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "our_package_of_tools"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "good.py").write_text("from retinue import tool\n@tool\ndef double(n: int): return 2 * n\n")
    monkeypatch.syspath_prepend(tmp_path)
    text = "a: {callable_api: our_package_of_tools.good.double}"
    with pytest.raises(DataError, match="is not allowed; want"):
        tools_of(tmp_path, text)


def test_a_python_file_describes_its_tools(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def echo(text: str): return text\ndef tools_descriptions(): return [echo]\n")
    (tool,) = load_tools(file)
    assert (tool.name, called(tool, "hello")) == ("echo", "hello")
    file.write_text("def echo(text): ...\n")
    with pytest.raises(DataError, match=r"mine.py has no function tools_descriptions\(\)"):
        load_tools(file)
    file.write_text("def tools_descriptions(): return 5\n")
    with pytest.raises(DataError, match="returned a int; want a list"):
        load_tools(file)


def test_a_folder_is_its_files_sorted(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text("two: {callable_api: calculator}\n")
    (tmp_path / "a.yml").write_text("one: {callable_api: 'called.py:run'}\n")
    (tmp_path / "called.py").write_text("def run(): return 'ran'\n")
    (tmp_path / "c.py").write_text("def three(): ...\ndef tools_descriptions(): return [three]\n")
    (tmp_path / "e.yaml").write_text("four: {callable_api: 'own.py:run', description: d, env: A=1}\n")
    (tmp_path / "own.py").write_text("import no_such_package_here\ndef run(): ...\n")  # only for its own process
    (tmp_path / ".hidden.yaml").write_text("[broken")
    (tmp_path / "notes.txt").write_text("[broken")
    (tmp_path / "deeper.yaml").mkdir()
    assert [tool.name for tool in load_tools(tmp_path)] == ["one", "two", "three", "four"]
    (tmp_path / "d.yaml").write_text("one: {callable_api: calculator}\n")
    with pytest.raises(DataError, match="two tools are called 'one'"):
        load_tools(tmp_path)


def test_an_empty_file_has_no_tools(tmp_path: Path) -> None:
    assert tools_of(tmp_path, "# none\n") == {}


OWN = """
show:
  callable_api: code.py:show
  description: Shows.
  env: "RETINUE_A=x=y, RETINUE_B=${HOST}"
  args_schema: {more: {type: str, default: ""}}
  return_output: seen
slow: {callable_api: "code.py:slow", description: d, env: RETINUE_A=1, timeout: 0.5}
fail: {callable_api: "code.py:fail", description: d, env: RETINUE_A=1}
die: {callable_api: "code.py:die", description: d, env: RETINUE_A=1}
refuse: {callable_api: "code.py:refuse", description: d, env: RETINUE_A=1, not_done: "ValueError, KeyError"}
forked: {callable_api: "code.py:forked", description: d, env: RETINUE_A=1}
"""
OWN_CODE = """
import os, sys, time
async def show(more="-"):
    print("not the result")
    return {"seen": [os.environ["RETINUE_A"], os.environ["RETINUE_B"], more, os.getpid(), os.getcwd()]}
def slow():
    time.sleep(60)
def fail():
    raise LookupError("gone")
def refuse():
    raise ValueError("not today")
def die():
    os._exit(3)
def forked():
    child = os.fork()
    if child == 0:
        sys.exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""


def test_variables_are_only_the_tools_own(tmp_path: Path) -> None:
    tools = tools_of(tmp_path, OWN, OWN_CODE, {"HOST": "here"})
    seen = called(tools["show"], {"more": "é"})
    assert seen.startswith('["x=y", "here", "é", ')
    assert str(os.getpid()) not in seen.split(", ")
    assert str(tmp_path) in seen
    assert "RETINUE_A" not in os.environ
    assert "no_module" not in sys.modules


@pytest.mark.parametrize(
    ("name", "outcome", "text"),
    [
        ("slow", "unknown", "slow did not finish in time"),
        ("fail", "unknown", "fail failed: LookupError: gone"),
        ("refuse", "failed", "refuse failed: ValueError: not today"),
        ("die", "unknown", "die failed: its process ended without a result"),
    ],
)
def test_what_fails_in_its_own_process_is_an_observation(name: str, outcome: str, text: str, tmp_path: Path) -> None:
    tools = tools_of(tmp_path, OWN, OWN_CODE, {"HOST": "here"})
    seen = asyncio.run(Toolbox(tools.values()).run(AgentAction(name, "")))
    assert (seen.outcome, seen.text[: len(text)]) == (outcome, text)


def test_a_child_that_a_tool_forks_off_in_its_own_process_says_nothing(tmp_path: Path) -> None:
    assert called(tools_of(tmp_path, OWN, OWN_CODE, {"HOST": "here"})["forked"], "") == "7"


def test_a_tool_of_any_kind_may_have_worked_examples(tmp_path: Path) -> None:
    call = "{thought: I look., tool_input: {x: 1}, observation: seven}"
    examples = f"examples: [{{question: How many?, calls: [{call}], answer: seven}}]"
    tools = tools_of(tmp_path, f"a: {{callable_api: 'http://localhost/', description: d, {examples}}}")
    assert tools["a"].examples == (ToolExample("How many?", (ExampleCall("I look.", {"x": 1}, "seven"),), "seven"),)
    with pytest.raises(DataError, match="calls: want a list that is not empty"):
        tools_of(tmp_path, f"a: {{callable_api: 'http://localhost/', description: d, {examples.replace(call, '')}}}")


@pytest.mark.parametrize("said", ["Nonsense", "print", "ValueError and KeyError", "os.system"])
def test_what_is_no_exception_cannot_say_that_nothing_was_done(said: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not_done: want exceptions, such as"):
        tools_of(tmp_path, f"a: {{callable_api: 'http://localhost/', description: d, not_done: '{said}'}}")


def test_a_tool_with_packages_runs_in_the_environment_it_was_locked_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Path, tuple[str, ...]]] = []

    def python_for(lock: Path, wanted: tuple[str, ...]) -> Path:
        asked.append((lock, wanted))
        return Path(sys.executable)

    monkeypatch.setattr("retinue.config.tool_files.find_installed", python_for)
    text = "a: {callable_api: 'code.py:run', description: d, pip_dependencies: 'numpy==1, no_module ,'}"
    tools = tools_of(tmp_path, text, "import no_module\ndef run(): ...\n")
    assert asked == [(tmp_path / "locked" / "a.txt", ("numpy==1", "no_module"))]
    with pytest.raises(ToolError, match="ModuleNotFoundError: No module named 'no_module'"):
        called(tools["a"])


@pytest.fixture
def echo() -> Iterator[Loopback]:
    async def answer(request: web.Request) -> web.StreamResponse:
        match request.path:
            case "/echo":
                return web.json_response({"given": await request.json(), "type": request.content_type})
            case "/redirect":
                raise web.HTTPFound("/echo")
            case "/large":
                return web.Response(body=b"x" * 1_000_001)
            case "/packed":
                return web.Response(body=b"x", headers={"Content-Encoding": "gzip"})
            case "/hang":
                await server.closing.wait()
            case "/secret":
                return web.Response(text=f"{request.headers.get('X-Key')} {request.headers.get('Authorization')}")
            case "/key":
                return web.Response(text=request.headers.get("Idempotency-Key", "none"))
            case "/text":
                return web.Response(text="plain")
        return web.Response(status=500, text="out of\norder")

    app = web.Application()
    app.router.add_post("/{path:.*}", answer)
    server = Loopback(app)
    server.start()
    yield server
    server.stop()


def test_an_endpoint_gets_the_arguments_as_json(echo: Loopback, tmp_path: Path) -> None:
    text = f"""
simple: {{callable_api: "{echo.url}/echo", description: d}}
several:
  callable_api: "{echo.url}/echo"
  description: d
  args_schema: {{rank: {{type: int}}, date: {{type: str, default: ""}}}}
  return_output: given
plain: {{callable_api: "http://${{HOST}}/${{PLACE}}", description: d, return_output: given, env: PLACE=text}}
"""
    tools = tools_of(tmp_path, text, environ={"HOST": echo.url.removeprefix("http://")})
    assert called(tools["simple"], "Who?") == '{"given": {"query": "Who?"}, "type": "application/json"}'
    assert called(tools["several"], {"rank": 1}) == '{"rank": 1, "date": ""}'
    assert called(tools["plain"], "x") == "plain"


def test_an_endpoint_is_sent_headers_whose_secrets_are_shown_to_nobody(echo: Loopback, tmp_path: Path) -> None:
    text = f"""
a:
  callable_api: "{echo.url}/secret"
  description: d
  env: MINE=mine-12345678
  headers: {{X-Key: "${{MINE}}", Authorization: "Bearer ${{THEIRS}}"}}
"""
    tools = tools_of(tmp_path, text, environ={"THEIRS": "theirs-12345678"})
    assert called(tools["a"], "q") == "mine-12345678 Bearer theirs-12345678"
    assert asyncio.run(Toolbox(tools.values()).run(AgentAction("a", "q"))).text == "*** ***"


@pytest.mark.parametrize(
    ("headers", "problem"),
    [
        ("{Host: a}", "'Host' cannot be set"),
        ("{'a b': c}", "'a b' cannot be set"),
        ("{A: é}", "A: want printable ASCII"),
        ("{A: '${NOT_SET}'}", "NOT_SET is not set"),
        ("[a]", "headers: "),
        ("{A: 7}", "A"),
    ],
)
def test_headers_that_cannot_be_sent(headers: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=problem):
        tools_of(tmp_path, f"a: {{callable_api: 'http://localhost/', description: d, headers: {headers}}}")


def test_only_endpoints_are_sent_headers(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="headers: only for URLs"):
        tools_of(tmp_path, "a: {callable_api: calculator, headers: {A: b}}")


def test_an_endpoint_that_changes_something_is_told_the_calls_key(echo: Loopback, tmp_path: Path) -> None:
    text = "\n".join(
        f"{effects}: {{callable_api: '{echo.url}/key', description: d, effects: {effects}}}"
        for effects in ("read", "idempotent", "once")
    )
    box = Toolbox(tools_of(tmp_path, text).values(), "run_1")
    said = [asyncio.run(box.run(AgentAction(name, "q", id="call_1_0"))).text for name in ("read", "idempotent", "once")]
    assert said == ["none", "run_1/call_1_0", "run_1/call_1_0"]


def test_a_tool_in_its_own_process_is_told_the_calls_key(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import os\n\n\ndef key(a: str) -> str:\n    return os.environ['RETINUE_IDEMPOTENCY_KEY']\n"
    )
    tools = tools_of(
        tmp_path, "a: {callable_api: 'mine.py:key', description: d, env: X=y, args_schema: {a: {type: str}}}"
    )
    assert asyncio.run(Toolbox(tools.values(), "r").run(AgentAction("a", "q", id="c"))).text == "r/c"


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/redirect", "the endpoint answered 302, to go to '/echo'; redirects are not followed"),
        ("/large", "the endpoint's answer is larger than 1,000,000 bytes"),
        ("/packed", "the endpoint sent what cannot be read: unsupported Content-Encoding: gzip"),
        ("/wrong", "the endpoint answered 500: out of order"),
        ("/hang", "a did not finish in time (its limit is 0.3 seconds)."),
    ],
)
def test_an_endpoint_that_fails_is_an_observation(path: str, problem: str, echo: Loopback, tmp_path: Path) -> None:
    tools = tools_of(tmp_path, f"a: {{callable_api: '{echo.url}{path}', description: d, timeout: 0.3}}")
    seen = asyncio.run(Toolbox(tools.values()).run(AgentAction("a", "q")))
    assert problem in seen.text
    assert seen.outcome == "unknown"


def test_an_endpoint_that_is_not_there_is_an_observation(tmp_path: Path) -> None:
    tools = tools_of(tmp_path, "a: {callable_api: 'http://127.0.0.1:1/', description: d}")
    with pytest.raises(NotDone, match="the endpoint cannot be reached"):
        called(tools["a"], "q")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("{town: {type: str}}", "args_schema: where has no parameter 'town'; did you mean 'towns'?"),
        ("{towns: {type: str}}", "args_schema: where needs 'unit', which is not declared"),
    ],
)
def test_arguments_that_the_function_lacks_or_needs_are_named(arguments: str, problem: str, tmp_path: Path) -> None:
    text = f"far: {{callable_api: 'code.py:where', description: d, args_schema: {arguments}}}"
    with pytest.raises(DataError, match=re.escape(problem)):
        tools_of(tmp_path, text, "def where(towns, unit, *more, scale=1): return unit")


def test_a_separate_process_finishes_what_its_function_returns(tmp_path: Path) -> None:
    code = """
import asyncio, dataclasses, datetime, functools

@dataclasses.dataclass
class Stay:
    nights: int

async def work():
    await asyncio.sleep(0)
    return {"at": datetime.date(2024, 2, 29), "stay": Stay(2), "some": {2, 1}}

def late():
    return work()

async def items():
    yield 1

def mapped():
    return map(str, [1, 2])

def function():
    return work
"""
    text = "\n".join(
        f"{name}: {{callable_api: 'code.py:{name}', description: d, env: X=y}}"
        for name in ("late", "items", "mapped", "function")
    )
    tools = tools_of(tmp_path, text, code)
    assert called(tools["late"]) == '{"at": "2024-02-29", "stay": {"nights": 2}, "some": [1, 2]}'
    assert called(tools["items"]) == "[1]"
    assert called(tools["mapped"]) == '["1", "2"]'
    with pytest.raises(ToolError, match="it returned a function, which nobody called or entered"):
        called(tools["function"])


def test_a_variable_that_breaks_env_is_a_problem_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "code.py").write_text("def today(): return 'Monday'\n")
    (tmp_path / "tools.yaml").write_text("today: {callable_api: code.py:today, env: 'MODES=${MODES}'}\n")
    monkeypatch.setenv("MODES", "fast,loud")
    with pytest.raises(DataError, match=r"tools.yaml:1:23: today: want NAME=value"):
        load_tools(tmp_path / "tools.yaml")
