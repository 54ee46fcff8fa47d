"""Texts in spans: none, unless they are wanted; then without secrets, and not endless."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator

import pytest

from fakes.engines import model
from fakes.otlp_collector import OtlpCollector
from fakes.reasoning_server import reasoning_server
from retinue import Agent, PromptModel, telemetry
from retinue._internal.redaction import register_secret
from retinue.tools import calculator

pytestmark = pytest.mark.anyio
SECRET = "sk-this-is-a-secret-of-somebody"
PRIVATE = "the patient's name is Ann"


def agent(said: str = "done", result: str = PRIVATE) -> Agent:
    def look(word: str) -> str:
        """Looks."""
        return result

    call = {"tool": "look", "input": {"word": PRIVATE}}
    script = [{"when": "patient", "call": call, "times": 1}, {"finish": said}]
    return Agent(PromptModel(script=script), [look], name="agent", strategy="tool_calling", instructions=PRIVATE)


@pytest.fixture
def wanted(collector: OtlpCollector) -> Iterator[OtlpCollector]:
    telemetry.enable(collector.url, capture_content=True)
    try:
        yield collector
    finally:
        telemetry.disable()


def texts(collector: OtlpCollector) -> str:
    assert telemetry.flush()
    assert collector.spans
    return json.dumps([[one.name, one.problem, dict(one.values), one.events] for one in collector.spans])


async def test_there_is_none_unless_it_is_wanted(recorded: OtlpCollector) -> None:
    await agent(said=PRIVATE).run_async(f"Who? {PRIVATE}")
    assert "Ann" not in texts(recorded)


@pytest.mark.parametrize("said", ["true", "TRUE", "SPAN_AND_EVENT"])
async def test_the_standard_variable_asks_for_it(
    collector: OtlpCollector, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", said)
    telemetry.enable(collector.url)
    await agent().run_async("Who is the patient?")
    found = texts(collector)
    telemetry.disable()
    assert PRIVATE in found


async def test_what_a_model_is_asked_and_says(wanted: OtlpCollector) -> None:
    await agent().run_async("Who is the patient?")
    texts(wanted)
    first, second = wanted.named("chat scripted")
    asked = json.loads(second.values["gen_ai.input.messages"])
    assert [one["role"] for one in asked] == ["system", "user", "assistant", "tool"]
    assert asked[1]["parts"] == [{"type": "text", "content": "Who is the patient?"}]
    assert asked[2]["parts"][-1] == {
        "type": "tool_call",
        "id": "call_1_0",
        "name": "look",
        "arguments": {"word": PRIVATE},
    }
    assert asked[3]["parts"] == [{"type": "tool_call_response", "id": "call_1_0", "response": PRIVATE}]
    (said,) = json.loads(first.values["gen_ai.output.messages"])
    assert (said["role"], said["finish_reason"]) == ("assistant", "tool_call")
    (tool,) = wanted.named("execute_tool look")
    assert json.loads(tool.values["gen_ai.tool.call.arguments"]) == {"word": PRIVATE}
    assert tool.values["gen_ai.tool.call.result"] == PRIVATE
    (run,) = wanted.named("invoke_agent agent")
    assert json.loads(run.values["gen_ai.system_instructions"]) == [{"type": "text", "content": PRIVATE}]


@pytest.mark.parametrize("form", [str, lambda text: b64encode(text.encode()).decode()])
async def test_secrets_are_in_none_of_it(wanted: OtlpCollector, form: object) -> None:
    register_secret(SECRET)
    secret = form(SECRET) if callable(form) else SECRET
    await agent(f"The key is {secret}", f"{'x' * 3990}{secret} {PRIVATE}").run_async(f"the patient {secret}")
    found = texts(wanted)
    assert "***" in found
    for at in range(len(secret) - 12):
        assert secret[at : at + 12] not in found


async def test_long_texts_are_shortened(wanted: OtlpCollector) -> None:
    await agent("y" * 100_000, "x" * 100_000).run_async("the patient " + "z" * 100_000)
    texts(wanted)
    for span in wanted.spans:
        assert all(len(str(value)) < 40_000 for value in span.values.values())
    (tool,) = wanted.named("execute_tool look")
    assert tool.values["gen_ai.tool.call.result"].startswith("xxxx")
    assert tool.values["gen_ai.tool.call.result"].endswith("the lines with words.)")


async def test_a_tool_that_a_model_invents_names_nothing_at_length(wanted: OtlpCollector) -> None:
    script = [
        {"when": "patient", "call": {"tool": "n" * 5_000 + "\n\0\ud800", "input": {}}, "times": 1},
        {"finish": "x"},
    ]
    found = Agent(PromptModel(script=script), [calculator], name="agent", strategy="tool_calling")
    await found.run_async("the patient")
    texts(wanted)
    (tool,) = [one for one in wanted.spans if one.name.startswith("execute_tool")]
    assert len(tool.name) <= 1_000
    assert len(tool.values["gen_ai.tool.name"]) <= 1_000
    assert [dict(by)["gen_ai.tool.name"] for by, _ in wanted.metrics["retinue.tool.calls"]] == ["unknown"]


async def test_reasoning_is_a_part_of_its_own_where_texts_are_wanted(collector: OtlpCollector) -> None:
    for wants in (False, True):
        with reasoning_server() as server:
            telemetry.enable(collector.url, capture_content=wants)
            await Agent(model(server), name="agent", strategy="tool_calling").run_async("How is it?")
            found = texts(collector)
            telemetry.disable()
        assert ("Thought 1" in found, '\\"type\\": \\"reasoning\\"' in found) == (wants, wants)
        assert '"gen_ai.usage.reasoning.output_tokens": 5' in found
