"""Turns of a conversation and other texts that memories keep, and what a model is asked for about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from ..core.completion import ask_once
from ..core.protocols import Model
from ..core.schema.patterns import Constraint, build_json_pattern, seq
from ..strategies.parsing.lenient_json import Truncated, find_values
from ..strategies.prompting.injection_guard import neutralize

BYTES = 3  # UTF-8 bytes per token: a slight overestimate of tokens for English, accurate for most other scripts
_GAP = " … "


def count_tokens(text: str) -> int:
    """Estimate the number of tokens, rather too high than too low."""
    return -(-len(text.encode(errors="replace")) // BYTES)


def cut(text: str, most: int) -> str:
    """Return `text`, or its beginning and end within `most` tokens."""
    if count_tokens(text) <= most:
        return text
    half = max(0, (most * BYTES - len(_GAP.encode())) // 2)
    kept = text.encode(errors="replace")
    return kept[:half].decode(errors="ignore") + _GAP + kept[len(kept) - half :].decode(errors="ignore")


def clean_line(value: Any) -> str:
    """Return a text as stored: on one line, and valid for every file and engine."""
    return " ".join(str(value).encode(errors="replace").decode().split())


# ── turns ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class StoredTurn:
    """A question and its answer."""

    question: str
    answer: str


def make_turn(question: str, answer: str) -> StoredTurn:
    """Return a turn as stored: text that is valid for every file and engine."""
    said, replied = (text.encode(errors="replace").decode().strip() for text in (question, answer))
    return StoredTurn(said, replied)


def count_fitting(turns: Sequence[StoredTurn], most: int, budget: int) -> int:
    """Return how many of the last turns fit: at most `most`, and within `budget` tokens."""
    fit = 0
    for one in reversed(turns[max(0, len(turns) - most) :]):
        budget -= count_tokens(one.question) + count_tokens(one.answer)
        if budget < 0:
            break
        fit += 1
    return fit


def select_newest(turns: Sequence[StoredTurn], budget: int) -> list[StoredTurn]:
    """Return the last turns that fit within `budget` tokens, and the last one in any case."""
    return list(turns[-max(1, count_fitting(turns, len(turns), budget)) :])


def list_not_done(
    before: Sequence[StoredTurn], left: Sequence[StoredTurn], now: Sequence[StoredTurn]
) -> list[StoredTurn]:
    """Return what is left to do of the turns `now`, where of those `before` only `left` were not done."""
    done = list(before[: len(before) - len(left)])
    fallen = next((at for at in range(len(done)) if list(now[: len(done) - at]) == done[at:]), len(done))
    return list(now[len(done) - fallen :])  # the oldest of those done may have been dropped meanwhile


def format_transcript(turns: Iterable[StoredTurn], most: int) -> str:
    """Return the turns as lines of text, each side within `most` tokens; their content cannot imitate a line of its
    own.
    """
    return "".join(
        f"{speaker}: {' '.join(neutralize(cut(text, most)).split())}\n"
        for one in turns
        for speaker, text in (("User", one.question), ("Assistant", one.answer))
        if text
    )


# ── what a model is asked, and what it writes: JSON, constrained if its engine supports it ────────────


def read_prompt(name: str) -> str:
    """Return the text of the prompt in the file `name`.txt, which has `$fields`."""
    return files("retinue.memory").joinpath(f"{name}.txt").read_text(encoding="utf-8").removesuffix("\n")


def build_record_schema(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with exactly these properties."""
    needed = {"required": list(properties), "additionalProperties": False}
    return {"type": "object", "properties": properties} | needed


def build_text_schema(most: int) -> dict[str, Any]:
    """Return the schema of a text with at most `most` characters."""
    return {"type": "string", "minLength": 1, "maxLength": most}


def build_summary_constraint(characters: int) -> Constraint:
    """Return the constraint of `{"summary": "…"}` with so many characters."""
    schema = build_record_schema(summary=build_text_schema(characters))
    return Constraint(seq(" ", build_json_pattern(schema, characters), "\n"), schema)


async def ask_for_values(model: Model, prompt: str, form: Constraint, max_tokens: int) -> list[Any]:
    """Return the complete values in the model's reply to `prompt`; of a truncated value, the complete ones within it.

    Raises `ModelError`.
    """
    reply = await ask_once(model, prompt, max_tokens=max_tokens, constraint=form)
    return [one.value for one in find_values(reply.text) if not isinstance(one.value, Truncated)]


async def ask_for_summary(model: Model, prompt: str, form: Constraint, max_tokens: int) -> str:
    """Return the summary in the model's reply, on one line; empty if there is none. Raises `ModelError`."""
    values = await ask_for_values(model, prompt, form, max_tokens)
    return next((clean_line(one["summary"]) for one in values if isinstance(one, dict) and "summary" in one), "")
