"""The plan for a question: the model writes it, or of several things that are asked alike the first step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..prompting.prompt_parts import prompt_parts
from ..prompting.similar_examples import most_like
from .asked import Part, Say
from .descriptions import names_listed
from .quantities import Unreadable
from .question_steps import QuestionStep, counted_shape, first_shape, is_sound, last_shape, read_steps, steps_shape

_SIMILAR = 2  # examples that are shown once more, right before the question
_SAMPLINGS: tuple[Mapping[str, Any], ...] = ({}, {"temperature": 0.7, "seed": 1})  # of plans


def planned(say: Say, question: str) -> Part[tuple[QuestionStep, ...]]:
    """Return the steps of a sound plan; the question itself as the only one if there is none."""
    listed = names_listed(question)
    if listed:
        return (yield from _alike(say, question, listed))
    shape = steps_shape(question)
    if shape is None:
        return (QuestionStep("find", question),)
    text, asked = _prompt(question)
    for options in _SAMPLINGS:
        said = yield from say(text, asked, shape, options=options, aside=bool(options))
        try:
            steps = read_steps(said)
        except Unreadable:
            continue
        if all(step.kind == "find" for step in steps):
            break
        if is_sound(steps, question):
            return steps
    return (QuestionStep("find", question),)


def counted(say: Say, question: str) -> Part[tuple[QuestionStep, ...]]:
    """Return a plan that counts what a question asks the number of."""
    text, asked = _prompt(question)
    return read_steps((yield from say(text, asked, counted_shape())))


def _alike(say: Say, question: str, names: Sequence[str]) -> Part[tuple[QuestionStep, ...]]:
    """Let the model ask for a fact of the first of the names; ask the same of the others, and let it say what for."""
    text, asked = _prompt(question, listed=True)
    first = ""
    for options in _SAMPLINGS:
        first = yield from say(text, asked, first_shape(question, names), options=options, aside=bool(options))
        if " than " not in first:
            break
    rows = [first.replace(names[0], name) for name in names]
    so_far = text + "".join(f"{row}\n" for row in rows)
    last = yield from say(so_far, question, last_shape(question, names), aside=True)
    return read_steps("\n".join([*rows, last]))


def _prompt(question: str, *, listed: bool = False) -> tuple[str, str]:
    """Return the prompt for a plan, and the part of it that is not the same for all questions."""
    head, *examples = prompt_parts("careful")["plan"].template.strip().split("\n\n")
    fitting = [one for one in examples if bool(names_listed(one.partition("\n")[0])) == listed]
    asked = "\n\n".join([*most_like(question, fitting, _SIMILAR), f"Question: {question}\n"])
    return "\n\n".join([head, *examples, asked]), asked
