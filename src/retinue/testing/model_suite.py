"""The contract of every model, whatever its engine: `retinue.core.protocols.Model`."""

from __future__ import annotations

import asyncio
import copy
import re
from contextlib import aclosing
from dataclasses import fields
from typing import get_args

from ..core.events import Delta
from ..core.grammar import Constraint, choice, regex
from ..core.protocols import Retry
from ..core.values import Capabilities, Finish, Message, Reply, Usage
from ..errors import ModelError, ModelRefused, ModelUnavailable, WindowExceeded
from .case import Case, cases, require, require_same, shown, skip
from .model_asks import (
    Chunk,
    ModelSubject,
    adding,
    cancelled_after_a_piece,
    cancelled_at_once,
    chunks_of,
    conversation,
    gone_after_a_piece,
    require_reply,
    whole_reply,
)

_SIDE_BY_SIDE = 8
_LOOKS = 100


def model_cases() -> tuple[Case[ModelSubject], ...]:
    """Return the conformance suite of a model, for `pytest.mark.parametrize("case", model_cases(), ids=str)`."""
    return cases(
        "model",
        the_last_item_is_the_reply,
        streamed_pieces_join_to_the_reply,
        stop_words_are_honoured,
        usage_is_counted,
        the_prompt_is_not_changed,
        a_conversation_with_calls_is_accepted,
        asks_side_by_side_are_independent,
        a_cancelled_ask_leaves_nothing_behind,
        any_event_loop_will_do,
        abilities_are_told,
        a_constraint_is_honoured,
        calls_have_names_inputs_and_ids,
        a_passing_failure_is_asked_again,
        a_refusal_is_final,
        an_engine_that_is_away_is_unavailable,
        a_prompt_that_is_too_long_is_told_apart,
        a_secret_is_not_shown,
    )


# ── replies ──────────────────────────────────────────────────────────────────────────────────────


async def the_last_item_is_the_reply(subject: ModelSubject) -> None:
    """`reply` yields deltas (`Delta`) and retries (`Retry`), and finally one complete `Reply`."""
    seen = await chunks_of(subject.make(), subject.ask())
    require(seen, "nothing was yielded; want a Reply")
    for at, chunk in enumerate(seen):
        require(isinstance(chunk, Delta | Retry | Reply), f"item {at} is {shown(chunk)}; want a Delta, Retry or Reply")
        require(isinstance(chunk, Reply) == (at == len(seen) - 1), f"item {at} of {len(seen)} is {shown(chunk)}")
    reply = seen[-1]
    assert isinstance(reply, Reply)
    require(isinstance(reply.text, str), f"the reply's text is {shown(reply.text)}; want a str")
    require(reply.finish in get_args(Finish), f"finish is {reply.finish!r}; want one of {', '.join(get_args(Finish))}")


async def streamed_pieces_join_to_the_reply(subject: ModelSubject) -> None:
    """The deltas since the last `Retry`, joined, are the text of the reply. A model need not stream."""
    await whole_reply(subject.make(), subject.ask())


async def stop_words_are_honoured(subject: ModelSubject) -> None:
    """A reply ends before any of the stop words, and no delta shows one, whether or not the engine supports them."""
    model = subject.make()
    words = (await whole_reply(model, subject.ask())).text.split()
    require(len(words) > 1, f"without stop words the reply is {shown(words)}; want at least two words to stop at one")
    for stop in ((words[-1],), ("\nNo such line:", words[1])):
        reply = await whole_reply(model, subject.ask(stop=stop))
        found = [word for word in stop if word in reply.text]
        require(not found, f"asked to stop before {found}, it says {shown(reply.text)}")


async def usage_is_counted(subject: ModelSubject) -> None:
    """A reply's usage is its own: at least one request, no negative number, no more cached than read tokens."""
    model = subject.make()
    first, second = [(await whole_reply(model, subject.ask())).usage for _ in range(2)]
    for usage in (first, second):
        require(isinstance(usage, Usage), f"usage is {shown(usage)}; want a Usage")
        low = [one.name for one in fields(usage) if getattr(usage, one.name) < 0]
        require(not low, f"{low} is below 0: {usage}")
        require(usage.requests >= 1, f"a reply takes at least one request: {usage}")
        require(usage.cached_tokens <= usage.input_tokens, f"more tokens are cached than were read: {usage}")
    added = second.requests >= 2 * first.requests and second.output_tokens >= 2 * max(first.output_tokens, 1)
    require(not added, f"the second reply counts the first one, too: {first}, then {second}")


async def the_prompt_is_not_changed(subject: ModelSubject) -> None:
    """A request is not modified: neither its messages, nor the inputs of their calls, nor the options."""
    request = subject.ask(conversation(), tools=(adding(),), tool_choice="none", options={"temperature": 0.0})
    asked = [*request.prompt.messages, request.options, request.tools[0].signature.parameters]
    before = copy.deepcopy(asked)
    await chunks_of(subject.make(), request)
    require_same(before, asked, "before and after")


async def a_conversation_with_calls_is_accepted(subject: ModelSubject) -> None:
    """A conversation may have a system message, several calls in one turn with their results, and any text."""
    odd = conversation().add(Message("assistant", "3 and 7."), Message("user", "Say it again: é 🙂 \ud800 \x00"))
    for prompt in (conversation(), odd):
        await whole_reply(subject.make(), subject.ask(prompt, tools=(adding(),), tool_choice="none"))


# ── several asks ─────────────────────────────────────────────────────────────────────────────────


async def asks_side_by_side_are_independent(subject: ModelSubject) -> None:
    """One model may be asked many times at once; each reply is complete, and each request has its own stop words."""
    model = subject.make()
    words = (await whole_reply(model, subject.ask())).text.split()
    stops = [(word,) for word in dict.fromkeys(words)][:_SIDE_BY_SIDE]
    asks = [subject.ask(stop=stop) for stop in (*stops, *[()] * (_SIDE_BY_SIDE - len(stops)))]
    for request, reply in zip(asks, await asyncio.gather(*(whole_reply(model, one) for one in asks)), strict=True):
        require(not any(stop in reply.text for stop in request.stop), f"{request.stop} is in {shown(reply.text)}")
        require(request.stop or reply.text, "a reply to which nobody gave a stop word is empty")


async def a_cancelled_ask_leaves_nothing_behind(subject: ModelSubject) -> None:
    """A request that is cancelled, or whose reader leaves, ends at once: no task and no connection remains, and the
    next request is answered.
    """
    model, before = subject.make(), asyncio.all_tasks()
    await whole_reply(model, subject.ask())
    for give_up in (gone_after_a_piece, cancelled_after_a_piece, cancelled_at_once):
        await give_up(model, subject.ask("Count from one to one thousand, in words."))
        left = asyncio.all_tasks() - before
        require(not left, f"tasks are left: {', '.join(task.get_name() for task in left)}")
    for _ in range(_LOOKS):  # the engine notices a little later
        if subject.connections is None or subject.connections() <= 1:
            break
        await asyncio.sleep(0.01)
    count = subject.connections() if subject.connections is not None else 0
    require(count <= 1, f"the engine has {count} connections open; want at most one, for the next ask")
    require((await whole_reply(model, subject.ask())).text, "the ask after it has an empty reply")


async def any_event_loop_will_do(subject: ModelSubject) -> None:
    """A model may be asked from different event loops in turn, as scripts and servers do."""
    model = subject.make()
    for _ in range(2):
        await asyncio.to_thread(lambda: asyncio.run(whole_reply(model, subject.ask())))
    await whole_reply(model, subject.ask())


# ── what it can do ───────────────────────────────────────────────────────────────────────────────


async def abilities_are_told(subject: ModelSubject) -> None:
    """A model has a name and reports its capabilities; if native calls do not work, it says what happened instead."""
    model = subject.make()
    require(isinstance(model.name, str) and model.name, f"name is {shown(model.name)}; want a text")
    able, native = await model.abilities(), await (subject.calls or subject.make)().abilities(native=True)
    for one in (able, native):
        require(isinstance(one, Capabilities), f"abilities() gives {shown(one)}; want Capabilities")
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
    text = (await whole_reply(model, subject.ask("Is water wet? Answer in French.", constraint=constraint))).text
    require(re.fullmatch(regex(constraint.pattern), text), f"held to yes or no, it says {shown(text)}")


async def calls_have_names_inputs_and_ids(subject: ModelSubject) -> None:
    """A native call names a tool that was offered, has its values by name as a dict, and has a unique id."""
    if subject.calls is None:
        skip("ModelSubject.calls is not given")
    reply = await whole_reply(
        subject.calls(), subject.ask("What is 19 + 23?", tools=(adding(),), tool_choice="required")
    )
    require(reply.calls, f"it must call a tool, and says {shown(reply.text)}")
    for call in reply.calls:
        require(call.tool == "add", f"it was offered add, and calls {call.tool!r}")
        require(isinstance(call.tool_input, dict), f"the call's input is {shown(call.tool_input)}; want a dict")
    ids = [call.id for call in reply.calls]
    require(all(ids) and len(set(ids)) == len(ids), f"the calls' ids are {ids}; want one for each, all different")


# ── failures ─────────────────────────────────────────────────────────────────────────────────────


async def _failure(subject: ModelSubject, what: str) -> tuple[ModelError, list[Retry]]:
    """Return the error that a request raises, and the retries before it."""
    make = getattr(subject, what)
    if make is None:
        skip(f"ModelSubject.{what} is not given")
    seen: list[Chunk] = []
    try:
        async with aclosing(make().reply(subject.ask())) as chunks:
            async for chunk in chunks:
                seen.append(chunk)  # noqa: PERF401 -- those before the error count
    except ModelError as error:
        require(str(error), f"a {type(error).__name__} without a message")
        return error, [one for one in seen if isinstance(one, Retry)]
    raise AssertionError(f"want a ModelError, it replied: {shown(seen[-1:])}")


async def a_passing_failure_is_asked_again(subject: ModelSubject) -> None:
    """After a transient failure the engine is asked again. A `Retry` announces it and voids what was streamed."""
    if subject.flaky is None:
        skip("ModelSubject.flaky is not given")
    seen = await chunks_of(subject.flaky(), subject.ask())
    retries = [one for one in seen if isinstance(one, Retry)]
    require(retries, "it was asked again without a Retry")
    require(all(one.problem and one.seconds >= 0 for one in retries), f"want a problem and seconds: {shown(retries)}")
    require_reply(seen)


async def a_refusal_is_final(subject: ModelSubject) -> None:
    """A refusal by the engine is raised as `ModelRefused` at once, without retries."""
    error, retries = await _failure(subject, "refused")
    require(isinstance(error, ModelRefused), f"want a ModelRefused, not {error!r}")
    require(not retries, f"a refused request was repeated {len(retries)} times")


async def an_engine_that_is_away_is_unavailable(subject: ModelSubject) -> None:
    """An unreachable engine raises `ModelUnavailable`, after retries that were announced with their reason."""
    error, retries = await _failure(subject, "unavailable")
    require(isinstance(error, ModelUnavailable), f"want a ModelUnavailable, not {error!r}")
    assert isinstance(error, ModelUnavailable)
    wait = error.retry_after
    require(wait is None or wait >= 0, f"retry_after is {wait!r}; want seconds, or None")
    require(all(one.problem and one.seconds >= 0 for one in retries), f"want a problem and seconds: {shown(retries)}")


async def a_prompt_that_is_too_long_is_told_apart(subject: ModelSubject) -> None:
    """A prompt that is too long for the model raises `WindowExceeded`, so that it can be shortened and sent again."""
    error, retries = await _failure(subject, "too_long")
    require(isinstance(error, WindowExceeded), f"want a WindowExceeded, not {error!r}")
    require(not retries, f"a prompt that is too long was sent {len(retries)} times more")


async def a_secret_is_not_shown(subject: ModelSubject) -> None:
    """No `repr` of the model, and no error that it raises, contains its key."""
    if not subject.secret:
        skip("ModelSubject.secret is not given")
    require(subject.secret not in repr(subject.make()), "repr(model) has the key in it")
    for what in ("refused", "unavailable", "too_long"):
        if getattr(subject, what) is not None:
            error, _ = await _failure(subject, what)
            require(subject.secret not in f"{error} {error!r}", f"a {type(error).__name__} has the key in it")
