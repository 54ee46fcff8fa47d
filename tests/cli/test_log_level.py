"""`--log-level`: records carry the run and the step that they belong to, of members and tools, too."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from fakes import command_line
from fakes.openai_server import OpenAIServer, failure
from fakes.said import Said
from fakes.tmux import Terminal
from retinue import Agent
from retinue.cli.run_output import run_and_show

ACTION = " I ask.\nAction: TOOL\nAction Input: x\n"
ANSWER = " I know.\nFinal Answer: done"


@pytest.mark.parametrize("as_json", [False, True])
def test_each_record_has_the_run_and_the_step_in_which_it_was_made(
    as_json: bool, caplog: pytest.LogCaptureFixture
) -> None:
    logger = logging.getLogger("retinue.of_a_test")

    def look(query: str) -> str:
        logger.warning("looking")
        return f"seen {query}"

    async def search(query: str) -> str:
        logger.warning("searching")
        return f"found {query}"

    look_up, ask_around = ACTION.replace("TOOL", "look"), ACTION.replace("TOOL", "search")
    member = Agent(Said([look_up, ask_around, ANSWER]), [look, search], name="member", strategy="react")
    top = Agent(Said([ask_around, ACTION.replace("TOOL", "member"), look_up, ANSWER]), [look, search, member])
    run = top.start("why?", key="k")
    assert run_and_show(run, as_json=as_json) == 0
    made = [(one.message, one.run, one.step) for one in caplog.records if one.name == logger.name]  # type: ignore[attr-defined]
    assert made == [
        ("searching", "k", 1),
        ("looking", "k/call_2_0", 1),
        ("searching", "k/call_2_0", 2),
        ("looking", "k", 3),
    ]


def test_debug_lines_go_to_standard_error_with_ids_also_of_requests_that_are_repeated(server: OpenAIServer) -> None:
    server.replies += [ACTION.replace("TOOL", "nothing"), failure(503, "busy"), ANSWER]
    words = ["ask", "?", "--base-url", server.url, "--strategy", "react"]
    done = command_line.retinue(*words, "--log-level", "debug")
    assert done.stdout.endswith("out\n")
    assert len(set(re.findall(r"run=(\w+)", done.stderr))) == 1
    steps = re.findall(r" retinue\.run_log: step (\d): .*step=(\d)\]$", done.stderr, re.MULTILINE)
    assert len(steps) > 6
    assert all(said == carried for said, carried in steps)
    assert re.search(r"Z INFO retinue.run_log: step 2: the model is asked again in .* \[run=\w+ step=2\]", done.stderr)
    assert "begins: strategy react" in done.stderr


def test_the_environment_says_it_too_and_an_unknown_level_is_one_line(server: OpenAIServer) -> None:
    server.replies += [ANSWER]
    words = ["ask", "?", "--base-url", server.url, "--strategy", "react"]
    done = command_line.retinue(*words, env={"RETINUE_LOG": "info"})
    assert re.fullmatch(r"\S+ INFO retinue.run_log: answered with 4 characters \[run=\w+ step=1\]\n", done.stderr)
    assert (
        "'loud' is not one of 'debug', 'info', 'warning', 'error'"
        in command_line.retinue(*words, env={"RETINUE_LOG": "loud"}).stderr
    )


def test_in_a_terminal_lines_of_the_log_stand_between_those_of_the_tree(server: OpenAIServer, tmp_path: Path) -> None:
    server.replies += [ACTION.replace("TOOL", "nothing"), ANSWER]
    words = ["ask", "?", "--base-url", server.url, "--strategy", "react", "--log-level", "debug"]
    with Terminal(words, width=220, folder=tmp_path) as terminal:
        seen = terminal.until("[exit 0]")
    assert all(re.match(r"\d{4}-|[├│╰ ]|Question|agent ·|\[exit|$", line) for line in seen.splitlines()), seen
