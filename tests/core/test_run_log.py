"""What the library logs: of its own accord only warnings, and what happened to who configures logging."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from retinue import Agent, ModelRefused, PromptModel, tool
from retinue._internal.redaction import register_secret
from retinue._internal.sync_bridge import run_blocking
from retinue.core.log_context import ContextFilter
from retinue.core.run_context import Progress, RunContext, current_run, run_context
from retinue.net.retry import Retries
from retinue.run.run import Run

SECRET = "sk-planted-in-a-tool-0123456789"


def look(what: str) -> str:
    """Looks."""
    logging.getLogger("my.tool").warning("looking")
    logging.getLogger("retinue.my").warning("looking with %s", SECRET)
    if what == "nothing":
        raise ConnectionError("no\nway")
    return "It is seven."


def agent(*script: object) -> Agent:
    return Agent(PromptModel(script=list(script)), [tool(effects="read")(look)], strategy="tool_calling", name="guide")


def call(what: str) -> object:
    return {"call": {"tool": "look", "input": {"what": what}}, "times": 1}


def said(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.name == "retinue.run_log" and one.levelno == level]


def test_a_run_is_told_step_by_step(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "retinue")
    run = agent(call("it"), {"say": "Seven."}).start("What is it?")
    run_blocking(run.finish())
    lines = said(caplog, logging.DEBUG)
    assert lines[0].startswith("guide begins: strategy tool_calling, model scripted, 1 tools; a question of 11 char")
    assert lines[1].startswith("step 1: asked with 2 more messages of ")
    assert [line.split(",")[0] for line in lines[3:5]] == [
        "step 1: look is called (call_1_0)",
        f"step 1: call_1_0 gave 12 characters in {lines[4].split()[-2]} s",
    ]
    assert said(caplog, logging.INFO) == ["answered with 6 characters"]
    told = [(vars(one)["run"], vars(one)["step"]) for one in caplog.records if one.name == "retinue.run_log"]
    assert {run_id for run_id, _ in told} == {run.key}
    assert [step for _, step in told] == [0, 1, 1, 1, 1, 2, 2, 2]
    assert "What is it?" not in caplog.text
    assert "It is seven" not in caplog.text


def test_a_tool_that_fails_and_a_run_without_an_answer_are_warnings(caplog: pytest.LogCaptureFixture) -> None:
    agent(call("nothing"), {"say": "So."}).run("What?")
    assert said(caplog, logging.WARNING) == ["step 1: failed: look failed: ConnectionError: no way"]
    caplog.clear()
    with pytest.raises(ModelRefused):
        list(agent({"when": "never", "say": "x"}).stream("What?"))
    (line,) = said(caplog, logging.WARNING)
    assert line.startswith("ended without an answer: ERROR: no rule of the script fits")
    assert line.isprintable()


def test_a_model_that_is_asked_again_is_information(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "retinue")
    script = [{"when": "", "error": 429, "times": 1}, {"when": "", "say": "Seven."}]
    model = PromptModel(script=script, retries=Retries(first_wait=0.001))
    Agent(model, [look], strategy="tool_calling").run("What?")
    asked_again, answered = said(caplog, logging.INFO)
    assert asked_again.startswith("step 1: the model is asked again in 0.0 s: ")
    assert answered == "answered with 6 characters"


async def read(run: Run) -> None:
    async for _ in run.events():
        assert current_run().run == ""  # the reader is not within the run


@pytest.mark.parametrize("how", [Run.finish, read])
def test_what_a_tool_logs_is_of_its_run_and_has_no_secret(
    how: Callable[[Run], Coroutine[Any, Any, object]], caplog: pytest.LogCaptureFixture
) -> None:
    register_secret(SECRET)
    caplog.handler.addFilter(shown := ContextFilter())
    try:
        run = agent(call("it"), {"say": "Seven."}).start("What?")
        run_blocking(how(run))
    finally:
        caplog.handler.removeFilter(shown)
    mine = [one for one in caplog.records if one.name in ("my.tool", "retinue.my")]
    assert [(vars(one)["run"], vars(one)["step"]) for one in mine] == [(run.key, 1)] * 2
    assert mine[1].getMessage() == "looking with ***"
    assert current_run().run == ""


def test_no_part_of_a_secret_is_left_where_a_long_text_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    register_secret(SECRET)
    for before in range(480, 500):
        rule = {"when": "never", "say": "x"}
        with pytest.raises(ModelRefused):
            list(agent(rule).stream(f"{'x' * before}{SECRET}"))
    assert SECRET[:8] not in caplog.text


def test_what_is_said_of_a_record_counts_before_where_it_was_said(caplog: pytest.LogCaptureFixture) -> None:
    with run_context(RunContext(run="outer", request="req_1", progress=Progress(3))):
        logging.getLogger("retinue.x").warning("a")
        logging.getLogger("retinue.x").warning("b", extra={"run": "inner"})
    assert [(vars(one)["run"], vars(one)["request"], vars(one)["step"]) for one in caplog.records] == [
        ("outer", "req_1", 3),
        ("inner", "req_1", 3),
    ]


@pytest.mark.parametrize("configured", [False, True])
def test_the_terminal_has_warnings_and_the_rest_only_if_somebody_wants_it(configured: bool) -> None:
    program = f"""
import logging
if {configured}:
    logging.basicConfig(level=logging.DEBUG)
from retinue import Agent, PromptModel, tool
@tool(effects="once")
def look(what: str) -> str:
    "Looks."
    raise ConnectionError("no way")
script = [{{"call": {{"tool": "look", "input": {{"what": "it"}}}}, "times": 1}}, {{"when": "never", "say": "x"}}]
Agent(PromptModel(script=script), [look], strategy="tool_calling").run("What?")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    if not configured:
        failed, ended = done.stderr.splitlines()
        assert failed.startswith("look failed: ConnectionError: no way; whether it took effect is not known")
        assert ended.startswith("ended without an answer: ERROR: ")
        return
    lines = [line for line in done.stderr.splitlines() if line.startswith(("DEBUG:retinue", "WARNING:retinue"))]
    assert lines[0].startswith("DEBUG:retinue.run_log:agent begins: ")
    assert lines[-1].startswith("WARNING:retinue.run_log:ended without an answer: ERROR: ")
