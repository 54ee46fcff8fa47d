"""What a command's FILE may be, and what is said of code that cannot be used: where it is wrong, in one line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from retinue import Agent, Chain, MessageGroup, Pipeline, PromptModel, UsageError
from retinue.cli import main
from retinue.config.agent_code import Target, gather, load_code
from retinue.errors import RetinueError
from retinue.teams import END, START

HEAD = "from retinue import *\nhi = lambda name: Agent(PromptModel(script=['hi']), name=name)\n"
FOUND = {
    "agent = hi('a')": ["a"],
    "only = hi('a')": ["a"],
    "first, second = hi('a'), hi('b')\nagents = [first, second]": ["a", "b"],
    "other = hi('a')\napp = hi('b')": ["b"],
    "import json\napp = json\nonly = hi('a')": ["a"],
    "agents = {'x': hi('a'), 'y': hi('a')}": ["x", "y"],
    "def agents():\n    return [hi('a'), hi('b')]": ["a", "b"],
    "def agent():\n    return hi('a')": ["a"],
    "one, two = hi('a'), hi('b')\nteam = Chain([one, two], name='team')": ["team"],
    "boss = Agent(PromptModel(script=['hi']), [hi('a')], name='boss')\nworker = boss.tools[0].something": ["boss"],
    "group = MessageGroup('g').add_role('r', lambda question: 'hi').add_edge('START', 'r').add_edge('r', 'END')": ["g"],
    "steps = Pipeline(name='p')\nsteps.add_node(lambda query: query, 'N')": ["p"],
    "from dataclasses import dataclass\n@dataclass\nclass Kept:\n    name: str = 'a'\nagent = hi(Kept().name)": ["a"],
}
WRONG = {
    "x = 1": "it makes no agent; want `agent = Agent(…)`, or {file}:NAME of an Agent",
    "a, b = hi('a'), hi('b')": "{file} has several agents; say which, as in {file}:a: a, b",
    "agents = [hi('a'), hi('a')]": "{file}: agents: two are called 'a'; give them names",
    "agents = []": "{file}: agents: there are no agents and no pipelines to serve",
    "agents = [hi('a'), 3]": "{file}: agents[1] is of the type int; want an Agent, a team, a Pipeline",
    "agents = {'a': Agent}": "{file}: agents['a'] is the class Agent; want an Agent",
    "async def agents():\n    return []": "{file}: agents: the function is async; want one that is not",
    "def agent():\n    return {}['x']": "{file}:4: KeyError: 'x'",
    "agent = Agent('scripted', strategy='raect')": "{file}:3: no strategy 'raect'; did you mean 'react'?",
    "def agent():\n\n    return hi(": "{file}:5: SyntaxError: '(' was never closed",
    "import no_such_module": "{file}:3: ModuleNotFoundError: No module named 'no_such_module'",
    "import helper_of_tests": "helper_of_tests.py:2: ZeroDivisionError: division by zero",
    "import sys\nsys.exit('no')": "{file}:4: SystemExit: no",
    "raise KeyboardInterrupt": None,
    "agent = hi('a')\nimport retinue\nretinue.serve(agent)": "{file}:5: retinue.serve is called while the file is "
    'imported: put it under `if __name__ == "__main__":`',
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "helper_of_tests.py").write_text("def f():\n    return 1 / 0\nf()\n")
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(tmp_path):
            del sys.modules[name]


@pytest.mark.parametrize(("code", "names"), FOUND.items())
def test_agents_are_found_in_code(folder: Path, code: str, names: list[str]) -> None:
    (folder / "own.py").write_text(HEAD + code)
    assert list(load_code("own.py")) == names


@pytest.mark.parametrize(("code", "said"), WRONG.items())
def test_what_is_wrong_with_code_is_told_by_its_line(folder: Path, code: str, said: str | None) -> None:
    (folder / "own.py").write_text(HEAD + code)
    if said is None:  # a person's Ctrl-C
        with pytest.raises(KeyboardInterrupt):
            load_code("own.py")
        return
    with pytest.raises(RetinueError) as raised:
        load_code("own.py")
    assert str(raised.value).startswith((said.format(file="own.py"), f"own.py: {said}".format(file="own.py")))


def test_a_name_after_the_colon_says_which(folder: Path) -> None:
    (folder / "pkg").mkdir()
    code = HEAD + "agent = hi('a')\nother = hi('b')\ndef make():\n    return [agent, other]\n"
    for file in ("own.py", "pkg/inner.py", "my-app.py", "json.py"):  # also one that is no name, and one that is taken
        (folder / file).write_text(code)
        assert list(load_code(f"{file}:other")) == ["b"]
        assert list(load_code(f"{file}:make")) == ["a", "b"]
    assert list(load_code("pkg.inner:other")) == ["b"]
    with pytest.raises(RetinueError, match="there is no 'othr'; did you mean 'other'"):
        load_code("own.py:othr")
    with pytest.raises(RetinueError, match=r"No module named 'pkg\.gone'"):
        load_code("pkg.gone:agent")
    with pytest.raises(RetinueError, match=r"gone\.py: there is no such file"):
        load_code("gone.py")


def test_code_is_imported_once_and_finds_what_is_beside_it(folder: Path) -> None:
    (folder / "counted.py").write_text(
        "from pathlib import Path\nwith Path('times').open('a') as file:\n    file.write('x')\n"
    )
    (folder / "own.py").write_text(f"{HEAD}import counted\nagent = hi('a')\n")
    (folder / "importer.py").write_text("from own import agent\n")
    assert load_code("own.py")["a"] is load_code("own.py:agent")["a"] is load_code("importer.py")["a"]
    assert (folder / "times").read_text() == "x"


def test_files_of_agents_are_no_code() -> None:
    for text in ("agents.yml", "a.py.yaml", "folder/agents", "C:\\agents.yml", "agents.yml:x"):
        assert not Target.parse(text).code
    for text in ("app.py", "a b/app.py", "app.py:x", "a.b:c", "a:b"):
        assert Target.parse(text).code
        assert str(Target.parse(text)) == text


def test_a_dict_names_agents_and_leaves_them_as_they_are() -> None:
    one = Agent(PromptModel(script=["hi"]), name="one")
    assert {name: part.name for name, part in gather({"a": one, "b": one}).items()} == {"a": "a", "b": "b"}
    assert one.name == "one"
    assert list(gather(lambda: (one, Pipeline(name="p")))) == ["one", "p"]
    group = MessageGroup("g").add_role("r", lambda question: "hi").add_edge(START, "r").add_edge("r", END)
    assert list(gather([group, Chain([one], name="c")])) == ["g", "c"]
    with pytest.raises(UsageError, match="agents is of the type str"):
        gather("agent")


def test_the_commands_take_code(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tool = "@tool(effects='read')\ndef look(at: str) -> str:\n    'Looks.'\n    return at\n"
    model = "PromptModel(script=[{'say': 'seen', 'when': 'there'}, {'call': {'tool': 'look', 'input': 'there'}}])"
    (folder / "own.py").write_text(
        f"from retinue import Agent, PromptModel, tool\n{tool}agent = Agent({model}, [look], name='a')\nother = 1\n"
    )
    says = {
        ("check", "own.py"): (0, "own.py: no problems found"),
        ("check", "own.py:agnt"): (1, "own.py:1:1: there is no 'agnt'; did you mean 'agent'?"),
        ("tools", "own.py"): (0, "look"),
        ("run", "own.py", "What is there?"): (0, "seen"),
        ("run", "own.py:agent", "What is there?"): (0, "seen"),
        ("run", "own.py", "x", "--agent", "b"): (2, "own.py: no agent 'b'; there are: a"),
        ("lock", "own.py"): (2, "this is Python code; want a file of agents here, in YAML"),
        ("mcp", "own.py", "b"): (2, "own.py: no agent or pipeline 'b'; there are: a"),
        ("serve", "own.py:other", "--port", "0"): (2, "own.py: other is of the type int; want an Agent"),
        ("worker", "own.py"): (2, "a worker needs the database of its servers"),
    }
    for words, (status, said) in says.items():
        assert main(list(words)) == status, words
        told = capsys.readouterr()
        assert said in told.out + told.err, words
        assert "Traceback" not in told.err
    (folder / "canary.py").write_text("open('canary', 'w')\nagent = (\n")
    assert main(["check", "canary.py"]) == 1
    assert capsys.readouterr().out.startswith("canary.py:2:9: '(' was never closed")
    assert not (folder / "canary").exists()
