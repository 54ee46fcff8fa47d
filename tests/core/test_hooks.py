"""Hooks: what each verdict means at each point, and that it holds when a run is continued, replayed or forked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from retinue import (
    Agent,
    AskPerson,
    Block,
    Change,
    Decision,
    Delta,
    Hook,
    PromptModel,
    RunResult,
    StopReason,
    Tool,
    UsageError,
    fork,
    hook,
    replay,
)
from retinue.core.events import (
    Asked,
    Called,
    Compacted,
    Event,
    Finished,
    Judged,
    Observed,
    Paused,
    Replied,
    Started,
    Stopped,
)
from retinue.core.hooks import POINTS
from retinue.core.prompt import Ask
from retinue.core.protocols import Chunks
from retinue.core.run_context import RunContext
from retinue.core.serialization import from_json, to_json
from retinue.core.values import AgentAction, Capabilities, Message, ProviderState, Reply, Usage

SECRET, HIDDEN = "4111-1111", "[card]"


class World:
    """A tool that must not be called twice, and one that may be; what was done is noted."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.read: list[str] = []

    def pay(self, name: str) -> str:
        """Pay somebody."""
        self.paid.append(name)
        return f"paid {name} from {SECRET}"

    def look(self, name: str) -> str:
        """Look somebody up."""
        self.read.append(name)
        return f"{name} is 47, card {SECRET}"


SCRIPT: list[dict[str, Any]] = [
    {"when": "refused", "finish": "another answer"},
    {"when": "paid|withheld|not called|by hand", "finish": f"done, card {SECRET}"},
    {"when": "is 47", "call": {"tool": "pay", "input": "Ada"}},
    {"when": "Pay|Help", "call": {"tool": "look", "input": "Ada"}},
]


def agent(world: World, hooks: Sequence[Any], **options: Any) -> Agent:
    tools = [Tool("pay", world.pay, effects="once"), Tool("look", world.look, effects="read")]
    return Agent(PromptModel(script=SCRIPT), tools, hooks=hooks, **{"strategy": "react", **options})


def hide(value: Any) -> Any:
    """Return a value in which no text has the secret."""
    return json.loads(json.dumps(value).replace(SECRET, HIDDEN))


def change_of(event: Any) -> Any:
    """Return the verdict that hides the secret in an event, of whatever kind."""
    match event:
        case Started():
            changed: Any = replace(event, question=hide(event.question))
        case Asked():
            changed = replace(event, messages=tuple(replace(one, content=hide(one.content)) for one in event.messages))
        case Replied(reply=reply):
            changed = replace(event, reply=replace(reply, text=hide(reply.text)))
        case Called(action=action):
            changed = replace(event, action=replace(action, tool_input=hide(action.tool_input)))
        case Observed(observation=seen):
            changed = replace(event, observation=replace(seen, text=hide(seen.text)))
        case Finished():
            changed = replace(event, answer=hide(event.answer))
    return None if changed == event else Change(changed)


def redactor(*points: str) -> list[Hook]:
    return [Hook(point, lambda event, _: change_of(event), f"redact_{point}") for point in points]  # type: ignore[arg-type]


def judged(log: Sequence[Event]) -> list[tuple[str, str, str]]:
    return [(one.point, one.hook, one.verdict) for one in log if isinstance(one, Judged)]


def stored(log: Sequence[Event]) -> list[Event]:
    return [from_json(to_json(event)) for event in log]


def untimed(log: Sequence[Event]) -> list[Any]:
    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: strip(one) for key, one in value.items() if "seconds" not in key}
        return [strip(one) for one in value] if isinstance(value, list) else value

    return [strip(json.loads(to_json(event))) for event in log]


ALL = POINTS[:-1]


@pytest.mark.parametrize("strategy", ["react", "tool_calling", "react_json", "planexec"])
def test_hooks_that_let_everything_pass_change_nothing(strategy: str) -> None:
    seen: list[str] = []

    def passes(event: Event, context: RunContext) -> None:
        assert context.run
        seen.append(type(event).__name__)

    async def passes_later(event: Event, context: RunContext) -> None:
        await asyncio.sleep(0)

    hooks = [Hook(point, one) for point in POINTS for one in (passes, passes_later)]
    plain, hooked = agent(World(), (), strategy=strategy).run("Pay Ada"), agent(World(), hooks, strategy=strategy)
    result = hooked.run("Pay Ada")
    assert untimed(result.events) == untimed(plain.events)
    assert {"Started", "Asked", "Replied", "Called", "Observed", "Finished"} <= {*seen}


@pytest.mark.parametrize("strategy", ["react", "tool_calling", "react_json"])
def test_what_hooks_change_is_what_the_log_the_model_and_the_answer_have(strategy: str) -> None:
    world = World()
    result = agent(world, redactor(*ALL), strategy=strategy).run(f"Pay Ada from {SECRET}")
    assert result.answered
    assert result.answer == f"done, card {HIDDEN}"
    assert SECRET not in "".join(map(to_json, result.events))
    assert judged(result.events)[0] == ("before_run", "redact_before_run", "change")
    assert isinstance(result.events[0], Judged)
    assert isinstance(result.events[1], Started)
    assert world.paid == ["Ada"]
    for at, event in enumerate(result.events):  # what follows from a verdict is next
        if isinstance(event, Judged):
            kinds = {"before_model": Asked, "after_model": Replied, "after_tool": Observed, "before_answer": Finished}
            assert isinstance(result.events[at + 1], kinds.get(event.point, Started))


def test_several_hooks_each_see_what_those_before_them_changed() -> None:
    seen: list[str] = []

    def note(event: Observed, context: RunContext) -> None:
        seen.append(event.observation.text)

    def append(event: Observed, context: RunContext) -> Change:
        return Change(replace(event, observation=replace(event.observation, text=event.observation.text + "!")))

    hooks = [Hook("after_tool", append, "one"), Hook("after_tool", append, "two"), Hook("after_tool", note)]
    result = agent(World(), hooks).run("Pay Ada")
    assert seen[0] == f"Ada is 47, card {SECRET}!!"
    assert judged(result.events)[:2] == [("after_tool", "one", "change"), ("after_tool", "two", "change")]


def block_once(reason: str) -> Any:
    """Return a function that blocks the first that it sees."""
    left = [reason]
    return lambda event, context: Block(left.pop()) if left else None


def test_a_question_that_is_blocked_ends_the_run_before_the_model_is_asked() -> None:
    result = agent(World(), [Hook("before_run", lambda e, c: Block("not today"), "gate")]).run("Pay Ada")
    assert [type(one).__name__ for one in result.events] == ["Started", "Judged", "Stopped"]
    assert (result.stop_reason, result.error, result.answer) == (StopReason.BLOCKED, "not today", "")
    assert not result.resumable
    assert not result.answered


def test_a_request_that_is_blocked_is_not_sent() -> None:
    result = agent(World(), [Hook("before_model", lambda e, c: Block("too private"), "gate")]).run("Pay Ada")
    assert [type(one).__name__ for one in result.events] == ["Started", "Judged", "Stopped"]
    assert (result.stop_reason, result.error) == (StopReason.BLOCKED, "too private")


def test_of_a_reply_that_is_blocked_the_log_has_only_what_it_used() -> None:
    model = PromptModel(script=[{"say": f"The card is {SECRET}"}])
    result = Agent(model, hooks=[Hook("after_model", lambda e, c: Block("no cards"))]).run("Hello")
    assert result.stop_reason is StopReason.BLOCKED
    assert SECRET not in "".join(map(to_json, result.events))
    assert result.usage.requests == 1 or result.usage.total_tokens
    assert result.usage == next(e.reply.usage for e in result.events if isinstance(e, Replied))


def test_a_call_that_is_blocked_is_not_made_and_the_model_is_told_why() -> None:
    world = World()
    gate = Hook("before_tool", lambda e, c: Block("no payments") if e.action.tool == "pay" else None, "gate")
    result = agent(world, [gate]).run("Pay Ada")
    assert world.paid == []
    assert result.answered
    seen = [e.observation for e in result.events if isinstance(e, Observed)]
    assert (seen[-1].outcome, seen[-1].text) == ("rejected", "pay was not called: no payments")


def test_a_result_that_is_blocked_is_replaced_by_the_reason() -> None:
    world = World()
    gate = Hook("after_tool", lambda e, c: Block("a card") if e.observation.text.startswith("paid") else None)
    result = agent(world, [gate]).run("Pay Ada")
    seen = [e.observation for e in result.events if isinstance(e, Observed)]
    assert world.paid == ["Ada"]
    assert result.answered
    assert (seen[-1].outcome, seen[-1].text) == ("result", "The result is withheld: a card")


def test_an_answer_that_is_blocked_goes_back_to_the_model_with_the_reason() -> None:
    gate = Hook("before_answer", lambda e, c: Block("no cards") if SECRET in e.answer else None, "gate")
    result = agent(World(), [gate]).run("Pay Ada")
    assert (result.answer, result.answered) == ("another answer", True)
    assert judged(result.events) == [("before_answer", "gate", "block")]
    assert "no cards" in result.transcript
    assert "paid Ada" in result.transcript.partition("no cards")[0]


def test_an_answer_that_is_blocked_again_and_again_ends_the_run() -> None:
    result = agent(World(), [Hook("before_answer", lambda e, c: Block("never"))]).run("Pay Ada")
    assert (result.stop_reason, result.error, result.answer, result.best_answer) == (
        StopReason.BLOCKED, "never", "", "",
    )  # fmt: skip
    assert len(judged(result.events)) == 3


def test_an_answer_with_a_schema_is_asked_for_again_in_that_form() -> None:
    model = PromptModel(script=[{"when": "is refused", "say": '{"n": 2}'}, {"say": '{"n": 1}'}])
    gate = Hook("before_answer", lambda e, c: Block("1 is too few") if e.return_values["answer"] == {"n": 1} else None)
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    result = Agent(model, hooks=[gate], answer=schema).run("How many?")
    assert result.return_values["answer"] == {"n": 2}


def test_a_changed_answer_is_changed_in_all_return_values() -> None:
    model = PromptModel(script=[{"say": '{"n": 1}'}])
    more = Hook("before_answer", lambda e, c: Change(replace(e, answer='{"n": 5}')))
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    result = Agent(model, hooks=[more], answer=schema).run("How many?")
    assert (result.text, result.return_values) == ('{"n": 5}', {"output": '{"n": 5}', "answer": {"n": 5}})


def test_after_a_run_a_hook_only_looks() -> None:
    ends: list[Any] = []
    result = agent(World(), [Hook("after_run", lambda e, c: ends.append(e) or Block("late"))]).run("Pay Ada")  # type: ignore[func-returns-value]
    assert result.answered
    assert ends == [result.events[-1]]
    assert judged(result.events) == []


# ── asking a person ──────────────────────────────────────────────────────────────────────────────


def asker(point: str) -> Hook:
    """Return a hook that leaves to a person whatever has the secret in it, and calls of `pay`."""

    def ask(event: Any, context: RunContext) -> Any:
        if point == "before_tool":
            return AskPerson("a payment") if event.action.tool == "pay" else None
        return AskPerson("a card") if change_of(event) else None

    return Hook(point, ask, "doubt")  # type: ignore[arg-type]


def ask_at(point: str) -> tuple[World, Agent, RunResult]:
    world = World()
    asking = agent(world, [asker(point)])
    result = asking.run(f"Pay Ada from {SECRET}" if point in ("before_run", "before_model") else "Pay Ada")
    assert result.stop_reason is StopReason.AWAITING_HUMAN
    assert len(result.waiting) == 1
    assert "doubt" in result.error
    return world, asking, result


def decide(asking: Agent, result: RunResult, decision: Decision) -> RunResult:
    """Return how a run ends if a person decides so on everything."""
    while result.stop_reason is StopReason.AWAITING_HUMAN:
        given = {one.id: decision for one in result.waiting}
        result = asking.resume(stored(result.events), given, key="k")
    return result


@pytest.mark.parametrize("point", ALL)
def test_what_a_person_approves_goes_through_unchanged(point: str) -> None:
    world, asking, result = ask_at(point)
    end = decide(asking, result, Decision("approve"))
    assert end.answer == f"done, card {SECRET}"
    assert (world.paid, world.read) == (["Ada"], ["Ada"])
    plain = agent(World(), ()).run(next(e.question for e in end.events if isinstance(e, Started)))
    kinds = (Started, Asked, Replied, Called, Observed, Finished)
    assert untimed([e for e in end.events if isinstance(e, kinds)]) == untimed(plain.events)


@pytest.mark.parametrize("point", ALL)
def test_what_a_person_rejects_is_blocked(point: str) -> None:
    world, asking, result = ask_at(point)
    end = decide(asking, result, Decision("reject", message="no way"))
    if point in ("before_run", "before_model", "after_model"):
        assert end.stop_reason is StopReason.BLOCKED
        assert "no way" in end.error
    else:
        assert end.answered
        assert "no way" in end.transcript
    assert world.paid == (["Ada"] if point in ("after_model", "before_answer") else [])


EDITS: dict[str, Any] = {
    "before_run": {"question": "Pay Ada"},
    "after_model": {"text": "Thought: ok\nFinal Answer: by me"},
    "before_tool": "Eve",
    "after_tool": {"text": "paid by hand"},
    "before_answer": {"answer": "done"},
}


@pytest.mark.parametrize("point", EDITS)
def test_what_a_person_edits_takes_its_place(point: str) -> None:
    world, asking, result = ask_at(point)
    if point == "after_tool":
        result = asking.resume(stored(result.events), {result.waiting[0].id: Decision("approve")}, key="k")
    end = decide(asking, result, Decision("edit", EDITS[point]))
    assert end.answered
    expected = {"after_model": "by me", "before_answer": "done", "after_tool": f"done, card {SECRET}"}
    assert end.answer == expected.get(point, f"done, card {SECRET}")
    assert world.paid == {"before_tool": ["Eve"]}.get(point, ["Ada"])


@pytest.mark.parametrize("point", ["after_model", "after_tool", "before_answer"])
def test_a_person_may_say_it_themselves(point: str) -> None:
    _, asking, result = ask_at(point)
    said = Decision("respond", message="Thought: ok\nFinal Answer: by me" if point == "after_model" else "by hand")
    assert decide(asking, result, said).answered


def test_an_edit_that_does_not_fit_blocks() -> None:
    _, asking, result = ask_at("before_run")
    end = decide(asking, result, Decision("edit", {"answer": "x"}))
    assert end.stop_reason is StopReason.BLOCKED
    assert "'question'" in end.error


def test_people_are_asked_in_the_same_process_if_somebody_is_there() -> None:
    asked: list[str] = []

    def human(action: Any, problem: str) -> Decision:
        asked.append(f"{action.tool}: {problem}")
        return Decision("approve")

    result = agent(World(), [asker("after_tool")], human=human).run("Pay Ada")
    assert result.answered
    assert asked == ["after_tool: doubt: a card"] * 2


def test_a_tool_with_approval_and_a_hook_that_asks_is_asked_about_once() -> None:
    world = World()
    pay = Tool("pay", world.pay, effects="once", approval=True)
    asking = Agent(PromptModel(script=SCRIPT[1:]), [pay, world.look], hooks=[asker("before_tool")], strategy="react")
    result = asking.run("Pay Ada")
    assert "doubt: a payment; pay runs only with a person's approval" in result.error
    end = asking.resume(stored(result.events), {result.waiting[0].id: Decision("approve")})
    assert end.answered
    assert world.paid == ["Ada"]


# ── continuing ───────────────────────────────────────────────────────────────────────────────────


def counting(inner: Sequence[Hook], counts: list[str]) -> list[Hook]:
    """Return the hooks, which note what they say."""

    def wrap(one: Hook) -> Hook:
        def judge(event: Any, context: RunContext) -> Any:
            verdict: Any = one.function(event, context)
            if verdict is not None:
                counts.append(f"{one.name} {type(verdict).__name__}")
            return verdict

        return Hook(one.point, judge, one.name)

    return [wrap(one) for one in inner]


def chains() -> dict[str, list[Hook]]:
    block = Hook("before_tool", lambda e, c: Block("no payments") if e.action.tool == "pay" else None, "gate")
    withhold = Hook("after_tool", lambda e, c: Block("a card") if "paid" in e.observation.text else None, "shut")
    again = Hook("before_answer", lambda e, c: Block("no cards") if SECRET in e.answer else None, "again")
    return {
        "changes": redactor(*ALL),
        "blocks": [block, again],
        "withholds": [*redactor("before_run", "after_model"), withhold, again],
        "stops": [*redactor("before_run"), Hook("before_model", lambda e, c: Block("no") if e.step > 1 else None)],
        "refuses": [Hook("before_run", lambda e, c: Block("no"), "gate")],
        "empties": [Hook("after_model", lambda e, c: Block("no") if e.step > 1 else None, "gate")],
        "asks before": [asker("before_run"), asker("before_model"), asker("before_tool")],
        "asks after": [asker("after_model"), asker("after_tool"), asker("before_answer")],
    }


@pytest.mark.parametrize("name", chains())
@pytest.mark.parametrize("strategy", ["react", "tool_calling"])
def test_a_run_cut_off_after_any_event_ends_as_it_would_have(name: str, strategy: str) -> None:
    def human(action: Any, problem: str) -> Decision:
        return Decision("approve")

    whole = agent(World(), chains()[name], strategy=strategy, human=human).run(f"Pay Ada from {SECRET}")
    log = stored(whole.events)
    first = next(at for at, event in enumerate(log) if isinstance(event, Started))
    for cut in range(first + 1, len(log)):
        counts: list[str] = []
        world = World()
        kept = log[:cut]
        again = agent(world, counting(chains()[name], counts), strategy=strategy, human=human)
        begun = {e.action.id for e in kept if isinstance(e, Called) and e.action.tool == "pay"}
        begun -= {e.observation.call_id for e in kept if isinstance(e, Observed)}
        held = {e.call_id for e in kept if isinstance(e, Judged) and e.about and e.point == "after_tool"}
        if begun - held or (isinstance(kept[-1], Judged) and kept[-1].point == "after_tool"):
            continue  # nobody can know the outcome: as without hooks, a person has to say
        result = again.resume(kept, key="k")
        assert untimed(result.events) == untimed(log), cut
        while kept and isinstance(kept[-1], Judged):
            kept.pop()
        assert len(counts) == len(judged(log)) - len(judged(kept)), cut  # nothing is judged again
        assert len(world.paid) <= 1


def test_a_parked_run_goes_on_under_hooks_that_are_gone() -> None:
    _, asking, result = ask_at("after_tool")
    plain = agent(World(), ())
    end = decide(plain, result, Decision("approve"))
    assert end.answered
    del asking


def test_parallel_calls_are_each_judged_once_wherever_the_run_was_cut_off() -> None:  # noqa: PLR0915 -- one story
    paid: list[str] = []

    async def pay(name: str) -> str:
        """Pay somebody."""
        paid.append(name)
        return f"paid {name}"

    async def look(name: str) -> str:
        """Look somebody up."""
        return f"{name} has {SECRET}" if name == "Ada" else f"{name} is {name}"

    def ask(event: Any, context: RunContext) -> Any:
        text = str(event.action.tool_input if isinstance(event, Called) else event.observation.text)
        return AskPerson("hm") if "Bob" in text else None

    calls = [{"tool": "look", "input": {"name": one}} for one in ("Ada", "Bob", "Eve")]
    calls += [{"tool": "pay", "input": {"name": one}} for one in ("Bob", "Eve")]
    script = [{"when": "paid", "finish": "done"}, {"when": "", "call": calls}]
    hooks = [*redactor("after_tool"), Hook("before_tool", ask, "doubt"), Hook("after_tool", ask, "doubt")]
    tools = [Tool("pay", pay, effects="once"), Tool("look", look, effects="read")]

    def make() -> Agent:
        return Agent(PromptModel(script=script), tools, hooks=hooks, strategy="tool_calling")

    first = make().run("Begin")
    assert len(first.waiting) == 2  # the calls for Bob; others were made meanwhile
    whole = decide(make(), first, Decision("approve"))
    assert (whole.answer, paid) == ("done", ["Eve", "Bob"])
    log = stored(whole.events)
    for cut in range(1, len(log)):
        kept = log[:cut]
        while isinstance(kept[-1], Judged):
            kept.pop()
        paid[:] = [e.action.tool_input["name"] for e in kept if isinstance(e, Called) and e.action.tool == "pay"]  # type: ignore[index]
        open_calls = {e.action.id for e in kept if isinstance(e, Called) and e.action.tool == "pay"}
        closed = {e.observation.call_id for e in kept if isinstance(e, Observed)}
        held = {e.call_id for e in kept if isinstance(e, Judged) and e.point == "after_tool" and e.about}
        if open_calls - closed - held:
            continue  # nobody can know the outcome: as without hooks, a person has to say
        end = decide(make(), make().resume(kept, key="k"), Decision("approve"))
        assert end.answer == "done", cut
        assert sorted(paid) == ["Bob", "Eve"], cut
        counts = [(e.point, e.hook, e.verdict, e.call_id) for e in end.events if isinstance(e, Judged)]
        assert sorted(counts) == sorted(
            (e.point, e.hook, e.verdict, e.call_id) for e in log if isinstance(e, Judged)
        ), cut
    assert replay(make(), log).agrees


# ── what hooks get wrong ─────────────────────────────────────────────────────────────────────────


def fails(event: Any, context: Any) -> None:
    raise ValueError("broken")


async def sleeps(event: Any, context: Any) -> None:
    await asyncio.sleep(60)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (fails, "the hook it failed: ValueError: broken"),
        (sleeps, "the hook it failed: it took longer than 0.01 s"),
        (lambda e, c: True, "it returned True; want None, Change(event), Block(reason) or AskPerson(reason)"),
        (lambda e, c: Change(Stopped(StopReason.ERROR)), "it changed a Called into a Stopped"),
        (lambda e, c: Change(replace(e, step=7)), "it may change only the action"),
        (
            lambda e, c: Change(replace(e, action=replace(e.action, id="x"))),
            "of a AgentAction it may change only tool_input",
        ),
    ],
)
def test_a_hook_that_fails_blocks_and_is_named(function: Any, said: str) -> None:
    world = World()
    result = agent(world, [Hook("before_tool", function, "it", seconds=0.01)]).run("Pay Ada")
    assert world.read == []
    assert said in result.transcript
    lenient = agent(world, [Hook("before_tool", function, "it", "pass", seconds=0.01)]).run("Pay Ada")
    assert lenient.answered
    assert world.paid == ["Ada"]
    assert judged(lenient.events) == []


def test_messages_may_be_changed_but_not_added_or_dropped() -> None:
    fewer = Hook("before_model", lambda e, c: Change(replace(e, messages=e.messages[1:])), "it")
    assert "not their number" in agent(World(), [fewer]).run("Pay Ada").error


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("before_tool", "hooks: want a list of hooks"),
        ([fails], r"hooks\[0\]: want a list of hooks"),
        ([Hook], r"hooks\[0\]: want a list of hooks"),
    ],
)
def test_what_is_no_hook_is_refused_at_once(given: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Agent(PromptModel(script=["x"]), hooks=given)


def test_an_unknown_point_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"before_tools.*before_tool"):
        hook("before_tools")(fails)  # type: ignore[arg-type]


def test_objects_bring_several_hooks() -> None:
    class Guard:
        def hooks(self) -> list[Hook]:
            return redactor("after_tool", "before_answer")

    @hook("before_tool", name="first")
    def one(event: Called, context: RunContext) -> None:
        return None

    assert [each.name for each in Agent(PromptModel(script=["x"]), hooks=[one, Guard()]).hooks] == [
        "first", "redact_after_tool", "redact_before_answer",
    ]  # fmt: skip


# ── time, cancelling, streaming ──────────────────────────────────────────────────────────────────


def test_a_hook_is_part_of_the_runs_time() -> None:
    result = agent(World(), [Hook("before_tool", sleeps)], max_execution_time=0.2).run("Pay Ada")
    assert result.stop_reason is StopReason.MAX_EXECUTION_TIME_EXCEEDED


@pytest.mark.parametrize("point", ["before_run", "before_model", "after_model", "before_tool", "before_answer"])
def test_a_run_is_cancelled_while_a_hook_waits(point: str) -> None:
    asyncio.run(cancel_at(point))


async def cancel_at(point: str) -> None:
    begun = asyncio.Event()

    async def waits(event: Any, context: Any) -> None:
        begun.set()
        await asyncio.sleep(60)

    run = agent(World(), [Hook(point, waits)]).start("Pay Ada")  # type: ignore[arg-type]
    task = asyncio.create_task(run.finish())
    await begun.wait()
    run.cancel()
    assert (await task).stop_reason is StopReason.CANCELLED


def test_a_call_that_was_made_is_in_the_log_when_its_hook_is_cancelled() -> None:
    asyncio.run(cancel_after_a_call())


async def cancel_after_a_call() -> None:
    begun = asyncio.Event()

    async def waits(event: Observed, context: Any) -> None:
        if event.observation.text.startswith("paid"):
            begun.set()
            await asyncio.sleep(60)

    world = World()
    paying = agent(world, [Hook("after_tool", waits)])
    run = paying.start("Pay Ada")
    task = asyncio.create_task(run.finish())
    await begun.wait()
    run.cancel()
    result = await task
    seen = [e.observation for e in result.events if isinstance(e, Observed)][-1]
    assert (seen.outcome, "withheld" in seen.text, SECRET in seen.text) == ("result", True, False)
    assert (await paying.resume_async(stored(result.events))).answered
    assert world.paid == ["Ada"]


@pytest.mark.parametrize("point", ["after_model", "before_answer"])
def test_nothing_is_streamed_that_a_hook_may_still_block(point: str) -> None:
    hooks = [Hook(point, lambda e, c: None)]  # type: ignore[arg-type]
    assert not [e for e in agent(World(), hooks).stream("Pay Ada") if isinstance(e, Delta)]
    others = [Hook("before_tool", lambda e, c: None)]
    assert [e for e in agent(World(), others).stream("Pay Ada") if isinstance(e, Delta)]


# ── replaying and forking ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", chains())
def test_a_run_replayed_under_its_hooks_agrees(name: str) -> None:
    human = lambda action, problem: Decision("approve")  # noqa: E731
    result = agent(World(), chains()[name], human=human).run(f"Pay Ada from {SECRET}")
    found = replay(agent(World(), chains()[name]), stored(result.events))
    assert found.differs is None, str(found.differs)
    assert untimed(found.events) == untimed(result.events)[: len(found.events)]


def number(log: Sequence[Event], kind: type, nth: int = 0) -> int:
    return [at for at, event in enumerate(log, 1) if isinstance(event, kind)][nth]


def test_a_replay_says_at_which_event_hooks_judge_otherwise() -> None:
    plain = agent(World(), ()).run("Pay Ada")
    gate = Hook("before_tool", lambda e, c: Block("no payments") if e.action.tool == "pay" else None, "gate")
    found = replay(agent(World(), [gate]), stored(plain.events)).differs
    assert found is not None
    assert found.event == number(plain.events, Called, 1)
    assert "calls pay" in found.recorded
    assert "the hook gate (before_tool): block no payments" in found.now

    gated = agent(World(), [gate]).run("Pay Ada")
    found = replay(agent(World(), ()), stored(gated.events)).differs
    assert found is not None
    assert found.event == number(gated.events, Judged)
    assert "calls pay" in found.now

    for point, kind in [("before_run", Started), ("before_model", Asked), ("after_model", Replied)]:
        found = replay(agent(World(), [Hook(point, lambda e, c: Block("x"), "new")]), stored(plain.events)).differs  # type: ignore[arg-type]
        assert found is not None
        assert "the hook new" in found.now
        assert found.event - number(plain.events, kind) in (0, 1), point
    for point, nth in [("after_tool", Observed), ("before_answer", Finished)]:
        found = replay(agent(World(), [Hook(point, lambda e, c: Block("x"), "new")]), stored(plain.events)).differs  # type: ignore[arg-type]
        assert found is not None
        assert found.event == number(plain.events, nth)
        assert "the hook new" in found.now


@pytest.mark.parametrize("point", [point for point in ALL if point != "before_tool"])  # whose input has no secret
def test_a_replay_without_the_hook_that_changed_something_differs_there(point: str) -> None:
    result = agent(World(), redactor(point)).run(f"Pay Ada from {SECRET}")
    found = replay(agent(World(), ()), stored(result.events)).differs
    assert found is not None, point
    assert found.event == number(result.events, Judged), str(found)


def test_a_hook_that_is_not_for_replays_is_not_called_in_one() -> None:
    calls: list[Any] = []

    def review(event: Any, context: Any) -> Any:
        calls.append(event)
        return change_of(event)

    hooks = [Hook(point, review, replays=False) for point in ALL]
    result = agent(World(), hooks).run(f"Pay Ada from {SECRET}")
    calls.clear()
    assert replay(agent(World(), hooks), stored(result.events)).agrees
    assert not calls


@pytest.mark.parametrize("name", ["changes", "blocks", "withholds", "asks before", "asks after"])
def test_a_fork_from_any_step_goes_on(name: str) -> None:
    human = lambda action, problem: Decision("approve")  # noqa: E731
    result = agent(World(), chains()[name], human=human).run(f"Pay Ada from {SECRET}")
    steps = {event.step for event in result.events if isinstance(event, Asked)}
    for step in range(max(steps)):
        other = fork(agent(World(), chains()[name], human=human, instructions="Be brief."), result, step)
        end = asyncio.run(other.finish())
        assert end.answer == result.answer, step


def test_the_prompt_of_a_fork_is_judged_in_its_new_words() -> None:
    result = agent(World(), redactor("before_model")).run("Pay Ada")
    other = fork(agent(World(), redactor("before_model")), result, 1, instructions=f"Our card is {SECRET}.")
    end = asyncio.run(other.finish())
    new = [e for e in end.events if isinstance(e, Asked)][1:]
    assert "Our card" in to_json(new[0])
    assert SECRET not in "".join(map(to_json, new))


# ── prompts ──────────────────────────────────────────────────────────────────────────────────────


class Reader:
    """A model that reads pages and then answers; it keeps the prompts that it was sent."""

    name = "reader"

    def __init__(self, *, native: bool, window: int | None) -> None:
        self.prompts: list[tuple[Message, ...]] = []
        self._able = Capabilities(calls_tools=native, window=window)

    async def abilities(self, *, native: bool = False) -> Capabilities:
        return self._able

    async def reply(self, request: Ask) -> Chunks:
        self.prompts.append(request.prompt.messages)
        usage = Usage(len(request.prompt.text) // 3, 9, 0, 1)
        number = str(len(self.prompts))
        if len(self.prompts) == 6:
            yield Reply("47" if self._able.calls_tools else "Thought: I know.\nFinal Answer: 47", usage)
        elif self._able.calls_tools:
            state = ProviderState("reader", f'{{"said": "{number} from {SECRET}"}}')
            action = AgentAction("page", {"number": f"{number} from {SECRET}"})
            yield Reply("", usage, calls=(action,), state=state)
        else:
            yield Reply(f"Thought: more\nAction: page\nAction Input: {number} from {SECRET}\n", usage)


def page(number: str) -> str:
    """Read a page."""
    return f"page {number} begins with {SECRET}. {'words and more words. ' * 40}page ends"


@pytest.mark.parametrize("strategy", ["react", "tool_calling"])
@pytest.mark.parametrize("window", [None, 1_600])
def test_each_message_is_judged_once_and_stays_changed_in_all_later_prompts(strategy: str, window: int | None) -> None:
    seen: list[str] = []

    def redact(event: Asked, context: Any) -> Any:
        seen.extend(one.content for one in event.messages)
        messages = tuple(
            replace(
                one,
                content=hide(one.content),
                calls=tuple(replace(call, tool_input=hide(call.tool_input)) for call in one.calls),
            )
            for one in event.messages
        )
        return None if messages == event.messages else Change(replace(event, messages=messages))

    def make(model: Reader) -> Agent:
        tools = [Tool("page", page, effects="read")]
        return Agent(model, tools, hooks=[Hook("before_model", redact)], strategy=strategy)

    model = Reader(native=strategy == "tool_calling", window=window)
    result = make(model).run(f"Read, from {SECRET}")
    assert result.answered
    assert len(model.prompts) == 6
    for prompt in model.prompts:
        assert SECRET not in "".join(f"{one.content} {one.calls} {one.state and one.state.turn}" for one in prompt)
    assert any(isinstance(event, Compacted) for event in result.events) == (window is not None)
    if window is None:
        assert len(seen) == len(model.prompts[-1])
        assert all(later[: len(one)] == one for one, later in zip(model.prompts, model.prompts[1:], strict=False))
    for cut in range(1, len(result.events)):
        kept = stored(result.events[:cut])
        if isinstance(kept[-1], Called):
            continue
        again = Reader(native=strategy == "tool_calling", window=window)
        again.prompts = model.prompts[: len([e for e in kept if isinstance(e, Replied)])]
        assert untimed(make(again).resume(kept).events) == untimed(result.events), cut


def test_a_member_has_hooks_of_its_own_and_its_caller_judges_only_the_call() -> None:
    seen: list[str] = []

    def note(event: Any, context: RunContext) -> None:
        seen.append(f"{context.agent} {type(event).__name__}")

    member = Agent(PromptModel(script=["47"]), name="clerk", hooks=[Hook("before_run", note)])
    boss = Agent(
        PromptModel(script=[{"call": {"tool": "clerk", "input": "How old?"}}, {"finish": "47"}]),
        [Tool("clerk", member, "knows ages")],
        name="boss",
        hooks=[Hook("before_tool", note), Hook("after_tool", note), Hook("before_run", note)],
    )
    assert boss.run("How old?").answered
    assert seen == ["boss Started", "boss Called", "clerk Started", "boss Observed"]


def test_a_hook_of_a_member_that_asks_a_person_parks_the_team() -> None:
    doubt = Hook("before_answer", lambda e, c: AskPerson("sure?"), "doubt")
    member = Agent(PromptModel(script=["47"]), name="clerk", hooks=[doubt])
    boss = Agent(
        PromptModel(script=[{"call": {"tool": "clerk", "input": "How old?"}}, {"finish": "done"}]),
        [Tool("clerk", member, "knows ages")],
    )
    result = boss.run("How old?")
    assert result.stop_reason is StopReason.AWAITING_HUMAN
    (waits,) = result.waiting
    assert (waits.tool, waits.tool_input) == ("before_answer", {"answer": "47"})
    children = {path: stored(log) for path, log in result.children.items()}
    end = boss.resume(stored(result.events), {waits.id: Decision("edit", {"answer": "48"})}, children=children)
    assert end.answered
    assert [e.observation.text for e in end.events if isinstance(e, Observed)] == ["48"]


def test_paused_questions_have_ids_of_their_own() -> None:
    human = lambda action, problem: Decision("approve")  # noqa: E731
    result = agent(World(), chains()["asks after"], human=human).run("Pay Ada")
    ids = [e.action.id for e in result.events if isinstance(e, Paused)]
    assert len(ids) == len(set(ids))
    assert "consult_call_1_0" in ids


def test_a_person_who_is_asked_about_a_request_does_not_see_the_operators_instructions() -> None:
    doubt = Hook("before_model", lambda e, c: AskPerson("sure?"), "doubt")
    model = PromptModel(script=[{"when": "", "say": "Hello."}])
    asking = Agent(model, instructions="Never say that we are broke.", hooks=[doubt])
    waits = asking.run("Good day")
    (call,) = waits.waiting
    assert "broke" not in str(call.tool_input)
    edited = Decision("edit", {"messages": ["Good morning"]})
    (asked,) = [one for one in asking.resume(waits.events, {call.id: edited}).events if isinstance(one, Asked)]
    assert [one.content for one in asked.messages if one.role != "system"] == ["Good morning"]
    assert any("broke" in one.content for one in asked.messages)
