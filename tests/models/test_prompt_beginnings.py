"""What a prompt's fixed beginning is, and that a later process does not read it again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fakes.asking import request, written
from retinue import Agent, Message, PromptModel, tool
from retinue.core.prompt import Ask, Prompt
from retinue.core.protocols import Chunks
from retinue.core.values import Capabilities
from retinue.models.prompt_states import FEWEST, find_beginning

WORDING = "Answer each question with one word.\n" + "".join(
    f"Question: Which number follows {number}?\nAnswer: {number + 1}\n" for number in range(20)
)


def asking(question: str, wording: str = WORDING) -> Ask:
    text = f"{wording}Question: {question}\nAnswer:"
    return Ask(Prompt(Message("user", text)), question, written, max_tokens=4)


def test_it_is_the_text_before_what_is_new() -> None:
    assert find_beginning(asking("Is grass green?")) == f"{WORDING}Question:"


def test_it_goes_over_several_messages() -> None:
    prompt = Prompt(Message("system", "Be brief.\n\n")).add(
        Message("user", f"{WORDING}Is it?"), Message("user", "\nA:")
    )
    assert find_beginning(replace(asking("Is it?"), prompt=prompt)) == f"Be brief.\n\n{WORDING}".rstrip()


def test_a_question_that_occurs_in_it_ends_it() -> None:
    asked = asking("Which number follows 19?")
    assert find_beginning(asked).endswith("Answer: 19\nQuestion:")


@pytest.mark.parametrize(
    "asked",
    [
        asking("Is grass green?", "Answer."),
        asking("?", "x" * (FEWEST - 20)),
        request(WORDING * 2),
        replace(asking("Is it?"), chat=True),
        replace(asking("Is it?"), news="something else"),
        replace(asking("Is it?"), news=""),
        replace(asking("Is it?"), prompt=asking("Is it?").prompt.add(Message("assistant", "No"))),
    ],
    ids=["short", "a little too short", "all new", "chat", "rewritten", "nothing new", "goes on"],
)
def test_there_is_none(asked: Ask) -> None:
    assert find_beginning(asked) == ""


@tool(effects="read")
def look(thing: str) -> str:
    """Look at a thing."""
    return "It is green."


class Asked:
    """A model that answers at the second request and remembers what it was asked."""

    name = "asked"

    def __init__(self) -> None:
        self.requests: list[Ask] = []
        self._model = PromptModel(script=[{"call": {"tool": "look", "input": "it"}, "times": 1}, {"finish": "done"}])

    async def abilities(self, *, native: bool = False) -> Capabilities:
        return await self._model.abilities()

    async def reply(self, request: Ask) -> Chunks:
        self.requests.append(request)
        async for chunk in self._model.reply(request):
            yield chunk


def test_a_run_opens_with_its_first_request() -> None:
    model = Asked()
    Agent(model, [look], strategy="react").run("What colour is it?")
    assert [asked.opening for asked in model.requests] == [True, False]


def test_a_run_that_goes_on_with_a_conversation_does_not_open_with_fixed_text() -> None:
    model = Asked()
    Agent(model, [look], strategy="react").run(
        "And now?", history=[Message("user", "Hi"), Message("assistant", "Hello")]
    )
    assert [asked.opening for asked in model.requests] == [False, False]


# ── with the model, in processes of their own ────────────────────────────────────────────────────

_ASK = """
import asyncio, json, sys
from retinue import PromptModel
sys.path.insert(0, {tests!r})
from dataclasses import replace
from fakes.asking import reply
from models.test_prompt_beginnings import asking
model = PromptModel({weights!r}, context=1024)
for opening, question in json.loads(sys.argv[1]):
    got = reply(model, replace(asking(question), opening=opening))
    print(json.dumps([got.text, got.usage.input_tokens, got.usage.cached_tokens]), flush=True)
"""
SKY, GRASS = "What colour is the sky?", "What colour is grass?"


class Processes:
    """Starts processes that ask the embedded model, with a cache folder of their own."""

    def __init__(self, weights: Path, cache: Path) -> None:
        self.states = cache / "states"
        self._code = _ASK.format(weights=str(weights), tests=str(Path(__file__).parents[1]))
        self._cache = cache

    def ask(self, *asked: tuple[bool, str], **environment: str) -> list[list[Any]]:
        """For each question, and whether it opens a run: the reply, the prompt's tokens, and those not read for it."""
        environ = {**os.environ, "RETINUE_PROMPT_STATES": "on", "RETINUE_CACHE": str(self._cache), **environment}
        environ["RETINUE_THREADS"] = "2"  # else a busy machine has two servers, of which each has read half
        words = [sys.executable, "-c", self._code, json.dumps(asked)]
        done = subprocess.run(words, env=environ, capture_output=True, text=True, check=True)
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]


@pytest.fixture
def processes(embedded_model: Path, tmp_path: Path) -> Processes:
    return Processes(embedded_model, tmp_path)


@pytest.mark.full
@pytest.mark.model
def test_a_second_process_does_not_read_the_beginning_again_and_replies_the_same(processes: Processes) -> None:
    (first,) = processes.ask((True, SKY))
    assert first[2] == 0
    (state,) = processes.states.iterdir()
    (second,) = processes.ask((True, SKY))
    assert second[:2] == first[:2]
    assert second[1] - second[2] < 15  # of some 300 tokens, the question
    damaged = bytearray(state.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    state.write_bytes(damaged)
    (third,) = processes.ask((True, SKY), RETINUE_PROMPT_STATES="off")
    (fourth,) = processes.ask((True, SKY))
    assert [third[:2], fourth] == [first[:2], first]


@pytest.mark.full
@pytest.mark.model
def test_text_that_something_else_follows_is_kept_too_and_what_occurs_once_is_not(processes: Processes) -> None:
    processes.ask((False, SKY), (False, SKY))
    assert not list(processes.states.iterdir())
    first, second = processes.ask((False, SKY), (False, GRASS))
    assert len(list(processes.states.iterdir())) == 1
    assert processes.ask((False, GRASS))[0][1] - processes.ask((False, GRASS))[0][2] < 15
    assert first[2] == 0
    assert second[1] - second[2] < 15
