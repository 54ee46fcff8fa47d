"""What one may ask an agent: a few short texts, which people are shown and the model is not."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import UsageError

MOST = 8
LONGEST = 200  # characters


def as_question(text: str) -> str:
    """Return a suggested question without the blanks around it. Raises `ValueError`."""
    question = text.strip()
    if len(question.splitlines()) != 1 or len(question) > LONGEST:
        raise ValueError(f"want a question in one line of at most {LONGEST} characters")
    return question


def suggested(questions: Iterable[str]) -> tuple[str, ...]:
    """Return suggested questions for an agent. Raises `UsageError`."""
    wanted = f"want a list of at most {MOST} texts, such as ['What can you do?']"
    if isinstance(questions, str) or not isinstance(questions, Iterable):
        raise UsageError(f"questions: {wanted}, not {questions!r:.80}")
    given = list(questions)
    if len(given) > MOST:
        raise UsageError(f"questions: {wanted}, not {len(given)} of them")
    for at, one in enumerate(given):
        try:
            given[at] = as_question(one)
        except (AttributeError, ValueError) as error:
            why = f"want a text, not {one!r:.80}" if isinstance(error, AttributeError) else error
            raise UsageError(f"questions[{at}]: {why}") from error
    return tuple(given)
