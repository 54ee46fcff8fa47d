"""What a run is judged by: marks, each a fold over the run's log and the question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..core.events import Event, Observed
from ..core.run_result import RunResult
from ..core.values import AgentAction
from .kept_results import unreadable
from .metrics import contains, exact_match, f1, is_right, says_not_stated, states
from .questions import Number, Question
from .tool_calls import made_calls, matched


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of one run, by name: `shares` are yes or no, `amounts` are numbers.

    A mark that does not apply to the question is missing.
    """

    shares: Mapping[str, bool]
    amounts: Mapping[str, float]

    @property
    def right(self) -> bool:
        """Whether the answer, or the calls, are right."""
        return self.shares["right"]


def marks_of(question: Question, result: RunResult, judged: bool | None = None, *, priced: bool = False) -> Marks:
    """Return the marks of a run. `judged` is the verdict of a model, if there is one; `priced`: the cost is known."""
    shares = _shares(question, result)
    if judged is not None:
        shares["judged"] = judged
    usage = result.usage
    amounts = _amounts(question, result) | {
        "steps": len(result.steps),
        "requests": usage.requests,
        "input_tokens": usage.input_tokens,
        "cached_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
        "seconds": result.seconds,
        "unparseable": unreadable(result),
    }
    return Marks(shares, amounts | {"cost": usage.cost} if priced else amounts)


def _shares(question: Question, result: RunResult) -> dict[str, bool]:
    answer = result.answer
    texts = [one for one in question.answers if isinstance(one, str)]
    numbers = [one for one in question.answers if isinstance(one, Number)]
    made = _made(result)
    exactly = matched(question.calls, made) == len(question.calls) == len(made)
    calls_only = not question.answers and not question.unanswerable
    shares = {"right": exactly if calls_only else is_right(answer, question)}
    if texts:
        shares["exact_match"] = any(exact_match(answer, one) for one in texts)
        shares["contains"] = any(contains(answer, one) for one in texts)
    if numbers:
        shares["numeric"] = any(states(answer, one) for one in numbers)
    if question.unanswerable:
        shares["said_not_stated"] = says_not_stated(answer)
    elif not calls_only:
        shares["said_not_stated_wrongly"] = not shares["right"] and says_not_stated(answer)
    return shares


def _amounts(question: Question, result: RunResult) -> dict[str, float]:
    amounts: dict[str, float] = {}
    if texts := [one for one in question.answers if isinstance(one, str)]:
        amounts["f1"] = max(f1(result.answer, one) for one in texts)
    if question.evidence:
        seen = " ".join(_observed(result))
        amounts["evidence_found"] = sum(contains(seen, one) for one in question.evidence) / len(question.evidence)
    if question.calls:
        amounts["tool_accuracy"] = matched(question.calls, _made(result)) / len(question.calls)
    return amounts


def _logs(result: RunResult) -> Mapping[str, Sequence[Event]]:
    """Return the logs of a run and of the agents that it called, by what their calls' paths begin with."""
    return {"": result.events, **{f"{path}/": log for path, log in result.children.items()}}


def _observed(result: RunResult) -> Iterator[str]:
    """Yield what tools returned; what an agent that was called said is none of it."""
    for path, log in _logs(result).items():
        for event in log:
            if isinstance(event, Observed) and f"{path}{event.observation.call_id}" not in result.children:
                yield event.observation.text


def _made(result: RunResult) -> list[AgentAction]:
    """Return the calls of tools, also by agents that were called."""
    logs = _logs(result).items()
    return [call for path, log in logs for call in made_calls(log) if f"{path}{call.id}" not in result.children]
