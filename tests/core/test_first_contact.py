"""What a newcomer's program of ten lines prints when something is wrong with it: never nothing, and never much."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fakes import fork_server
from fakes.openai_server import Answer, OpenAIServer, failure

pytestmark = pytest.mark.usefixtures("full")  # with which each program has an interpreter of its own

GOOD = """\
@tool(effects="read")
def population(city: str) -> int:
    \'\'\'How many people live in a city.\'\'\'
    return 522_250
"""
RAISES = GOOD.replace("return 522_250", "raise KeyError(city)")
BARE = """\
@tool
def population(city):
    return 522_250
"""
PROGRAM = """\
from retinue import Agent, PromptModel, tool

{tool}
agent = Agent(PromptModel({model}), [population])
print(agent.run({question!r}).answer)
"""
QUESTION = "How many people live in Lyon?"
TRIED = Answer(calls=[("add", {"a": 19, "b": 23})])
CALL = Answer(calls=[("population", {"city": "Lyon"})])
MOST = 10  # lines: Python's heading, three for the program's line, two places in Retinue, the message


@pytest.fixture
def local(server: OpenAIServer) -> OpenAIServer:
    """A server with two models."""
    server.models = ["qwen2.5:3b", "llama3.2"]
    return server


def printed(folder: Path, model: str, tool: str = GOOD, question: str = QUESTION) -> tuple[str, list[str], int]:
    """What the program prints as its answer, the lines on standard error, and its exit status."""
    program = folder / "hello.py"
    program.write_text(PROGRAM.format(tool=tool, model=model, question=question))
    environment = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_BASE_URL"))}
    environment |= {"RETINUE_CACHE": str(folder)}
    done = fork_server.python([program], env=environment)
    return done.stdout.strip(), done.stderr.splitlines(), done.returncode


def test_what_is_right_prints_its_answer_and_nothing_else(local: OpenAIServer, tmp_path: Path) -> None:
    local.replies += [TRIED, CALL, "522,250 people."]
    assert printed(tmp_path, f"base_url={local.url!r}") == ("522,250 people.", [], 0)


def refused(lines: list[str]) -> str:
    """The message, after a traceback that shows the program's own line and no chain of causes."""
    assert len(lines) <= MOST, "\n".join(lines)
    assert lines[0].startswith("Traceback")
    assert "hello.py" in lines[1]
    assert not any("exception" in line for line in lines[1:-1])
    return lines[-1].removeprefix("retinue.errors.")


def test_a_wrong_model(local: OpenAIServer, tmp_path: Path) -> None:
    local.replies += [failure(404, "The model `qwen3` does not exist")]
    answer, lines, status = printed(tmp_path, f"'qwen3', base_url={local.url!r}")
    assert refused(lines) == f"ModelNotFound: {local.url}/v1 has no model 'qwen3'; did you mean 'qwen2.5:3b'?"
    assert (answer, status) == ("", 1)


def test_no_server(tmp_path: Path) -> None:
    with OpenAIServer() as gone:
        url = gone.url
    _, lines, status = printed(tmp_path, f"'qwen3', base_url={url!r}")
    assert refused(lines) == f"ModelUnavailable: cannot connect to {url}/v1: Connection refused (is it running?)"
    assert status == 1


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("'lokal'", "no engine 'lokal'; did you mean 'local'? (openai:lokal is a model of OpenAI)"),
        ("'opnai:gpt-5'", "no engine 'opnai'; did you mean 'openai'?"),
        ("'gpt-5'", "OpenAI needs a key: set OPENAI_API_KEY (or name another server: base_url)"),
        ("'local'", "the embedded model is not here yet; fetch it (1.1 GB) with: retinue models pull embedded"),
        ("'local', contxt=9", "PromptModel: unknown setting contxt; did you mean 'context'?"),
    ],
)
def test_a_model_that_cannot_be_had(model: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    _, lines, status = printed(tmp_path, model)
    assert (refused(lines), status) == (f"UsageError: {message}", 1)


def test_a_mistake_shows_two_frames_of_ours_at_most(tmp_path: Path) -> None:
    program = tmp_path / "hello.py"
    program.write_text(PROGRAM.format(tool=GOOD, model="'lokal'", question=QUESTION))
    done = subprocess.run([sys.executable, program], capture_output=True, text=True)
    assert len(done.stderr.splitlines()) <= 9
    assert done.stderr.splitlines()[-1].endswith("did you mean 'local'? (openai:lokal is a model of OpenAI)")


def test_a_wrong_key(local: OpenAIServer, tmp_path: Path) -> None:
    local.api_key = "right"
    _, lines, _ = printed(tmp_path, f"'m', base_url={local.url!r}, api_key='wrong-wrong'")
    assert refused(lines).endswith("(is the API key right?)")
    _, lines, _ = printed(tmp_path, f"'m', base_url={local.url!r}")
    assert refused(lines).endswith("(no key was given: pass api_key=…)")


def test_an_empty_question(local: OpenAIServer, tmp_path: Path) -> None:
    _, lines, _ = printed(tmp_path, f"base_url={local.url!r}", question="")
    assert refused(lines) == "UsageError: the question is empty; ask something"


def test_a_tool_that_raises(local: OpenAIServer, tmp_path: Path) -> None:
    local.replies += [TRIED, CALL, "I could not find out."]
    answer, lines, status = printed(tmp_path, f"base_url={local.url!r}", RAISES)
    assert (answer, status) == ("I could not find out.", 0)
    assert len(lines) <= 1
    assert "KeyError" in str(local.asked[-1].body["messages"])


def test_a_tool_without_hints(local: OpenAIServer, tmp_path: Path) -> None:
    local.replies += [TRIED, CALL, "522,250 people."]
    answer, (line,), status = printed(tmp_path, f"base_url={local.url!r}", BARE)
    assert (answer, status) == ("522,250 people.", 0)
    assert "hello.py:3) has no docstring: the model is not told what it is for; no type hint for city; " in line


def test_a_model_that_fails_in_the_middle(local: OpenAIServer, tmp_path: Path) -> None:
    local.replies += [TRIED, CALL, failure(400, "cannot go on")]
    answer, (line,), _ = printed(tmp_path, f"base_url={local.url!r}")
    assert answer == ""
    assert line.endswith("ended without an answer: ERROR: " + f"{local.url}/v1 answered 400: cannot go on")
