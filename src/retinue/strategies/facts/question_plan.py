"""The plan for a question: the model writes it, or of several things that are asked alike the first step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from ..prompting.similar_examples import most_like
from .descriptions import names_listed
from .plan_shapes import counted_shape, first_shape, last_shape, moved_date, of_each, steps_shape
from .quantities import Unreadable
from .question_steps import QuestionStep, is_sound, read_steps
from .sub_prompts import Part, Say, sub_prompt

_SIMILAR = 2  # examples that are shown once more, right before the question
# Of plans, until one is sound.
_SAMPLINGS: tuple[Mapping[str, Any], ...] = ({}, *({"temperature": 0.7, "seed": seed} for seed in (1, 2)))


def planned(say: Say, question: str) -> Part[tuple[QuestionStep, ...]]:
    """Return the steps of a sound plan; the question itself as the only one if there is none."""
    whole = (QuestionStep("find", question),)
    if listed := names_listed(question):
        return (yield from _alike(say, question, listed)) or whole
    if moved := moved_date(question):
        return moved
    shape = steps_shape(question)
    if shape is None:
        return whole
    text, asked = _prompt(question)
    for options in _SAMPLINGS:
        said = yield from say(text, asked, shape, options=options, aside=bool(options))
        steps = _read(said)
        if steps and all(step.kind == "find" for step in steps):
            break
        if steps and is_sound(steps, question):
            return steps
    return whole


def counted(say: Say, question: str) -> Part[tuple[QuestionStep, ...]]:
    """Return a plan that counts what a question asks the number of; no steps if the reply is none."""
    text, asked = _prompt(question)
    return _read((yield from say(text, asked, counted_shape())))


def _alike(say: Say, question: str, names: Sequence[str]) -> Part[tuple[QuestionStep, ...]]:
    """Let the model ask for a fact of the first of the names; ask the same of the others, and let it say what for.

    No steps are returned if its replies are none.
    """
    text, asked = _prompt(question, listed=True)
    first = yield from say(text, asked, first_shape(question, names))
    rows = of_each(first, question, names)
    so_far = text + "".join(f"{row}\n" for row in rows)
    last = yield from say(so_far, question, last_shape(question, names), aside=True)
    return _read("\n".join([*rows, last]))


def _read(said: str) -> tuple[QuestionStep, ...]:
    """Return the steps of a reply: none if it has none, as it may where nothing holds it to its form."""
    try:
        return read_steps(said)
    except Unreadable:
        return ()


def _prompt(question: str, *, listed: bool = False) -> tuple[str, str]:
    """Return the prompt for a plan, and the part of it that is not the same for all questions."""
    asked = "\n\n".join([*most_like(question, _examples(listed), _SIMILAR), f"Question: {question}\n"])
    return f"{sub_prompt('plan').strip()}\n\n{asked}", asked


@cache
def _examples(listed: bool) -> Sequence[str]:
    """Return the examples of plans whose questions ask the same of several names, or the others."""
    examples = sub_prompt("plan").strip().split("\n\n")[1:]
    return [one for one in examples if bool(names_listed(one.partition("\n")[0])) == listed]
