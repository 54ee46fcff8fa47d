"""The contract of every model, whatever its engine: `retinue.core.protocols.Model`."""

from __future__ import annotations

import asyncio
import copy
import re
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, fields
from typing import Any, get_args

from ..core.events import Delta
from ..core.prompt import Ask, Decided, Prompt
from ..core.protocols import Model, Retry
from ..core.schema.patterns import Constraint, choice, print_regex
from ..core.tools.tool import Tool
from ..core.values import AgentAction, AgentFinish, Capabilities, Finish, Message, Reply, Usage
from ..errors import ModelError, ModelRefused, ModelUnavailable, WindowExceeded
from .case import (
    Case,
    call_in_several_loops,
    collect_cases,
    format_value,
    need,
    require,
    require_cancelled,
    require_no_new_tasks,
    require_same,
    skip,
)

Make = Callable[[], Model]
Chunk = Delta | Retry | Reply
_SIDE_BY_SIDE = 8
_LOOKS = 100  # for connections that are closing


@dataclass(frozen=True, slots=True)
class ModelSubject:
    """A model under test. Cases that lack an input they need are skipped.

    Args:
        make: Returns a new model, whose engine answers any prompt with a text of at least two words. A real engine
            does; a stand-in says the same text each time, and where it is sent a constraint, one of `yes` and `no`.
        calls: Returns a new model, whose engine calls a tool that it is offered and must use.
        refused: Returns a new model, all of whose requests the engine refuses, e.g. for a wrong key.
        flaky: Returns a new model, whose engine has one transient failure (503, a broken connection), and then answers.
        unavailable: Returns a new model, whose engine cannot be reached. It should not wait long between its tries.
        too_long: Returns a new model, for which any prompt is too long.
        connections: Returns how many connections the engine has open at this moment.
        max_tokens: Limit for each reply to the suite's requests. Reasoning models need more.
        secret: The key that these are made with; it may not appear in any `repr` or error.
    """

    make: Make
    calls: Make | None = None
    refused: Make | None = None
    flaky: Make | None = None
    unavailable: Make | None = None
    too_long: Make | None = None
    connections: Callable[[], int] | None = None
    max_tokens: int = 256
    secret: str = field(default="", repr=False)

    def ask(self, prompt: str | Prompt = "Say hello in five words.", **more: Any) -> Ask:
        """Return the loop's request for `prompt`, with `more` as in `Ask`."""
        prompt = Prompt(Message("user", prompt)) if isinstance(prompt, str) else prompt
        return Ask(prompt, prompt.message.content, _write_decision, max_tokens=self.max_tokens, **more)


def _write_decision(decided: Decided) -> Reply:
    return Reply(decided.output) if isinstance(decided, AgentFinish) else Reply("", calls=decided)


async def _read_chunks(model: Model, request: Ask) -> list[Chunk]:
    """Return everything that `model` yields."""
    async with aclosing(model.reply(request)) as chunks:
        return [chunk async for chunk in chunks]


async def _read_reply(model: Model, request: Ask) -> Reply:
    """Return the whole reply, which must equal the streamed text."""
    return _require_reply(await _read_chunks(model, request))


def _require_reply(seen: Sequence[Chunk]) -> Reply:
    """Return the reply at the end of a model's output. Raises `AssertionError` unless it equals the streamed text."""
    last = seen[-1] if seen else None
    require(isinstance(last, Reply), f"want a Reply as the last item, not {format_value(last)}")
    assert isinstance(last, Reply)
    after = max((at for at, chunk in enumerate(seen, 1) if isinstance(chunk, Retry)), default=0)
    pieces = [chunk.text for chunk in seen[after:] if isinstance(chunk, Delta)]
    text = "".join(pieces) if pieces else last.text  # it need not stream
    require(text == last.text, f"the pieces make {format_value(text)}, the reply is {format_value(last.text)}")
    return last


def _add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


ADD = Tool("add", _add, effects="read")


def _make_conversation() -> Prompt:
    """Return a conversation with two tool calls in one turn, which the model should now answer."""
    calls = (AgentAction("add", {"a": 1, "b": 2}, id="call_1_0"), AgentAction("add", {"a": 3, "b": 4}, id="call_1_1"))
    return Prompt(Message("system", "Be brief.")).add(
        Message("user", "What are 1 + 2 and 3 + 4? Answer in a whole sentence."),
        Message("assistant", "I add them.", calls),
        Message("tool", "3", call_id="call_1_0", tool="add"),
        Message("tool", "7", call_id="call_1_1", tool="add"),
    )


async def _leave_after_a_piece(model: Model, request: Ask) -> None:
    """The reader leaves after the first piece."""
    async with aclosing(model.reply(request)) as chunks:
        await anext(chunks)


async def _cancel_after_a_piece(model: Model, request: Ask) -> None:
    """The reader's task is cancelled after the first piece."""
    begun = asyncio.Event()

    async def read() -> None:
        async with aclosing(model.reply(request)) as chunks:
            async for _ in chunks:
                begun.set()
                await asyncio.Event().wait()

    task = asyncio.ensure_future(read())
    await begun.wait()
    await require_cancelled(task)


async def _cancel_at_once(model: Model, request: Ask) -> None:
    """The reader's task is cancelled before anything arrives."""
    task = asyncio.ensure_future(_read_chunks(model, request))
    await asyncio.sleep(0)  # it has started, and waits for its engine
    if not task.done():
        await require_cancelled(task)


def model_cases() -> tuple[Case[ModelSubject], ...]:
    """Return the conformance suite of a model, for `pytest.mark.parametrize("case", model_cases(), ids=str)`."""
    return collect_cases("model", globals())


async def the_last_item_is_the_reply(subject: ModelSubject) -> None:
    """`reply` yields deltas (`Delta`) and retries (`Retry`), and finally one complete `Reply`."""
    seen = await _read_chunks(subject.make(), subject.ask())
    require(seen, "nothing was yielded; want a Reply")
    for at, chunk in enumerate(seen):
        known = isinstance(chunk, Delta | Retry | Reply)
        require(known, f"item {at} is {format_value(chunk)}; want a Delta, Retry or Reply")
        require(isinstance(chunk, Reply) == (at == len(seen) - 1), f"item {at} of {len(seen)} is {format_value(chunk)}")
    reply = seen[-1]
    assert isinstance(reply, Reply)
    require(isinstance(reply.text, str), f"the reply's text is {format_value(reply.text)}; want a str")
    require(reply.finish in get_args(Finish), f"finish is {reply.finish!r}; want one of {', '.join(get_args(Finish))}")


async def streamed_pieces_join_to_the_reply(subject: ModelSubject) -> None:
    """The deltas since the last `Retry`, joined, are the text of the reply. A model need not stream."""
    await _read_reply(subject.make(), subject.ask())


async def stop_words_are_honoured(subject: ModelSubject) -> None:
    """A reply ends before any of the stop words, and no delta shows one, whether or not the engine supports them."""
    model = subject.make()
    words = (await _read_reply(model, subject.ask())).text.split()
    enough = len(words) > 1
    require(enough, f"without stop words the reply is {format_value(words)}; want at least two words to stop at one")
    for stop in ((words[-1],), ("\nNo such line:", words[1])):
        reply = await _read_reply(model, subject.ask(stop=stop))
        found = [word for word in stop if word in reply.text]
        require(not found, f"asked to stop before {found}, it says {format_value(reply.text)}")


async def usage_is_counted(subject: ModelSubject) -> None:
    """A reply's usage is its own: at least one request, no negative number, no more cached than read tokens."""
    model = subject.make()
    first, second = [(await _read_reply(model, subject.ask())).usage for _ in range(2)]
    for usage in (first, second):
        require(isinstance(usage, Usage), f"usage is {format_value(usage)}; want a Usage")
        low = [one.name for one in fields(usage) if getattr(usage, one.name) < 0]
        require(not low, f"{low} is below 0: {usage}")
        require(usage.requests >= 1, f"a reply takes at least one request: {usage}")
        require(usage.cached_tokens <= usage.input_tokens, f"more tokens are cached than were read: {usage}")
    added = second.requests >= 2 * first.requests and second.output_tokens >= 2 * max(first.output_tokens, 1)
    require(not added, f"the second reply counts the first one, too: {first}, then {second}")


async def the_prompt_is_not_changed(subject: ModelSubject) -> None:
    """A request is not modified: neither its messages, nor the inputs of their calls, nor the options."""
    request = subject.ask(_make_conversation(), tools=(ADD,), tool_choice="none", options={"temperature": 0.0})
    asked = [*request.prompt.messages, request.options, request.tools[0].signature.parameters]
    before = copy.deepcopy(asked)
    await _read_chunks(subject.make(), request)
    require_same(before, asked, "before and after")


async def a_conversation_with_calls_is_accepted(subject: ModelSubject) -> None:
    """A conversation may have a system message, several calls in one turn with their results, and any text."""
    odd = _make_conversation().add(Message("assistant", "3 and 7."), Message("user", "Say it again: é 🙂 \ud800 \x00"))
    for prompt in (_make_conversation(), odd):
        await _read_reply(subject.make(), subject.ask(prompt, tools=(ADD,), tool_choice="none"))


async def asks_side_by_side_are_independent(subject: ModelSubject) -> None:
    """One model may be asked many times at once; each reply is complete, and each request has its own stop words."""
    model = subject.make()
    words = (await _read_reply(model, subject.ask())).text.split()
    stops = [(word,) for word in dict.fromkeys(words)][:_SIDE_BY_SIDE]
    asks = [subject.ask(stop=stop) for stop in (*stops, *[()] * (_SIDE_BY_SIDE - len(stops)))]
    for request, reply in zip(asks, await asyncio.gather(*(_read_reply(model, one) for one in asks)), strict=True):
        found = any(stop in reply.text for stop in request.stop)
        require(not found, f"{request.stop} is in {format_value(reply.text)}")
        require(request.stop or reply.text, "a reply to which nobody gave a stop word is empty")


async def a_cancelled_ask_leaves_nothing_behind(subject: ModelSubject) -> None:
    """A request that is cancelled, or whose reader leaves, ends at once: no task and no connection remains, and the
    next request is answered."""
    model, before = subject.make(), asyncio.all_tasks()
    await _read_reply(model, subject.ask())
    for give_up in (_leave_after_a_piece, _cancel_after_a_piece, _cancel_at_once):
        await give_up(model, subject.ask("Count from one to one thousand, in words."))
        require_no_new_tasks(before, "tasks are left")
    for _ in range(_LOOKS):  # the engine notices a little later
        if subject.connections is None or subject.connections() <= 1:
            break
        await asyncio.sleep(0.01)
    count = subject.connections() if subject.connections is not None else 0
    require(count <= 1, f"the engine has {count} connections open; want at most one, for the next ask")
    require((await _read_reply(model, subject.ask())).text, "the ask after it has an empty reply")


async def any_event_loop_will_do(subject: ModelSubject) -> None:
    """A model may be asked from different event loops in turn, as scripts and servers do."""
    model = subject.make()
    await call_in_several_loops(lambda: _read_reply(model, subject.ask()))


async def abilities_are_told(subject: ModelSubject) -> None:
    """A model has a name and reports its capabilities; if native calls do not work, it says what happened instead."""
    model = subject.make()
    require(isinstance(model.name, str) and model.name, f"name is {format_value(model.name)}; want a text")
    able, native = await model.abilities(), await (subject.calls or subject.make)().abilities(native=True)
    for one in (able, native):
        require(isinstance(one, Capabilities), f"abilities() gives {format_value(one)}; want Capabilities")
        require(one.window is None or one.window > 0, f"the window is {one.window!r} tokens; want more than 0, or None")
    require(native.calls_tools or native.problem, "calls_tools is false, and problem does not say why")
    require(not (native.calls_tools and native.problem), f"calls_tools is true, with the problem {native.problem!r}")
    require(native.calls_tools or subject.calls is None, f"its calls do not work: {native.problem}")


async def a_constraint_is_honoured(subject: ModelSubject) -> None:
    """A model whose abilities include `constrains` replies only with what the pattern allows."""
    model = subject.make()
    if not (await model.abilities()).constrains:
        skip("this model cannot be held to a pattern (its abilities say so)")
    schema = {"type": "string", "enum": ["yes", "no"]}
    constraint = Constraint(choice("yes", "no"), schema)
    text = (await _read_reply(model, subject.ask("Is water wet? Answer in French.", constraint=constraint))).text
    require(re.fullmatch(print_regex(constraint.pattern), text), f"held to yes or no, it says {format_value(text)}")


async def calls_have_names_inputs_and_ids(subject: ModelSubject) -> None:
    """A native call names a tool that was offered, has its values by name as a dict, and has a unique id."""
    model = need(subject, "calls")()
    request = subject.ask("What is 19 + 23?", tools=(ADD,), tool_choice="required")
    reply = await _read_reply(model, request)
    require(reply.calls, f"it must call a tool, and says {format_value(reply.text)}")
    for call in reply.calls:
        require(call.tool == "add", f"it was offered add, and calls {call.tool!r}")
        require(isinstance(call.tool_input, dict), f"the call's input is {format_value(call.tool_input)}; want a dict")
    ids = [call.id for call in reply.calls]
    require(all(ids) and len(set(ids)) == len(ids), f"the calls' ids are {ids}; want one for each, all different")


async def _read_failure(subject: ModelSubject, what: str) -> tuple[ModelError, list[Retry]]:
    """Return the error that a request raises, and the retries before it."""
    seen: list[Chunk] = []
    try:
        async with aclosing(need(subject, what)().reply(subject.ask())) as chunks:
            async for chunk in chunks:
                seen.append(chunk)  # noqa: PERF401 -- those before the error count
    except ModelError as error:
        require(str(error), f"a {type(error).__name__} without a message")
        return error, _find_retries(seen)
    raise AssertionError(f"want a ModelError, it replied: {format_value(seen[-1:])}")


def _find_retries(seen: Sequence[Chunk]) -> list[Retry]:
    retries = [one for one in seen if isinstance(one, Retry)]
    told = all(one.problem and one.seconds >= 0 for one in retries)
    require(told, f"want a problem and seconds: {format_value(retries)}")
    return retries


async def a_passing_failure_is_asked_again(subject: ModelSubject) -> None:
    """After a transient failure the engine is asked again. A `Retry` announces it and voids what was streamed."""
    seen = await _read_chunks(need(subject, "flaky")(), subject.ask())
    require(_find_retries(seen), "it was asked again without a Retry")
    _require_reply(seen)


async def a_refusal_is_final(subject: ModelSubject) -> None:
    """A refusal by the engine is raised as `ModelRefused` at once, without retries."""
    error, retries = await _read_failure(subject, "refused")
    require(isinstance(error, ModelRefused), f"want a ModelRefused, not {error!r}")
    require(not retries, f"a refused request was repeated {len(retries)} times")


async def an_engine_that_is_away_is_unavailable(subject: ModelSubject) -> None:
    """An unreachable engine raises `ModelUnavailable`, after retries that were announced with their reason."""
    error, _ = await _read_failure(subject, "unavailable")
    require(isinstance(error, ModelUnavailable), f"want a ModelUnavailable, not {error!r}")
    assert isinstance(error, ModelUnavailable)
    wait = error.retry_after
    require(wait is None or wait >= 0, f"retry_after is {wait!r}; want seconds, or None")


async def a_prompt_that_is_too_long_is_told_apart(subject: ModelSubject) -> None:
    """A prompt that is too long for the model raises `WindowExceeded`, so that it can be shortened and sent again."""
    error, retries = await _read_failure(subject, "too_long")
    require(isinstance(error, WindowExceeded), f"want a WindowExceeded, not {error!r}")
    require(not retries, f"a prompt that is too long was sent {len(retries)} times more")


async def a_secret_is_not_shown(subject: ModelSubject) -> None:
    """No `repr` of the model, and no error that it raises, contains its key."""
    secret = need(subject, "secret")
    require(secret not in repr(subject.make()), "repr(model) has the key in it")
    for what in ("refused", "unavailable", "too_long"):
        if getattr(subject, what) is not None:
            error, _ = await _read_failure(subject, what)
            require(secret not in f"{error} {error!r}", f"a {type(error).__name__} has the key in it")
