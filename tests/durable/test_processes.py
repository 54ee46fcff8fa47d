"""Processes that share a store: forks, exits with runs in flight, kill -9, a server, a studio, and one without the
extra."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from chaos import in_process
from cli.test_ask import retinue
from cli.test_studio_command import studio
from durable.test_kept_runs import clerk
from fakes.kept_runs import Gate
from retinue import Agent, PromptModel, Tool, UsageError
from retinue.store.database import Database

PROGRAM = """
import asyncio, os, signal, sys, threading, time
from retinue import Agent, PromptModel, tool
paying = threading.Event()

@tool(effects="once")
def pay(what: str) -> str:
    "Pay."
    paying.set()
    time.sleep(60)

def interrupt():
    paying.wait()
    os.kill(os.getpid(), signal.SIGINT)

script = [{"when": "paid", "finish": "Done."}, {"call": {"tool": "pay", "input": {"what": "x"}}}]
agent = Agent(PromptModel(engine="scripted", script=script), [pay],
              strategy="tool_calling", name="payer", store=sys.argv[1])
"""
ENDS = {
    "the main thread ends": "threading.Thread(target=agent.run, args=('Pay',), daemon=True).start(); paying.wait()",
    "the loop ends": """
async def main():
    task = asyncio.create_task(agent.run_async('Pay'))
    await asyncio.to_thread(paying.wait)
asyncio.run(main())""",
    "Ctrl-C": "threading.Thread(target=interrupt, daemon=True).start(); agent.run('Pay')",
}


@pytest.mark.parametrize("end", ENDS)
def test_an_interpreter_exits_with_a_run_in_flight(tmp_path: Path, end: str) -> None:
    """It does so soon, and the run is whoever's who recovers it: nobody waits for a lease to run out."""
    program = [sys.executable, "-c", PROGRAM + ENDS[end], str(tmp_path / "runs.db")]
    done = subprocess.run(program, capture_output=True, text=True, timeout=30)
    assert ("Traceback" in done.stderr) == (end != "the loop ends"), done.stderr
    with _payer(tmp_path / "runs.db") as agent:
        (result,) = agent.recover()
        assert [call.tool for call in result.waiting] == ["pay"]
        assert agent.recover() == []


def _payer(store: Path) -> Agent:
    def pay(what: str) -> str:
        """Pay."""
        return "paid"

    script = [{"when": "paid", "finish": "Done."}, {"call": {"tool": "pay", "input": {"what": "x"}}}]
    return Agent(
        PromptModel(engine="scripted", script=script),
        [Tool("pay", pay, effects="once")],
        strategy="tool_calling",
        name="payer",
        store=store,
    )


def test_a_child_forked_before_the_first_run_has_a_store_of_its_own(tmp_path: Path) -> None:
    agent = clerk(str(tmp_path / "runs.db"))
    assert _in_child(lambda: agent.run("Begin").answer) == "Done."
    assert agent.run("Begin").answer == "Done."
    said = _in_child(lambda: agent.run("Begin").answer)
    assert "was open when this process was forked" in said
    assert agent.run("Begin").answer == "Done."
    agent.close()
    assert _in_child(lambda: agent.run("Begin").answer) == "Done."


def _in_child(work: object) -> str:
    reading, writing = os.pipe()
    if not (pid := os.fork()):
        try:
            said = str(work())  # type: ignore[operator]
        except BaseException as error:
            said = repr(error)
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        said = answer.read()
    os.waitpid(pid, 0)
    return said


def test_a_server_has_a_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with clerk(str(path)) as agent:
        assert agent.run("Begin").answer == "Done."
        with pytest.raises(UsageError, match="an agent that keeps its runs there, or a studio, has"):
            Database(f"sqlite:///{path}")
    server = Database(f"sqlite:///{path}", 0.1)
    with pytest.raises(UsageError, match="another server has"):
        Database(f"sqlite:///{path}", 0.1, shared=True)
    server.close()
    shared = [Database(f"sqlite:///{path}", shared=True) for _ in range(3)]
    shared[0].close()
    with pytest.raises(UsageError, match="an agent that keeps"):
        Database(f"sqlite:///{path}")
    for one in shared[1:]:
        one.close()
    Database(f"sqlite:///{path}").close()


def test_the_studio_and_the_commands_show_the_runs_of_an_agent_while_it_works(tmp_path: Path) -> None:
    gate = Gate()
    db = str(tmp_path / "runs.db")

    async def wait(number: str) -> str:
        """Wait."""
        await gate.wait()
        return f"add {number}"

    agent = clerk(db)
    agent.tools = (Tool("add", wait, effects="read"),)

    async def main() -> None:
        working = asyncio.create_task(agent.run_async("Begin", user="ann"))
        await gate.reached.wait()
        await asyncio.to_thread(look, "in_progress")
        gate.opened.set()
        assert (await working).answer == "Done."
        await asyncio.to_thread(look, "completed")

    def look(status: str) -> None:
        with studio("--db", db) as shown:
            (run,) = shown.ask("/v1/runs?figures=true")[1]["data"]
            assert (run["question"], run["status"], run["model"]) == ("Begin", status, "clerk")
        listed = retinue("runs", "list", "--db", db)
        assert status in listed.stdout
        assert "add" in retinue("trace", run["id"], "--db", db).stdout

    asyncio.run(main())


def test_without_the_extra_the_error_says_what_to_install(tmp_path: Path) -> None:
    code = f"""
import sys
sys.modules["sqlalchemy"] = None
from retinue import Agent, PromptModel, UsageError
agent = Agent(PromptModel(engine="scripted", script=[{{"finish": "Hi."}}]), store={str(tmp_path / "runs.db")!r})
try:
    agent.run("Hello")
except UsageError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "a store of runs needs the extra 'store': pip install 'retinue[store]'\n"


@pytest.mark.parametrize("team", [False, True])
def test_a_process_is_killed_in_a_call_and_another_goes_on(any_url: str, team: bool) -> None:
    """A small part of `make chaos`: nothing is lost, and nothing doubled."""
    wanted = ["after intent", "after members have it"] if team else ["after claim", "after intent", "before the end"]
    seen = in_process.die(any_url, team=team, wanted=wanted, most=2 if team else 3, told=lambda said: None)
    assert (seen.kills >= 4, seen.tally.problems, seen.gaps) == (True, [], 0)


def test_of_two_processes_one_or_the_other_is_killed(any_url: str) -> None:
    seen = in_process.kill_two(3, any_url, at_once=4, told=lambda said: None)
    assert (seen.kills, seen.tally.problems, seen.gaps) == (3, [], 0)
