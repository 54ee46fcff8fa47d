"""Runs that run programs, against a real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.sdk import MARKS
from fakes.served import Served, serving
from retinue.cli import main

pytestmark = MARKS
FILE = r"""
retinue: 1
components:
  - name: fake
    type: PromptModel
    params:
      engine: scripted
      script:
        - {when: "primes", call: {tool: code_interpreter, input: {code: "print('so:')\nsum([2, 3, 5])"}}}
        - {when: "so:", say: It is 10.}
        - {when: "table", call: {tool: code_interpreter, input: {code: "import csv
            \n\nsum(int(row['n']) for row in csv.DictReader(files['a.csv'].splitlines()))"}}}
        - {when: "^42", say: It is 42.}
        - {when: "secret", call: {tool: code_interpreter, input: {code: "print(1)\nopen('/etc/passwd').read()"}}}
        - {when: "PermissionError", say: I may not.}
        - {when: "for ever", call: {tool: code_interpreter, input: {code: "while True: pass"}}}
        - {when: "TimeoutError|did not end", say: It took too long.}
agents:
  - {name: agent, params: {model: fake, strategy: tool_calling, tools: []}}
"""
TOOLS: Any = [{"type": "code_interpreter"}]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("interpreted")
    with serving(folder, FILE, args=["--hosted-tools", "file_search, code_interpreter"]) as server:
        yield server


def ran(client: Any, question: str, **thread: Any) -> tuple[str, Any]:
    """The answer, and the call."""
    assistant = client.beta.assistants.create(model="agent", tools=TOOLS)
    made = client.beta.threads.create(messages=[{"role": "user", "content": question, **thread}])
    run = client.beta.threads.runs.create_and_poll(thread_id=made.id, assistant_id=assistant.id)
    assert run.status == "completed", run.last_error
    steps = client.beta.threads.runs.steps.list(run.id, thread_id=made.id, order="asc").data
    (call,) = steps[0].step_details.tool_calls
    return client.beta.threads.messages.list(made.id).data[0].content[0].text.value, call


@pytest.mark.parametrize(
    ("question", "answer", "begins"),
    [
        ("The sum of the first primes?", "It is 10.", "so:\n10"),
        ("What is secret?", "I may not.", "1\nPermissionError: "),
        ("How long is for ever?", "It took too long.", ""),
    ],
)
def test_a_program_and_what_it_printed_are_a_step(served: Served, question: str, answer: str, begins: str) -> None:
    with served.client() as client:
        said, call = ran(client, question)
    assert said == answer
    assert call.type == "code_interpreter"
    assert call.code_interpreter.input
    (output,) = call.code_interpreter.outputs
    assert output.type == "logs"
    assert output.logs.startswith(begins)
    assert "root:" not in output.logs


def test_a_program_reads_the_files_of_its_thread(served: Served) -> None:
    with served.client() as client:
        file = client.files.create(file=("a.csv", b"n\n40\n2\n"), purpose="assistants")
        answer, call = ran(client, "Sum up the table.", attachments=[{"file_id": file.id, "tools": TOOLS}])
    assert (answer, call.code_interpreter.outputs[0].logs) == ("It is 42.", "42")


def test_a_program_as_it_is_streamed(served: Served) -> None:
    with served.client() as client:
        assistant = client.beta.assistants.create(model="agent", tools=TOOLS)
        thread: Any = {"messages": [{"role": "user", "content": "primes"}]}
        with client.beta.threads.create_and_run_stream(assistant_id=assistant.id, thread=thread) as stream:
            deltas = [event.data for event in stream if event.event == "thread.run.step.delta"]
            steps = stream.get_final_run_steps()
    begun, given, ended = [one.delta.step_details.tool_calls[0] for one in deltas]  # type: ignore[union-attr, index]
    assert (begun.index, begun.type, bool(begun.id)) == (0, "code_interpreter", True)
    assert begun.code_interpreter.input == ""  # type: ignore[union-attr]
    assert given.code_interpreter.input == "print('so:')\nsum([2, 3, 5])"  # type: ignore[union-attr]
    assert [one.logs for one in ended.code_interpreter.outputs] == ["so:\n10"]  # type: ignore[union-attr]
    (call,) = steps[0].step_details.tool_calls  # type: ignore[union-attr]
    assert (call.code_interpreter.input, call.code_interpreter.outputs[0].logs) == (  # type: ignore[union-attr]
        "print('so:')\nsum([2, 3, 5])",
        "so:\n10",
    )


def test_programs_are_run_only_where_the_server_was_told_to(tmp_path: Path) -> None:
    with serving(tmp_path, FILE) as server, server.client() as client:
        assistant = client.beta.assistants.create(model="agent", tools=TOOLS)
        thread = client.beta.threads.create(messages=[{"role": "user", "content": "primes"}])
        run = client.beta.threads.runs.create_and_poll(thread_id=thread.id, assistant_id=assistant.id)
    assert run.last_error is not None
    message = "Tool 'code_interpreter' is not enabled on this server (see hosted_tools)."
    assert (run.status, run.last_error.code, run.last_error.message) == ("failed", "invalid_prompt", message)


def test_a_tool_that_there_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "agents.yml").write_text(FILE, "utf-8")
    words = ["serve", str(tmp_path / "agents.yml"), "--db", str(tmp_path / "a.db"), "--hosted-tools", "web_search"]
    assert main([*words, "--port", "0", "--api-key", "sk-1"]) == 2
    assert "unknown hosted tool 'web_search'; there are: file_search, code_interpreter" in capsys.readouterr().err
