"""A person at a terminal decides on actions: a real terminal (a pty), a real process."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
from collections.abc import Sequence

import pytest

from fakes import fork_server
from fakes.openai_server import OpenAIServer

ACTION = " I need to calculate.\nAction: Calculator\nAction Input: 2+\u202e40\n"
ANSWER = " I now know the final answer\nFinal Answer: done"


def at_terminal(server: OpenAIServer, typed: Sequence[tuple[str, str]]) -> tuple[str, int]:
    """What a person sees of an agent that asks before it acts, as `typed_into` says it."""
    words = ["ask", "What?", "--base-url", server.url, "--strategy", "react", "--require-human-feedback"]
    return typed_into(words, typed)


def typed_into(words: Sequence[str], typed: Sequence[tuple[str, str]], **more: str) -> tuple[str, int]:
    """What a person sees who waits for each text and then types the other; and the exit status. `more` is of the
    environment."""
    parent, child = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")} | more
    with subprocess.Popen(
        [sys.executable, "-m", "retinue", *words], stdin=child, stdout=child, stderr=child, env=environment
    ) as process:
        os.close(child)
        seen, waiting = "", list(typed)
        while select.select([parent], [], [], 60)[0]:
            try:
                seen += os.read(parent, 4096).decode(errors="replace")
            except OSError:  # the other side has hung up
                break
            if waiting and waiting[0][0] in seen.rpartition("\0")[2]:
                os.write(parent, f"{waiting.pop(0)[1]}\n".encode())
                seen += "\0"  # what comes next is waited for after this
        os.close(parent)
        return seen, process.wait(timeout=60)


@pytest.mark.parametrize(
    ("typed", "observed"),
    [
        ([("answer instead:", "a")], "✗ Calculator"),
        ([("answer instead:", "e"), ("new input", "6*7")], "→ 42"),
        (
            [("answer instead:", "r"), ("why", "too dear")],
            "✗ A person refused this call of Calculator: too dear",
        ),
        ([("answer instead:", "m"), ("told:", "it is 99")], "→ it is 99"),
    ],
    ids=["approve", "edit", "reject", "respond"],
)
def test_the_four_answers(server: OpenAIServer, typed: list[tuple[str, str]], observed: str) -> None:
    server.replies += [ACTION, ANSWER]
    seen, status = at_terminal(server, typed)
    assert observed in re.sub(r"\x1b\[[0-9;]*[a-zA-Z]", "", seen)
    assert "runs only with a person's approval" in seen
    assert "\u202e" not in seen
    assert status == 0


def test_where_nobody_sits_at_a_terminal_the_run_parks(server: OpenAIServer) -> None:
    server.replies += [ACTION, ANSWER]
    words = ["ask", "What?", "--base-url", server.url, "--strategy", "react", "--require-human-feedback"]
    done = fork_server.retinue(*words)
    assert done.returncode == 1
    assert "Stopped: AWAITING_HUMAN" in done.stdout


def test_what_is_always_approved_is_asked_once(server: OpenAIServer) -> None:
    again = ACTION.replace("+\u202e40", "+41")
    server.replies += [ACTION, again, ANSWER]
    seen, status = at_terminal(server, [("answer instead:", "w"), ("any [*]", "2"), ("any [*]", "*")])
    assert seen.count("answer instead") == 1
    assert "want nothing, *" in seen
    assert (status, "done" in seen) == (0, True)
