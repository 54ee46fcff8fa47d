"""Every engine keeps to the contract of a model, and the suite that says so finds models that do not."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from fakes.engines import ENGINES, model
from fakes.scripted_server import Answer, Request, ScriptedServer, failure
from retinue import Delta, ModelError, ModelRefused, ModelUnavailable, PromptModel
from retinue.core.prompt import Ask
from retinue.core.protocols import Chunks, Model, Retry
from retinue.core.values import AgentAction, Capabilities, Reply, Usage
from retinue.errors import WindowExceeded
from retinue.models.reply_limits import limit_replies
from retinue.net.retry import Retries
from retinue.testing import Case, ModelSubject, model_cases

KEY = "sk-very-secret-" + "x" * 20
TWICE = Retries(tries=2, first_wait=0.001)
TEXT = "Good morning to all of you"


TOO_LONG = {  # Ollama does not say
    "openai": failure(400, "This model's maximum context length is 4 tokens.", code="context_length_exceeded"),
    "vllm": failure(400, "This model's maximum context length is 4 tokens. However, you requested 9", code="400"),
    "tgi": failure(422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4. Given: 9"),
    "llamacpp": failure(400, "the request exceeds the available context size", code="exceed_context_size_error"),
    "huggingface": failure(422, "Input validation error: `inputs` must have less than 4 tokens. Given: 9"),
    "anthropic": failure(400, "prompt is too long: 9 tokens > 4 maximum"),
    "gemini": failure(400, "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576)."),
    "cohere": failure(400, "too many tokens: size limit exceeded by 5 tokens."),
}


def says(request: Request, *, stream: bool = True) -> Answer:
    """What the stand-ins answer: a call where a tool must be called, `yes` to a pattern, else a text.

    A long reply, if it is streamed, stops in the middle: whoever gives it up must let go of the connection.
    """
    body, chosen = request.flat, str(request.body.get("tool_choice", request.body.get("toolConfig", ""))).lower()
    if body.get("tools") and "none" not in chosen:
        return Answer(calls=[("add", {"a": 19, "b": 23})])
    if stream and "thousand" in str(body):
        return Answer("word " * 400, cut=2000, then="hang")
    held = body.keys() & {"grammar", "structured_outputs", "response_format", "responseJsonSchema"}
    return Answer("yes" if held else TEXT)


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Iterator[ScriptedServer]:
    with ENGINES[request.param]() as server:
        server.api_key = KEY
        yield server


def too_long(server: ScriptedServer, **settings: Any) -> PromptModel:
    server.replies[:] = [TOO_LONG[server.engine]]
    return model(server, **settings)


def flaky(server: ScriptedServer, **settings: Any) -> PromptModel:
    server.replies[:] = [Answer(TEXT, cut=90)]
    return model(server, **settings)


@pytest.mark.matrix
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("case", model_cases(), ids=str)
def test_an_engine_keeps_to_the_contract(engine: ScriptedServer, case: Case[ModelSubject], stream: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        nowhere = "http://{}:{}".format(*unused.getsockname())
    settings: dict[str, Any] = {"stream": stream, "api_key": KEY}
    engine.always = partial(says, stream=stream)
    subject = ModelSubject(
        lambda: model(engine, **settings),
        calls=lambda: model(engine, **settings),
        flaky=lambda: flaky(engine, **settings),
        refused=lambda: model(engine, **settings | {"api_key": KEY[:-1]}),
        unavailable=lambda: PromptModel("m", engine=engine.engine, base_url=nowhere, retries=TWICE, **settings),
        too_long=(lambda: too_long(engine, **settings)) if engine.engine in TOO_LONG else None,
        connections=lambda: engine.connections,
        secret=KEY,
    )
    case.run(subject)


# ── models that break it ─────────────────────────────────────────────────────────────────────────


class Honest:
    """Keeps to the contract; each of those below breaks it in one way."""

    name = "own"
    text = TEXT
    held = "yes"
    error: ModelError | None = None
    able = Capabilities(constrains=True, calls_tools=True)

    async def abilities(self, *, native: bool = False) -> Capabilities:
        return self.able

    async def reply(self, request: Ask) -> Chunks:
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        calls = self.calls(request) if request.tools and request.tool_choice != "none" else ()
        text = self.stopped(self.held if request.constraint else "" if calls else self.text, request)
        for at in range(0, len(text), 4):
            yield Delta(text[at : at + 4])
            await asyncio.sleep(0)
        yield Reply(text, Usage(2, 6, 1, 1), calls=calls)

    def calls(self, request: Ask) -> tuple[AgentAction, ...]:
        return (AgentAction("add", {"a": 19, "b": 23}, id="call_1"),)

    def stopped(self, text: str, request: Ask) -> str:
        return text[: min([text.find(stop) for stop in request.stop if stop in text], default=len(text))]


class Mumbling(Honest):
    """Says more than it showed."""

    async def reply(self, request: Ask) -> Chunks:
        async for chunk in super().reply(request):
            yield replace(chunk, text=f"{chunk.text}!") if isinstance(chunk, Reply) else chunk


class Endless(Honest):
    """Goes on after the reply."""

    async def reply(self, request: Ask) -> Chunks:
        async for chunk in super().reply(request):
            yield chunk
        yield Delta("and more")


class Deaf(Honest):
    """Heeds no stop words."""

    def stopped(self, text: str, request: Ask) -> str:
        return text


class Counting(Honest):
    """Counts all its replies together."""

    def __init__(self) -> None:
        self.used = Usage()

    async def reply(self, request: Ask) -> Chunks:
        async for chunk in super().reply(request):
            if isinstance(chunk, Reply):
                self.used += chunk.usage
                yield replace(chunk, usage=self.used)
            else:
                yield chunk


class Negative(Honest):
    """Counts backwards."""

    async def reply(self, request: Ask) -> Chunks:
        async for chunk in super().reply(request):
            yield replace(chunk, usage=Usage(-1, 1, 0, 1)) if isinstance(chunk, Reply) else chunk


class Meddling(Honest):
    """Takes what it is asked apart."""

    async def reply(self, request: Ask) -> Chunks:
        for message in request.prompt.messages:
            for call in message.calls:
                assert isinstance(call.tool_input, dict)
                call.tool_input.clear()
        async for chunk in super().reply(request):
            yield chunk


class Narrow(Honest):
    """Takes only what fits into UTF-8."""

    async def reply(self, request: Ask) -> Chunks:
        request.prompt.text.encode()
        async for chunk in super().reply(request):
            yield chunk


class Shared(Honest):
    """Keeps the stop words of its last ask."""

    stop: tuple[str, ...] = ()

    async def reply(self, request: Ask) -> Chunks:
        self.stop = request.stop
        async for chunk in super().reply(request):
            yield chunk

    def stopped(self, text: str, request: Ask) -> str:
        return super().stopped(text, replace(request, stop=self.stop))


class Littering(Honest):
    """Leaves a task behind when its reader goes away."""

    async def reply(self, request: Ask) -> Chunks:
        task = asyncio.ensure_future(asyncio.Event().wait())
        async for chunk in super().reply(request):
            yield chunk
        task.cancel()


class Stubborn(Honest):
    """Is not to be cancelled."""

    async def reply(self, request: Ask) -> Chunks:
        try:
            await asyncio.sleep(0)
            async for chunk in super().reply(request):
                yield chunk
        except asyncio.CancelledError:
            yield Reply("nevertheless")


class Rooted(Honest):
    """Belongs to the first loop that it was asked from."""

    lock: asyncio.Lock | None = None
    loop: Any = None

    async def reply(self, request: Ask) -> Chunks:
        self.loop = self.loop or asyncio.get_running_loop()
        if self.loop is not asyncio.get_running_loop():
            raise RuntimeError("attached to a different loop")
        async for chunk in super().reply(request):
            yield chunk


class Boasting(Honest):
    able = Capabilities(calls_tools=True, problem="it answered in words")


class Silent(Honest):
    able = Capabilities()


class Free(Honest):
    held = "perhaps"


class Repeating(Honest):
    def calls(self, request: Ask) -> tuple[AgentAction, ...]:
        return (AgentAction("add", {"a": 1, "b": 1}, id="1"), AgentAction("add", {"a": 2, "b": 2}, id="1"))


class Guessing(Honest):
    def calls(self, request: Ask) -> tuple[AgentAction, ...]:
        return (AgentAction("sum", {}, id="1"),)


class Refused(Honest):
    error = ModelRefused("no such model")


class Away(Honest):
    error = ModelUnavailable("cannot connect")


class TooLong(Honest):
    error = WindowExceeded("at most 4 tokens")


class Insisting(Refused):
    """Asks again what was refused."""

    async def reply(self, request: Ask) -> Chunks:
        yield Retry("no such model", 0.0)
        async for chunk in super().reply(request):
            yield chunk


class Telling(Refused):
    error = ModelRefused(f"wrong key: {KEY}")


class Crashing(Honest):
    """Lets an error of its client out."""

    async def reply(self, request: Ask) -> Chunks:
        raise ConnectionError("refused")
        yield


class Flaky(Honest):
    """Says half of it, and then begins anew."""

    async def reply(self, request: Ask) -> Chunks:
        yield Delta("Good mor")
        yield Retry("broke off", 0.0)
        async for chunk in super().reply(request):
            yield chunk


class Joining(Honest):
    """Begins anew, and says nothing of that."""

    async def reply(self, request: Ask) -> Chunks:
        yield Delta("Good mor")
        async for chunk in super().reply(request):
            yield chunk


class Muddling(Flaky):
    """Begins anew, and counts the half that it said before to its reply."""

    async def reply(self, request: Ask) -> Chunks:
        async for chunk in super().reply(request):
            yield replace(chunk, text=f"Good mor{chunk.text}") if isinstance(chunk, Reply) else chunk


OWN = ModelSubject(Honest, calls=Honest, flaky=Flaky, refused=Refused, unavailable=Away, too_long=TooLong, secret=KEY)


def broken(kind: Callable[[], Model]) -> ModelSubject:
    return replace(OWN, make=kind, calls=kind)


@pytest.mark.parametrize(
    "kind", [Honest, lambda: limit_replies(Honest(), max_tokens=100, options={"seed": 1})], ids=["own", "limited"]
)
@pytest.mark.parametrize("case", model_cases(), ids=str)
def test_a_model_of_ones_own_keeps_to_the_contract(case: Case[ModelSubject], kind: Any) -> None:
    case.run(broken(kind))


PAST_STOP_WORDS = ("stop words", "asks side by side")  # a script says exactly what it is told to say


@pytest.mark.parametrize("case", [one for one in model_cases() if not one.name.startswith(PAST_STOP_WORDS)], ids=str)
def test_a_script_keeps_to_the_rest_of_it(case: Case[ModelSubject]) -> None:
    case.run(ModelSubject(lambda: PromptModel(script=[{"raw": TEXT}])))


@pytest.mark.parametrize(
    ("subject", "clause", "problem"),
    [
        (broken(Endless), "the last item is the reply", "item 7 of 9 is Reply"),
        (broken(Mumbling), "streamed pieces join to the reply", "the reply is 'Good morning to all of you!'"),
        (broken(Deaf), "stop words are honoured", r"asked to stop before \['you'\]"),
        (broken(Counting), "usage is counted", "the second reply counts the first one, too"),
        (broken(Negative), "usage is counted", r"\['input_tokens'\] is below 0"),
        (broken(Meddling), "the prompt is not changed", "before and after: .*'a': 1.* / .*tool_input={}"),
        (broken(Narrow), "a conversation with calls is accepted", "unexpectedly raised UnicodeEncodeError"),
        (broken(Shared), "asks side by side are independent", "is in 'Good|is empty"),
        (broken(Littering), "a cancelled ask leaves nothing behind", "tasks are left: "),
        (broken(Stubborn), "a cancelled ask leaves nothing behind", "it was cancelled and ended otherwise"),
        (
            replace(OWN, connections=lambda: 2),
            "a cancelled ask leaves nothing behind",
            "connections open",
        ),
        (broken(Rooted), "any event loop will do", "unexpectedly raised RuntimeError: attached to a different loop"),
        (broken(Boasting), "abilities are told", "calls_tools is true, with the problem"),
        (broken(Silent), "abilities are told", "problem does not say why"),
        (broken(Free), "a constraint is honoured", "held to yes or no, it says 'perhaps'"),
        (broken(Repeating), "calls have names inputs and ids", r"\['1', '1'\]; want one for each, all different"),
        (broken(Guessing), "calls have names inputs and ids", "it was offered add, and calls 'sum'"),
        (replace(OWN, flaky=Joining), "a passing failure is asked again", "it was asked again without a Retry"),
        (replace(OWN, flaky=Muddling), "a passing failure is asked again", "the reply is 'Good morGood morning"),
        (replace(OWN, refused=Away), "a refusal is final", "want a ModelRefused, not ModelUnavailable"),
        (replace(OWN, refused=Insisting), "a refusal is final", "a refused request was repeated 1 times"),
        (replace(OWN, unavailable=Crashing), "an engine that is away is unavailable", "ConnectionError: refused"),
        (replace(OWN, unavailable=Refused), "an engine that is away is unavailable", "want a ModelUnavailable"),
        (replace(OWN, unavailable=Honest), "an engine that is away is unavailable", "want a ModelError, it replied"),
        (replace(OWN, too_long=Refused), "a prompt that is too long is told apart", "want a WindowExceeded"),
        (replace(OWN, refused=Telling), "a secret is not shown", "a ModelRefused has the key in it"),
    ],
    ids=lambda value: value.replace(" ", "_") if isinstance(value, str) and ":" not in value else "",
)
def test_a_broken_model_is_found_and_the_clause_named(subject: ModelSubject, clause: str, problem: str) -> None:
    (case,) = [one for one in model_cases() if one.name == clause]
    with pytest.raises(AssertionError, match=f"^model: {clause}: .*{problem}"):
        case.run(subject)
