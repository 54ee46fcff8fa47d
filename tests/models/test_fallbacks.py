"""Several models in order: which one replies, what the log says of it, and what a run that fell keeps to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI
from pydantic import TypeAdapter

from fakes.app_server import KEY, Serving
from fakes.asking import chunks
from fakes.engines import PROBED, model
from fakes.openai_server import Answer, OpenAIServer, Request, failure
from fakes.scripted_server import sse
from retinue import Agent, Budget, ModelRefused, PromptModel, RunResult, Tool, UsageError
from retinue.config import check
from retinue.core.events import Event, Replied, Retried
from retinue.core.protocols import Retry
from retinue.core.values import Reply
from retinue.errors import ModelUnavailable, WindowExceeded
from retinue.models import fallbacks
from retinue.net.retry import Retries
from retinue.run.fork import fork
from retinue.run.replay import replay

LOOK = Tool("look", lambda name: f"{name} is found", "Look somebody up", effects="read")
CALLS = Answer(calls=[("look", {"name": "Ann"})])
DOWN = failure(503, "overloaded")
LIMITED = failure(429, "slow down", retry_after="3600")
TOO_LONG = failure(400, "This model's maximum context length is 8 tokens.", code="context_length_exceeded")
WRONG_KEY = failure(401, "Incorrect API key provided")
POOR = failure(429, "You exceeded your current quota", code="insufficient_quota")
BROKEN_OFF = Answer("It is Ann, I th", cut=150)
ONCE = Retries(tries=1)
EVENTS: TypeAdapter[list[Event]] = TypeAdapter(list[Event])


@pytest.fixture
def servers() -> Iterator[Sequence[OpenAIServer]]:
    with ExitStack() as stack:
        yield [stack.enter_context(OpenAIServer()) for _ in range(3)]


def capable(server: OpenAIServer, said: str) -> None:
    """It calls `look` once, and then says this."""

    def answer(asked: Request) -> Answer:
        if any(tool["function"]["name"] == "add" for tool in asked.body.get("tools", ())):
            return PROBED
        return Answer(said) if any(one["role"] == "tool" for one in asked.body["messages"]) else CALLS

    server.always = answer


def fails(server: OpenAIServer, how: Answer) -> None:
    server.always = lambda _: how


def in_order(servers: Sequence[OpenAIServer], reasons: Sequence[str] = fallbacks.FALL_BACK_ON, **settings: Any) -> Any:
    models = [model(one, retries=ONCE, **settings) for one in servers]
    return PromptModel(models=models, fall_back_on=reasons)


def fell(result: RunResult) -> list[str]:
    return [event.model for event in result.events if isinstance(event, Retried)]


def replied(result: RunResult) -> list[str]:
    return [event.reply.model for event in result.events if isinstance(event, Replied)]


FIRST, SECOND, THIRD = "openai:fake-model", "openai:fake-model (2)", "openai:fake-model (3)"
GIVES_WAY: Sequence[tuple[Answer, str, type[Exception]]] = [
    (DOWN, "unavailable", ModelUnavailable),
    (Answer(drop=True), "unavailable", ModelUnavailable),
    (BROKEN_OFF, "unavailable", ModelUnavailable),
    (LIMITED, "rate", ModelUnavailable),
    (POOR, "rate", ModelRefused),
    (failure(402, "Insufficient credits"), "rate", ModelRefused),
    (TOO_LONG, "too_long", WindowExceeded),
    (WRONG_KEY, "refused", ModelRefused),
    (failure(404, "The model `fake-model` does not exist"), "refused", ModelRefused),
    (failure(400, "no"), "refused", ModelRefused),
]


def test_a_model_gives_way_for_the_reasons_that_are_named(servers: Sequence[OpenAIServer]) -> None:
    for how, reason, error in GIVES_WAY:
        fails(servers[0], how)
        fails(servers[1], Answer("Ann."))
        seen = chunks(in_order(servers[:2], [reason]))
        (retry,) = [one for one in seen if isinstance(one, Retry)]
        assert (retry.model, f"({reason})" in retry.problem) == (SECOND, True), how
        assert isinstance(last := seen[-1], Reply)
        assert (last.text, last.model) == ("Ann.", SECOND)
        others = [one for one in ("unavailable", "rate", "too_long", "refused") if one != reason]
        with pytest.raises(error):
            chunks(in_order(servers[:2], others))


def test_the_last_error_is_that_of_the_last_model(servers: Sequence[OpenAIServer]) -> None:
    for server, how in zip(servers, (DOWN, LIMITED, DOWN), strict=True):
        fails(server, how)
    with pytest.raises(ModelUnavailable, match="overloaded"):
        chunks(in_order(servers))
    assert [len(server.asked) for server in servers] == [1, 1, 1]


def test_a_run_stays_with_the_model_that_it_fell_to(servers: Sequence[OpenAIServer]) -> None:
    for server in servers[1:]:
        capable(server, "Ann.")
    fails(servers[0], DOWN)
    agent = Agent(in_order(servers), [LOOK])
    result = agent.run("Who?")
    assert (result.answer, fell(result), replied(result)) == ("Ann.", [SECOND], [SECOND, SECOND])
    capable(servers[0], "Ann, says the first.")
    assert agent.run("Who?").answer == "Ann.", "the first rests for a minute"
    assert servers[2].asked[1:] == [], "but for the probe"


def test_after_a_minute_the_first_is_asked_again(
    servers: Sequence[OpenAIServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    fails(servers[0], DOWN)
    capable(servers[1], "Ann.")
    agent = Agent(in_order(servers[:2]), [LOOK])
    assert fell(agent.run("Who?")) == [SECOND]
    capable(servers[0], "Ann, says the first.")
    later = time.monotonic() + 61
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert (result := agent.run("Who?")).answer == "Ann, says the first."
    assert (fell(result), replied(result)) == ([], [FIRST, FIRST])


def test_a_model_that_fails_in_the_middle_gives_way_and_its_text_is_void(servers: Sequence[OpenAIServer]) -> None:
    said = Answer("It is Ann, I think, or somebody like her.", cut=1500)
    servers[0].replies += [PROBED, CALLS, said]
    capable(servers[1], "Bob.")
    result = Agent(in_order(servers[:2]), [LOOK]).run("Who?")
    assert (result.answer, fell(result), replied(result)) == ("Bob.", [SECOND], [FIRST, SECOND])
    (retried,) = [event for event in result.events if isinstance(event, Retried)]
    assert retried.usage.output_tokens > 0, "what was streamed counts"


def test_what_one_vendor_wants_back_is_not_sent_to_another(servers: Sequence[OpenAIServer]) -> None:
    called = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"name": "Ann"}'}}
    first = sse(
        {"choices": [{"index": 0, "delta": {"reasoning_content": "Hm.", "tool_calls": [{"index": 0, **called}]}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
        "[DONE]",
    )
    servers[0].replies += [PROBED, first, DOWN]
    capable(servers[1], "Ann.")
    models = [
        PromptModel("m", engine="deepseek", base_url=f"{servers[0].url}/v1", api_key="sk", retries=ONCE),
        PromptModel(
            "m", engine="groq", base_url=f"{servers[1].url}/v1".replace("127.0.0.1", "localhost"), api_key="sk"
        ),
    ]
    result = Agent(PromptModel(models=models), [LOOK]).run("Who?")
    assert (result.answer, replied(result)) == ("Ann.", ["deepseek:m", "groq:m"])
    assert "reasoning_content" in servers[0].asked[-1].raw.decode()
    assert "reasoning_content" not in servers[1].asked[-1].raw.decode()
    last = [event.reply for event in result.events if isinstance(event, Replied)][-1]
    assert last.unsent.startswith("chat 127.0.0.1")


def test_a_log_is_replayed_forked_and_continued_without_the_failing_server(servers: Sequence[OpenAIServer]) -> None:
    fails(servers[0], DOWN)
    capable(servers[1], "Ann.")
    agent = Agent(in_order(servers[:2]), [LOOK])
    result = agent.run("Who?")
    for server in servers:
        server.requests.clear()
    assert replay(agent, result).agrees
    assert [len(server.asked) for server in servers] == [0, 0, 0]
    later = Agent(in_order(servers[:2]), [LOOK])  # as in another process, in which no model rests
    cut = next(at for at, one in enumerate(result.events) if isinstance(one, Replied))
    fallen, begun = [EVENTS.validate_json(EVENTS.dump_json(list(result.events[:at]))) for at in (cut, cut + 1)]
    assert isinstance(fallen[-1], Retried), "a process died while the second model was asked"
    assert replied(later.resume(fallen)) == [SECOND, SECOND]
    assert [len(server.asked) for server in servers] == [0, 2, 0]
    servers[1].requests.clear()
    ways: Sequence[Callable[[], RunResult]] = (
        lambda: later.resume(begun),
        lambda: asyncio.run(fork(later, result, 1).finish()),
    )
    for go_on in ways:
        continued = go_on()
        assert (continued.answer, replied(continued)) == ("Ann.", [SECOND, SECOND])
        assert [len(server.asked) for server in servers] == [0, 1, 0], "it goes on with the model that it fell to"
        servers[1].requests.clear()


def test_what_all_can_do_is_what_a_run_uses(servers: Sequence[OpenAIServer]) -> None:
    capable(servers[0], "Ann.")
    fails(servers[1], Answer("I cannot call tools."))
    able = asyncio.run(in_order(servers[:2]).abilities(native=True))
    assert (able.calls_tools, able.problem != "") == (False, True)
    capable(servers[1], "Ann.")
    fails(servers[2], DOWN)
    able = asyncio.run(in_order([servers[0], servers[2]]).abilities(native=True))
    assert able.calls_tools, "one that is down now says nothing"
    fails(servers[2], WRONG_KEY)
    with pytest.raises(ModelRefused):
        asyncio.run(in_order([servers[0], servers[2]], api_key="sk-other").abilities(native=True))


def test_each_reply_has_its_own_models_cost(servers: Sequence[OpenAIServer]) -> None:
    fails(servers[0], DOWN)
    capable(servers[1], "Ann.")
    dear, cheap = {"input": 1e6, "output": 1e6}, {"input": 1.0, "output": 1.0}
    models = [model(one, retries=ONCE, price=price) for one, price in zip(servers[:2], (dear, cheap), strict=True)]
    result = Agent(PromptModel(models=models), [LOOK], budget=Budget(cost=1.0)).run("Who?")
    assert result.answer == "Ann."
    assert 0 < result.usage.cost < 0.01
    unknown = PromptModel(models=[models[0], model(servers[1])])
    with pytest.raises(UsageError, match="prices"):
        Agent(unknown, [LOOK], budget=Budget(cost=1.0)).run("Who?")


def test_a_served_agent_falls_back_too(servers: Sequence[OpenAIServer], tmp_path: Path) -> None:
    fails(servers[0], DOWN)
    capable(servers[1], "Ann.")
    agent = Agent(in_order(servers[:2]), [LOOK], name="finder")
    with Serving(tmp_path, {"finder": agent}) as served, OpenAI(base_url=f"{served.url}/v1", api_key=KEY) as client:
        assert [one.id for one in client.models.list()][:1] == ["finder"]
        for _ in range(2):
            said = client.chat.completions.create(model="finder", messages=[{"role": "user", "content": "Who?"}])
            assert said.choices[0].message.content == "Ann."
            assert said.usage is not None
            assert said.usage.total_tokens > 0
    assert len(servers[0].asked) == 1, "it rests"


WRONG: Sequence[tuple[Callable[[], Any], str]] = [
    (lambda: PromptModel(models=["openai:m"], fall_back_on=["slow"]), "no reason 'slow'"),
    (lambda: PromptModel("openai:a", models=["openai:m"]), "model_name_or_path is of one model"),
    (lambda: PromptModel(models=["openai:m", "anthropic:m"], api_key="sk"), "api_key is of one model"),
    (lambda: PromptModel(models=["frob:m"]), "no engine 'frob'"),
    (lambda: PromptModel(models="openai:m"), "want a list"),
]


def test_what_cannot_work_is_refused_at_once() -> None:
    for make, problem in WRONG:
        with pytest.raises(UsageError, match=problem):
            make()


FILE = """\
retinue: 1
components:
  - {name: small, type: PromptModel, params: {model_name_or_path: "vllm:small@http://localhost:1"}}
  - {name: both, type: PromptModel, params: {models: [small, "vllm:big@http://localhost:2"], fall_back_on: [too_long]}}
agents:
  - {name: one, params: {models: [small, "vllm:big@http://localhost:2"], fall_back_on: [rate, refused]}}
  - {name: two, params: {model: both}}
"""


def test_a_file_names_models_in_order(tmp_path: Path) -> None:
    (path := tmp_path / "agents.yaml").write_text(FILE)
    assert list(check(path)) == []
    one, two = Agent.load_from_yaml(path, agent_name="one"), Agent.load_from_yaml(path, agent_name="two")
    assert one.model.name == two.model.name == "vllm:small, vllm:big"
    for agent, reasons in ((one, ["rate", "refused"]), (two, ["too_long"])):
        agent.origin = None
        agent.save_to_yaml(saved := tmp_path / f"{agent.name}.yaml")
        assert list(check(saved)) == []
        again: Any = Agent.load_from_yaml(saved).model
        assert (again.name, list(again.given["fall_back_on"])) == (agent.model.name, reasons)


PROBLEMS = {
    "fall_back_on: [too_long]": ("fall_back_on: [slow]", "slow"),
    "models: [small, ": ("models: [smal, ", "did you mean 'small'"),
    "{models: [small": ("{model: small, models: [small", "both 'model' and 'models'"),
    "two, params: {model: both": ("two, params: {model: both, fall_back_on: [rate]", "needs 'models'"),
    "params: {models: [small, \"vllm:big@http://localhost:2\"], fall_back_on: [rate, refused]}": (
        "params: {models: [small], api_key: sk}", "'api_key' is of one model"),
    "params: {models: [small, \"vllm:big@http://localhost:2\"], fall_back_on: [too_long]}": (
        "params: {models: [both]}", "circular"),
}  # fmt: skip


def test_what_is_wrong_in_a_file_has_its_place(tmp_path: Path) -> None:
    path = tmp_path / "agents.yaml"
    for right, (wrong, problem) in PROBLEMS.items():
        assert right in FILE
        path.write_text(FILE.replace(right, wrong))
        found = list(check(path))
        assert any(problem in str(one) for one in found), (wrong, found)
