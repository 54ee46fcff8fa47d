"""Runs of the library, as a real collector receives them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics

from fakes.openai_server import OpenAIServer, failure
from fakes.otlp_collector import OtlpCollector, Span
from retinue import Agent, Decision, ModelError, PromptModel, StopReason, UsageError, telemetry, tool

pytestmark = pytest.mark.anyio
OLD = {
    "prompt",
    "completion",
    "system",
    "usage.prompt_tokens",
    "usage.completion_tokens",
}  # former names
NAMES = {
    value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_") and isinstance(value, str)
} - {f"gen_ai.{name}" for name in OLD}
TEAM = """\
invoke_agent top
  chat scripted
  execute_tool middle
    invoke_agent middle
      chat scripted
      execute_tool low
        invoke_agent low
          chat scripted
          execute_tool note
          chat scripted
      chat scripted
  chat scripted""".splitlines()


def note(word: str) -> str:
    """Notes a word."""
    return "done"


def agent(name: str, script: Sequence[Any], *tools: Any, **more: Any) -> Agent:
    return Agent(PromptModel(script=script, retries=0), tools, name=name, strategy="tool_calling", **more)


def caller(name: str, below: Agent, **more: Any) -> Agent:
    call = {"tool": below.name, "input": {"query": "q"}}
    return agent(name, [{"when": "done|did not", "say": f"{name} done"}, {"when": "", "call": call}], below, **more)


def worker(name: str = "low", what: Any = note, **more: Any) -> Agent:
    call = {"tool": getattr(what, "name", None) or what.__name__, "input": {"word": "x"}}
    return agent(
        name, [{"when": "done|refused|failed", "say": f"{name} done"}, {"when": "", "call": call}], what, **more
    )


def received(collector: OtlpCollector) -> list[Span]:
    assert telemetry.flush()
    return collector.spans


async def test_a_team_is_a_tree(recorded: OtlpCollector) -> None:
    done = await caller("top", caller("middle", worker())).run_async("Go")
    spans = received(recorded)
    assert done.answer == "top done"
    assert recorded.tree() == TEAM
    assert len({one.trace for one in spans}) == 1
    assert len(recorded.arrived) == len(spans), "a span was sent twice"
    (top,) = recorded.named("invoke_agent top")
    assert top.parent == ""
    assert top.values["gen_ai.usage.input_tokens"] == done.usage.input_tokens
    assert top.values["retinue.stop_reason"] == "ANSWER"
    assert top.resource["service.name"] == "retinue"
    for one in spans:
        assert one.start <= one.end
        assert not one.failed


async def test_attributes_have_the_names_of_the_conventions(collector: OtlpCollector) -> None:
    telemetry.enable(collector.url, capture_content=True)
    await caller("top", worker(), instructions="Be brief.").run_async("Go")
    spans = received(collector)
    telemetry.disable()
    found = {name for one in spans for name in one.values}
    assert {name for name in found if not name.startswith("retinue.")} <= NAMES
    by_kind: dict[str, set[str]] = {}
    for one in spans:
        by_kind.setdefault(one.values["gen_ai.operation.name"], set()).update(one.values)
    wanted = {
        "invoke_agent": "agent.name provider.name request.model usage.input_tokens system_instructions input.messages",
        "chat": "provider.name request.model usage.output_tokens usage.cache_read.input_tokens response.finish_reasons "
        "response.time_to_first_chunk input.messages output.messages",
        "execute_tool": "tool.name tool.call.id tool.type tool.call.arguments tool.call.result",
    }
    for kind, names in wanted.items():
        assert {f"gen_ai.{name}" for name in names.split()} <= by_kind[kind]
    ours = set(collector.metrics)
    theirs = {value for value in vars(gen_ai_metrics).values() if isinstance(value, str)}
    assert ours - theirs == {"retinue.runs", "retinue.tool.calls"}
    assert len(ours & theirs) == 3


async def test_members_at_once_each_have_their_call(recorded: OtlpCollector) -> None:
    workers = [worker(f"low_{at}") for at in range(3)]
    calls = [{"tool": one.name, "input": {"query": "q"}} for one in workers]
    top = agent("top", [{"when": "done", "say": "ok"}, {"when": "", "call": calls}], *workers)
    await top.run_async("Go")
    received(recorded)
    for at in range(3):
        (call,) = recorded.named(f"execute_tool low_{at}")
        (run,) = recorded.named(f"invoke_agent low_{at}")
        assert run.parent == call.id


async def test_failures(recorded: OtlpCollector) -> None:
    @tool(effects="read")
    def broken(word: str) -> str:
        """Breaks."""
        raise ValueError("it broke")

    await worker("low", broken).run_async("Go")
    received(recorded)
    (call,) = recorded.named("execute_tool broken")
    assert (call.failed, call.values["error.type"], call.values["retinue.tool.outcome"]) == (True, "failed", "failed")
    with OpenAIServer() as server:
        server.always = lambda request: failure(401)
        with pytest.raises(ModelError):
            await Agent(PromptModel("m", base_url=server.url, api_key="k", retries=0), name="lost").run_async("Go")
    received(recorded)
    (run,) = recorded.named("invoke_agent lost")
    assert run.failed
    assert "401" in run.problem or "key" in run.problem
    assert run.values["retinue.stop_reason"] == "ERROR"


async def test_a_reader_that_leaves_ends_the_run(recorded: OtlpCollector) -> None:
    events = worker().stream_async("Go")
    async for _ in events:
        break
    await events.aclose()
    received(recorded)
    (run,) = recorded.named("invoke_agent low")
    assert run.values["retinue.stop_reason"] == "CANCELLED"


async def test_a_stream_is_recorded_as_a_run_is(recorded: OtlpCollector) -> None:
    assert [event async for event in worker().stream_async("Go")]
    received(recorded)
    assert recorded.tree() == ["invoke_agent low", "  chat scripted", "  execute_tool note", "  chat scripted"]


async def test_what_has_ended_is_sent_while_the_run_goes_on(recorded: OtlpCollector) -> None:
    asked = asyncio.Event()

    async def stop(word: str) -> str:
        """Takes long."""
        asked.set()
        await asyncio.sleep(60)
        return "done"

    running = asyncio.create_task(worker(what=stop).run_async("Go"))
    await asked.wait()
    assert [one.name for one in received(recorded)] == ["chat scripted"]
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert {one.name for one in received(recorded)} == {"chat scripted", "execute_tool stop", "invoke_agent low"}


async def test_runs_one_after_the_other_are_traces_of_their_own(recorded: OtlpCollector) -> None:
    for _ in range(2):
        await worker().run_async("Go")
    assert len({one.trace for one in received(recorded)}) == 2
    assert len([one for one in recorded.spans if not one.parent]) == 2


async def test_a_run_that_waits_for_a_person_and_goes_on(recorded: OtlpCollector) -> None:
    @tool(approval=True)
    def pay(word: str) -> str:
        """Pays."""
        return "done"

    low = worker("low", pay)
    run = low.start("Go", key="run-1")
    waiting = await run.finish()
    assert waiting.stop_reason is StopReason.AWAITING_HUMAN
    received(recorded)
    assert recorded.tree() == ["invoke_agent low", "  chat scripted"]
    await low.resume_async(waiting.events, {"call_1_0": Decision("approve")}, key="run-1")
    spans = received(recorded)
    assert recorded.tree() == [
        "invoke_agent low",
        "  chat scripted",
        "invoke_agent low",
        "  execute_tool pay",
        "  chat scripted",
    ]
    assert len({one.trace for one in spans}) == 1
    assert len(recorded.arrived) == len(spans)


async def test_an_agent_that_a_tool_runs_is_below_the_call(recorded: OtlpCollector) -> None:
    inner = worker("inner")

    async def research(word: str) -> str:
        """Researches."""
        return (await inner.run_async(word)).answer

    await worker("low", research).run_async("Go")
    received(recorded)
    assert recorded.tree()[:4] == [
        "invoke_agent low",
        "  chat scripted",
        "  execute_tool research",
        "    invoke_agent inner",
    ]


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    yield InMemorySpanExporter()
    telemetry.disable()


async def test_an_apps_own_providers(exporter: InMemorySpanExporter) -> None:
    tracers, reader = TracerProvider(), InMemoryMetricReader()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    telemetry.enable(tracer_provider=tracers, meter_provider=MeterProvider([reader]))
    with tracers.get_tracer("app").start_as_current_span("the app's") as around:
        await caller("top", worker()).run_async("Go")
    assert telemetry.flush()
    spans = {one.name: one for one in exporter.get_finished_spans()}
    top, call, low = spans["invoke_agent top"], spans["execute_tool low"], spans["invoke_agent low"]
    assert top.parent is not None
    assert call.context is not None
    assert low.parent is not None
    assert top.parent.span_id == around.get_span_context().span_id
    assert low.parent.span_id == call.context.span_id
    assert {one.context.trace_id for one in spans.values() if one.context} == {around.get_span_context().trace_id}
    assert (call.attributes or {})["gen_ai.tool.name"] == "low"
    data = reader.get_metrics_data()
    assert data is not None
    names = {metric.name for one in data.resource_metrics for scope in one.scope_metrics for metric in scope.metrics}
    assert "gen_ai.client.token.usage" in names


def test_what_is_no_provider_is_refused() -> None:
    with pytest.raises(UsageError, match="want a TracerProvider"):
        telemetry.enable(tracer_provider=_Other())
    with pytest.raises(UsageError, match="not both"):
        telemetry.enable("http://x", tracer_provider=TracerProvider())


class _Other:
    def get_tracer(self, *_: object) -> Mapping[str, str]:
        return {}


async def test_metrics_count_each_thing_once(recorded: OtlpCollector) -> None:
    results = [await caller("top", worker()).run_async("Go") for _ in range(3)]
    assert telemetry.flush()
    points = {(name, *sorted(map(str, by.values()))): one for name, of in recorded.metrics.items() for by, one in of}
    assert points["retinue.runs", "ANSWER", "low"].as_int == 3
    assert points["retinue.tool.calls", "low", "result"].as_int == 3
    chats = points["gen_ai.client.operation.duration", "chat", "retinue", "scripted"]
    assert (chats.count, sum(chats.bucket_counts), len(chats.bucket_counts)) == (12, 12, 15)
    tokens = points["gen_ai.client.token.usage", "chat", "input", "retinue", "scripted"]
    assert tokens.sum == sum(one.usage.input_tokens for one in results)


async def test_many_at_once_mix_nothing_up(recorded: OtlpCollector) -> None:
    await asyncio.gather(*(caller("top", caller("middle", worker())).run_async("Go") for _ in range(20)))
    received(recorded)
    assert recorded.tree() == TEAM * 20
