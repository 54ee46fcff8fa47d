"""Code that is not ours may raise, stop, cancel or fork what it likes: it ends no more than its own call."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from fakes import fork_server
from retinue import (
    Agent,
    Budget,
    Decision,
    Message,
    ModelError,
    Pipeline,
    PromptModel,
    RetinueError,
    RunResult,
    StopReason,
    Tool,
    UsageError,
    tool,
)
from retinue._internal.containment import await_isolated, call_contained
from retinue._internal.sync_bridge import run_blocking
from retinue.components import PromptNode
from retinue.core.events import Called, Observed
from retinue.core.prompt import Ask, Prompt
from retinue.core.protocols import Chunks, Flow, Recalled, Task, act, ask, ask_once
from retinue.core.values import Capabilities, Reply
from retinue.extend import AgentAction, AgentFinish, Component, ForeignExit, NodeFailed, Observation, component
from retinue.strategies import STRATEGIES, simple


class Unspeakable(Exception):
    """Whose text cannot be had."""

    def __str__(self) -> str:
        raise SystemExit(9)


def deep() -> int:
    return 1 + deep()


def recursing() -> None:
    deep()


RAISED: dict[str, Callable[[], BaseException]] = {
    "exit": lambda: SystemExit(3),
    "nothing said": lambda: SystemExit(),
    "interrupt": lambda: KeyboardInterrupt(),
    "generator": lambda: GeneratorExit(),
    "cancelled": lambda: asyncio.CancelledError(),
    "group": lambda: BaseExceptionGroup("several", [SystemExit(1), KeyboardInterrupt()]),
    "base": lambda: BaseException("bare"),
    "stop": lambda: StopIteration("x"),
    "async stop": lambda: StopAsyncIteration("x"),
    "timeout": lambda: TimeoutError("theirs"),
    "unspeakable": lambda: Unspeakable(),
    "memory": lambda: MemoryError(),
}


def raising(name: str) -> None:
    if name == "recursion":
        recursing()
    raise RAISED[name]()


async def sync_moment(name: str) -> None:
    raising(name)


async def later(name: str) -> None:
    await asyncio.sleep(0)
    raising(name)


async def in_a_task(name: str) -> None:
    """In a task of the tool's own, which asyncio lets end the loop."""
    task = asyncio.get_running_loop().create_task(later(name))
    await asyncio.gather(task, return_exceptions=True)
    raising(name)


async def in_a_callback(name: str) -> None:
    asyncio.get_running_loop().call_soon(raising, name)
    await asyncio.sleep(0)
    raising(name)


async def cleaning_up(name: str) -> None:
    try:
        asyncio.current_task().cancel()  # type: ignore[union-attr]
        await asyncio.sleep(0)
    finally:
        raising(name)


MOMENTS = [sync_moment, later, in_a_task, in_a_callback, cleaning_up]
NAMES = [*RAISED, "recursion"]
QUESTION = "Do it"


def told(result: RunResult) -> list[Observation]:
    return [event.observation for event in result.events if isinstance(event, Observed)]


def one_call() -> PromptModel:
    done = {"when": "failed|still here|in time|fine", "finish": "done"}
    return PromptModel(script=[done, {"when": ".", "call": {"tool": "bad", "input": "x"}}])


def approve(action: AgentAction, problem: str) -> Decision:
    return Decision("approve")


@given(
    name=st.sampled_from(NAMES),
    moment=st.sampled_from([None, *MOMENTS]),
    strategy=st.sampled_from(list(STRATEGIES)),
    effects=st.sampled_from(["read", "idempotent", "once"]),
)
@settings(max_examples=200)
def test_whatever_a_tool_raises_and_when_is_an_observation(
    name: str, moment: Callable[..., Any] | None, strategy: str, effects: Any
) -> None:
    async def awaited(query: str) -> None:
        assert moment is not None
        await moment(name)

    bad = Tool("bad", (lambda query: raising(name)) if moment is None else awaited, effects=effects)
    result = Agent(one_call(), [bad], strategy=strategy, human=approve, budget=Budget(seconds=20)).run(QUESTION)
    assert (result.answer, result.stop_reason) == ("done", StopReason.ANSWER), result
    (seen,) = told(result)
    assert seen.outcome == ("unknown" if effects == "once" else "failed")
    assert seen.text.startswith("bad failed: ")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("exit", "bad failed: SystemExit: 3"),
        ("nothing said", "bad failed: SystemExit"),
        ("cancelled", "bad failed: it was cancelled from within"),
        ("timeout", "bad failed: TimeoutError: theirs"),
        ("unspeakable", "bad failed: Unspeakable"),
        ("recursion", "bad failed: RecursionError: maximum recursion depth exceeded"),
    ],
)
def test_the_model_is_told_what_was_raised(name: str, text: str) -> None:
    result = Agent(one_call(), [Tool("bad", lambda query: raising(name), effects="read")]).run(QUESTION)
    assert told(result)[0].text.startswith(text)


def test_calls_side_by_side_go_on_when_one_exits() -> None:
    calls = [{"tool": "bad", "input": name} for name in NAMES] + [{"tool": "good", "input": "x"}]

    async def exits(query: str) -> None:
        await later(query)

    tools = [Tool("bad", exits, effects="read"), Tool("good", lambda query: "fine", effects="read")]
    model = PromptModel(script=[{"call": calls, "times": 1}, {"finish": "done"}])
    result = Agent(model, tools, strategy="tool_calling").run(QUESTION)
    assert result.answer == "done"
    assert [one.outcome for one in told(result)].count("failed") == len(NAMES)
    assert [one.text for one in told(result) if one.outcome == "result"] == ["fine"]


@pytest.mark.parametrize("end", ["stop", "close", "call_soon_threadsafe"])
def test_a_tool_that_ends_the_event_loop_ends_no_run(end: str) -> None:
    begun = threading.Event()
    beside = threading.Event()

    @tool(effects="read")
    async def bad(query: str) -> str:
        loop = asyncio.get_running_loop()
        await asyncio.to_thread(begun.wait, 10)
        if end == "call_soon_threadsafe":
            loop.call_soon_threadsafe(loop.stop)
        else:
            getattr(loop, end)()
        await asyncio.sleep(0.01)
        beside.set()
        return "still here"

    @tool(effects="read")
    def good(query: str) -> str:
        begun.set()
        assert beside.wait(10) or end == "close"
        return "undisturbed"

    other: list[RunResult] = []
    model = PromptModel(script=[{"call": {"tool": "good", "input": "x"}, "times": 1}, {"finish": "done"}])
    thread = threading.Thread(target=lambda: other.append(Agent(model, [good]).run(QUESTION)))
    thread.start()
    result = Agent(one_call(), [bad], budget=Budget(seconds=20)).run(QUESTION)
    beside.set()
    thread.join(20)
    assert result.answer == "done"
    assert told(result)[0].text == (
        "still here" if end != "close" else "bad failed: RuntimeError: Cannot close a running event loop"
    )
    assert [one.answer for one in other] == ["done"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_tool_that_refuses_to_be_cancelled_holds_up_nobody(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retinue._internal.containment.GRACE", 0.01)
    free = asyncio.Event()

    @tool(effects="read", timeout=0.01)
    async def bad(query: str) -> str:
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                continue
        return "at last"

    async def run() -> RunResult:
        result = await Agent(one_call(), [bad], strategy=strategy, human=approve).run_async(QUESTION)
        free.set()
        return result

    result = asyncio.run(run())
    assert (result.answer, told(result)[0].outcome) == ("done", "timed_out")


def test_a_budget_of_seconds_holds_for_a_tool_that_refuses_to_be_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retinue._internal.containment.GRACE", 0.01)
    free = asyncio.Event()

    @tool(effects="read")
    async def bad(query: str) -> str:
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                continue
        return "at last"

    async def run() -> RunResult:
        result = await Agent(one_call(), [bad], budget=Budget(seconds=0.05)).run_async(QUESTION)
        free.set()
        return result

    assert asyncio.run(run()).stop_reason is StopReason.MAX_EXECUTION_TIME_EXCEEDED


def test_what_a_cancelled_call_still_gives_counts() -> None:
    """Its outcome is known then."""

    @tool(effects="once", timeout=0.01)
    async def pay(query: str) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "paid, in the last moment"
        return ""

    model = PromptModel(script=[{"call": {"tool": "pay", "input": "x"}, "times": 1}, {"finish": "done"}])
    (seen,) = told(Agent(model, [pay]).run(QUESTION))
    assert (seen.outcome, seen.text) == ("result", "paid, in the last moment")


def test_a_real_cancel_is_one_and_reaches_the_tool() -> None:
    cleaned: list[str] = []

    async def main() -> tuple[str, list[type]]:
        begun = asyncio.Event()

        @tool(effects="read")
        async def bad(query: str) -> str:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                cleaned.append("yes")
            return ""

        run = Agent(one_call(), [bad]).start(QUESTION)
        task = asyncio.create_task(run.finish())
        await begun.wait()
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return run.result.stop_reason, [type(event) for event in run.log]
        return "it was not cancelled", []

    reason, kinds = asyncio.run(main())
    assert (reason, cleaned) == (StopReason.CANCELLED, ["yes"])
    assert Called in kinds
    assert Observed not in kinds


# ── forks ────────────────────────────────────────────────────────────────────────────────────────

FORKS = """
import asyncio, os, sys
from pathlib import Path
from retinue import Agent, PromptModel, Tool

ledger, how = Path(sys.argv[1]), sys.argv[2]

def forked():
    child = os.fork()
    if child == 0:
        if how == "exits":
            os._exit(4)
        if how == "sys.exit":
            sys.exit(4)
        if how == "raises":
            raise ValueError("in the child")
        return child
    return child

def waited(child):
    return f"child {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}"

def fork(query: str) -> str:
    child = forked()
    return "back in the child" if child == 0 else waited(child)

async def afork(query: str) -> str:
    child = forked()
    if child == 0:
        if how == "waits":
            await asyncio.sleep(0)
        return "back in the child"
    return waited(child)

def note(query: str) -> str:
    with ledger.open("a") as file:
        file.write(query + "\\n")
    return "noted"

calls = {"tool": sys.argv[3], "input": "x"}, {"tool": "note", "input": "after"}
model = PromptModel(script=[*({"call": call, "times": 1} for call in calls), {"finish": "done"}])
result = Agent(model, [Tool("fork", fork), Tool("afork", afork), Tool("note", note)]).run("Do it")
print(result.answer, "|", result.steps[0].observations[0].text)
"""


@pytest.mark.parametrize("name", ["fork", "afork"])
@pytest.mark.parametrize(
    ("how", "status"), [("exits", 4), ("sys.exit", 4), ("raises", 1), ("returns", 0), ("waits", 0)]
)
@pytest.mark.usefixtures("full")  # with which the program has an interpreter of its own
def test_a_child_that_a_tool_forks_off_runs_nothing_of_ours(name: str, how: str, status: int, tmp_path: Any) -> None:
    ledger = tmp_path / "ledger"
    done = fork_server.python(["-c", FORKS, ledger, how, name])
    assert done.stdout == f"done | child {status}\n", done.stderr
    assert ledger.read_text() == "after\n"


# ── everything else that is called ───────────────────────────────────────────────────────────────


class Broken:
    """A strategy that raises, at its beginning or after a reply."""

    name = "broken"

    def __init__(self, what: str, *, after: bool = False) -> None:
        self.what = what
        self.after = after

    def __call__(self, task: Task) -> Flow:
        if self.after:
            yield from act(AgentAction("bad", "x"))
        raising(self.what)
        yield Ask(Prompt(Message("user", "?")), "", str)  # type: ignore[arg-type]
        return AgentFinish({"output": "no"})


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_whatever_a_strategy_raises_is_the_runs_end_and_one_line(name: str, after: bool) -> None:
    good = Tool("bad", lambda query: "fine", effects="read")
    result = Agent(PromptModel(script=["x"]), [good], strategy=Broken(name, after=after)).run(QUESTION)
    assert result.stop_reason is StopReason.ERROR
    assert result.error.startswith("the strategy failed: ")
    assert "\n" not in result.error
    assert "Traceback" not in result.error


class Gives:
    """A strategy that returns something, or asks for something."""

    name = "gives"

    def __init__(self, what: Any, *, asked: bool = False) -> None:
        self.what = what
        self.asked = asked

    def __call__(self, task: Task) -> Flow:
        if self.asked:
            yield self.what
        yield from ask(Ask(Prompt(Message("user", "?")), "", lambda decided: Reply("x")))
        return self.what  # type: ignore[no-any-return]


@pytest.mark.parametrize("what", [None, "an answer", 47])
def test_a_strategy_that_gives_something_else_is_told_what_is_wanted(what: Any) -> None:
    bad = Tool("bad", lambda query: "fine", effects="read")
    result = Agent(PromptModel(script=["x"]), [bad], strategy=Gives(what)).run(QUESTION)
    kind = type(what).__name__
    assert (result.stop_reason, result.error) == (
        StopReason.ERROR,
        f"the strategy returned a {kind}; want an AgentFinish",
    )
    result = Agent(PromptModel(script=["x"]), [bad], strategy=Gives(what, asked=True)).run(QUESTION)
    assert result.error == f"the strategy yielded a {kind}; want Ask, Act or HumanRequest"


@pytest.mark.parametrize("what", [None, "Final Answer: x", [None], 47])
def test_a_parser_that_gives_something_else_is_told_what_is_wanted(what: Any) -> None:
    own = simple("own", prompt=lambda values: "?", parse=lambda text: what)
    bad = Tool("bad", lambda query: "fine", effects="read")
    result = Agent(PromptModel(script=["x"]), [bad], strategy=own).run(QUESTION)
    kind = type(what[0] if isinstance(what, list) else what).__name__
    assert result.error == (
        f"parse of the strategy 'own' returned a {kind}; want an AgentAction, a list of these, or an AgentFinish"
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("part", ["parse", "prompt", "trim"])
def test_whatever_a_parser_or_a_prompt_raises_is_the_runs_end(name: str, part: str) -> None:
    def bad(*values: Any) -> Any:
        raising(name)

    parts: dict[str, Any] = {"prompt": lambda values: "?", "parse": lambda text: AgentAction("bad", "x")}
    parts["trim_intermediate_steps" if part == "trim" else part] = bad
    own = simple("own", **parts)
    tools = [Tool("bad", lambda query: "fine", effects="read")]
    result = Agent(PromptModel(script=["x"]), tools, strategy=own, budget=Budget(3)).run(QUESTION)
    assert result.stop_reason is StopReason.ERROR


def test_a_strategy_that_is_no_generator_is_refused() -> None:
    class Plain:
        name = "plain"

        def __call__(self, task: Task) -> Any:
            return None

    class Exits:
        name = "exits"

        def __call__(self, task: Task) -> Any:
            raise SystemExit(3)

    tools = [Tool("bad", lambda query: "fine", effects="read")]
    with pytest.raises(UsageError, match="the strategy 'plain' returned a NoneType; want a generator"):
        Agent(PromptModel(script=["x"]), tools, strategy=Plain()).run(QUESTION)
    with pytest.raises(UsageError, match="the strategy 'exits' failed: SystemExit: 3"):
        Agent(PromptModel(script=["x"]), tools, strategy=Exits()).run(QUESTION)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("awaited", [False, True])
def test_whatever_human_raises_is_the_runs_end(name: str, awaited: bool) -> None:
    async def asked(action: AgentAction, problem: str) -> Decision:
        await later(name)
        return Decision("approve")

    human = asked if awaited else lambda action, problem: raising(name)
    pay = Tool("bad", lambda query: "fine", approval=True)
    result = Agent(one_call(), [pay], human=human).run(QUESTION)
    assert result.stop_reason is StopReason.ERROR
    assert result.error.startswith("human failed when asked about bad: ")
    assert result.resumable


def test_a_human_that_decides_nothing_known_is_told_what_is_wanted() -> None:
    pay = Tool("bad", lambda query: "fine", approval=True)
    result = Agent(one_call(), [pay], human=lambda action, problem: True).run(QUESTION)  # type: ignore[arg-type,return-value]
    assert result.error == "human returned a bool; want a Decision, or None while pending"


class Talks:
    """A model that raises when it is asked what it can do, or to reply."""

    name = "talks"

    def __init__(self, what: str, *, able: bool = True) -> None:
        self.what = what
        self.able = able

    async def abilities(self, *, native: bool = False) -> Capabilities:
        if not self.able:
            raising(self.what)
        return Capabilities()

    async def _reply(self) -> Any:
        if self.what:
            raising(self.what)
        return
        yield

    def reply(self, request: Ask) -> Chunks:
        return self._reply()  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", NAMES)
def test_whatever_a_model_raises_is_the_runs_end(name: str) -> None:
    tools = [Tool("bad", lambda query: "fine", effects="read")]
    result = Agent(Talks(name), tools).run(QUESTION)
    assert result.stop_reason is StopReason.ERROR
    with pytest.raises(RetinueError, match="the model's `abilities` failed"):
        Agent(Talks(name, able=False), tools).run(QUESTION)


@pytest.mark.parametrize("name", [*NAMES, ""])
def test_whatever_a_model_raises_is_the_error_of_who_asks_it_once(name: str) -> None:
    with pytest.raises(Exception, match=None if name else "the model ended without a reply"):
        asyncio.run(ask_once(Talks(name), "?"))
    pipeline = Pipeline()
    pipeline.add_node(PromptNode(Talks(name)), name="Asks", inputs=["Query"])
    with pytest.raises(NodeFailed, match="node 'Asks'"):
        pipeline.run(query="x")


def test_a_model_without_a_reply_is_the_runs_end() -> None:
    run = Agent(Talks(""), [Tool("bad", lambda query: "fine", effects="read")]).start(QUESTION)
    with pytest.raises(ModelError, match="the model ended without a reply"):
        run_blocking(run.finish())
    assert (run.result.stop_reason, run.result.error) == (StopReason.ERROR, "the model ended without a reply")


class Remembers:
    def __init__(self, recalling: str = "", remembering: str = "") -> None:
        self.recalling = recalling
        self.remembering = remembering

    async def recall(self, question: str) -> Recalled:
        if self.recalling:
            raising(self.recalling)
        return Recalled(())

    async def remember(self, question: str, answer: str) -> None:
        if self.remembering:
            raising(self.remembering)


@pytest.mark.parametrize("name", NAMES)
def test_whatever_a_memory_raises_ends_nothing_else(name: str) -> None:
    tools = [Tool("bad", lambda query: "fine", effects="read")]
    result = Agent(one_call(), tools, memory=Remembers(remembering=name)).run(QUESTION)
    assert result.answer == "done"
    with pytest.raises(RetinueError, match="the memory Remembers failed: "):
        Agent(one_call(), tools, memory=Remembers(recalling=name)).run(QUESTION)


@pytest.mark.parametrize("name", [name for name, error in RAISED.items() if not isinstance(error(), Exception)])
@pytest.mark.parametrize("awaited", [False, True])
def test_whatever_a_component_raises_is_its_error(name: str, awaited: bool) -> None:
    def now(query: str) -> str:
        raising(name)
        return ""

    async def awaits(query: str) -> str:
        await later(name)
        return ""

    made: Component = component(awaits if awaited else now)
    with pytest.raises(ForeignExit):
        made.run(query="x")
    with pytest.raises(ForeignExit) as caught:
        made.run_batch([{"query": "x"}])
    assert type(caught.value.__cause__) is type(RAISED[name]())
    pipeline = Pipeline()
    pipeline.add_node(made, name="Bad", inputs=["Query"])
    pipeline.add_node(lambda query: "fine", name="Good", inputs=["Query"])
    with pytest.raises(NodeFailed, match="node 'Bad'"):
        pipeline.run(query="x")
    assert pipeline.run_batch([]) == []


PERSON = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # as in a shell's foreground


def test_ctrl_c_in_the_caller_of_a_blocking_run_is_a_persons() -> None:
    code = """
import os, signal, threading
from retinue import Agent, PromptModel, Tool

def hang(query: str) -> str:
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    threading.Event().wait()

model = PromptModel(script=[{"call": {"tool": "hang", "input": "x"}}])
try:
    Agent(model, [Tool("hang", hang)]).run("Do it")
except KeyboardInterrupt:
    print("interrupted")
"""
    done = subprocess.run([sys.executable, "-c", PERSON + code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("interrupted\n", 0), done.stderr


def test_ctrl_c_on_a_loop_in_the_main_thread_is_not_taken_for_a_tools() -> None:
    code = """
import asyncio, os, signal, time
from retinue._internal.sync_bridge import run_to_completion

async def main():
    try:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()
    finally:
        print("cleaned up")

try:
    run_to_completion(main())
except KeyboardInterrupt:
    print("interrupted")
"""
    done = subprocess.run([sys.executable, "-c", PERSON + code], capture_output=True, text=True, timeout=60)
    assert (done.stdout.splitlines()[-1], done.returncode) == ("interrupted", 0), done.stderr
    assert "cleaned up" in done.stdout


def test_a_cancel_of_ours_passes_through_foreign_code() -> None:
    async def main() -> str:
        task = asyncio.create_task(await_isolated(asyncio.Event().wait()))
        await asyncio.sleep(0)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return "cancelled"
        return "not cancelled"

    assert asyncio.run(main()) == "cancelled"


def test_a_function_that_cancels_itself_is_told_from_one_that_is_cancelled() -> None:
    def cancels() -> None:
        raise asyncio.CancelledError

    with pytest.raises(ForeignExit, match="it was cancelled from within"):
        call_contained(cancels)


# ── a call's first step ──────────────────────────────────────────────────────────────────────────


def test_a_call_has_a_task_of_its_own_from_its_first_step_on() -> None:
    seen: list[asyncio.Task[Any] | None] = []

    async def call() -> str:
        seen.append(asyncio.current_task())
        try:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        except TimeoutError:
            seen.append(asyncio.current_task())
        return "it went on"

    async def main() -> str:
        result = await await_isolated(call())
        seen.append(asyncio.current_task())
        return result

    assert asyncio.run(main()) == "it went on"
    first, second, caller = seen
    assert first is second is not caller is not None
