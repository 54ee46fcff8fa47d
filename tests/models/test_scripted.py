"""The scripted engine: rules in place of a model."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fakes.asking import chunks, chunks_async, reply, request, retries, shown
from retinue import DataError, Message, ModelError, PromptModel
from retinue.core.prompt import Prompt
from retinue.errors import ModelRefused, ModelUnavailable
from retinue.net.retry import Retries


def scripted(*rules: Any, tries: int = 3) -> PromptModel:
    return PromptModel(script=rules, retries=Retries(tries=tries, first_wait=0.001))


# ── what a rule says ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("as it is\n", "as it is\n"),
        ({"raw": " as  it is "}, " as  it is "),
        ({"say": "hello"}, "finish: hello"),
        ({"finish": 47}, "finish: 47"),
        ({"call": {"tool": "Search", "input": "age"}}, "call: Search age"),
        ({"call": {"tool": "Search", "input": {"query": "age"}}}, "call: Search {'query': 'age'}"),
        ({"call": {"tool": "Now"}}, "call: Now "),
        ({"say": "hello", "delay": 0}, "finish: hello"),
    ],
)
def test_a_rule_says_a_text_or_a_decision_in_the_strategys_form(rule: Any, text: str) -> None:
    assert reply(scripted(rule)).text == text


def test_tokens_are_words() -> None:
    usage = reply(scripted("three words here"), request("two words")).usage
    assert (usage.input_tokens, usage.output_tokens, usage.requests) == (2, 3, 1)


def test_it_holds_nobody_to_a_pattern_and_has_a_name() -> None:
    model = scripted("x")
    assert not asyncio.run(model.abilities()).constrains
    assert model.name == "scripted"


# ── which rule ───────────────────────────────────────────────────────────────────────────────────


def test_the_first_rule_that_fits_what_is_new_is_used() -> None:
    model = scripted({"when": "^Weather: ", "raw": "rain"}, {"when": "weather", "raw": "ask"})
    prompt = Prompt(Message("user", "What is the weather?"))
    assert reply(model, request(prompt)).text == "ask"
    assert reply(model, request(prompt.add(Message("user", "Weather: grey")))).text == "rain"


def test_what_is_not_new_is_not_matched() -> None:
    prompt = Prompt(Message("user", "secret")).add(Message("user", "other"))
    with pytest.raises(ModelRefused, match=r"no rule of the script fits 'other'"):
        reply(scripted({"when": "secret", "raw": "x"}), request(prompt))


def test_a_number_may_stand_where_a_pattern_is_wanted() -> None:
    assert reply(scripted({"when": 47, "raw": "x"}), request("is it 47?")).text == "x"


def test_a_rule_is_used_as_often_as_it_says() -> None:
    model = scripted({"raw": "a", "times": 2}, {"raw": "b"})
    assert [reply(model).text for _ in range(4)] == ["a", "a", "b", "b"]


def test_texts_are_used_once_each_and_then_the_script_is_spent() -> None:
    model = scripted("a", "b")
    assert [reply(model).text for _ in range(2)] == ["a", "b"]
    with pytest.raises(ModelRefused, match="no rule of the script fits"):
        reply(model)


# ── failing on purpose ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("status", [429, 500])
def test_a_failing_rule_is_asked_again(status: int) -> None:
    seen = chunks(scripted({"error": status, "times": 2}, {"raw": "well"}))
    assert [retry.problem for retry in retries(seen)] == [f"the script answers {status}"] * 2
    assert shown(seen) == "well"


def test_a_rule_that_always_fails_ends_in_its_error() -> None:
    with pytest.raises(ModelUnavailable, match="the script answers 500"):
        chunks(scripted({"error": 500}))


def test_a_cut_shows_half_the_text_and_then_the_next_attempt() -> None:
    seen = chunks(scripted({"raw": "one two three four", "error": "cut", "times": 1}, {"raw": "whole"}))
    texts = [getattr(chunk, "text", "—") for chunk in seen]
    assert texts == ["one", " two", "—", "whole", "whole"]


def test_a_hanging_rule_can_be_cancelled() -> None:
    async def cancelled() -> bool:
        task = asyncio.create_task(chunks_async(scripted({"error": "hang"}), request()))
        await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait([task])
        return done.pop().cancelled()

    assert asyncio.run(cancelled())


# ── scripts that are wrong ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        (47, "want a text or a mapping, not int"),
        ({"sya": "hello"}, "unknown key 'sya'; did you mean 'say'?"),
        ({"when": "x"}, "says nothing: want one of say, call, finish, raw, error"),
        ({"when": "(", "say": "x"}, "when: not a regular expression: "),
        ({"call": "Search"}, "call: want {tool: NAME, input: …}"),
        ({"call": {"tool": 7}}, "call: want {tool: NAME, input: …}"),
        ({"raw": 47}, "raw: want a text, not 47"),
        ({"error": 404}, "error: want one of 429, 500, cut, hang, not 404"),
        ({"say": "x", "delay": -1}, "delay: want a number, not -1"),
        ({"say": "x", "pace": "slow"}, "pace: want a number, not 'slow'"),
        ({"say": "x", "delay": "1"}, "delay: want a number, not '1'"),
        ({"say": "x", "times": None}, "times: want a number, not None"),
    ],
)
def test_a_wrong_rule_is_named_by_its_number(rule: Any, problem: str) -> None:
    with pytest.raises(DataError) as raised:
        scripted("fine", rule)
    assert str(raised.value).startswith(f"script: rule 2: {problem}")


def test_an_empty_script_is_refused() -> None:
    with pytest.raises(DataError, match="needs a script"):
        PromptModel(script=[])


def test_every_error_of_the_script_is_a_model_error() -> None:
    with pytest.raises(ModelError):
        reply(scripted({"when": "never", "raw": "x"}))
