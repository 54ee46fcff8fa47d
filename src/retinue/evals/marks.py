"""What a run is judged by: marks, each a fold over the run's log and the question.

F1 and exact match are HotpotQA's (Yang et al. 2018), with the normalization of its official evaluation script.
Arguments of calls are compared as the Berkeley Function-Calling Leaderboard (Patil et al. 2025) compares syntax trees:
texts without case, spaces and `, . / - _ * ^`; numbers by value, and never as truth values; lists in order. All
required arguments are there, and no others; the order of the calls does not matter.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.events import Asked, Called, Event, Observed, Paused
from ..core.run_result import RunResult
from ..core.values import AgentAction
from .questions import ExpectedCall, Number, OneOf, Question

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_CLOSED = ("yes", "no", "noanswer")
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?")
_NOT_STATED = re.compile(
    r"\b(?:not|never|nowhere|isnt|is nt) (?:be )?(?:\w+ )?"
    r"(?:stated?|mention(?:ed)?|given?|said|say|specif(?:y|ied)|known|recorded|provided?|available|found|answered|"
    r"determined|listed|contain(?:ed)?|included?|documented|disclosed|find)\b"
    r"|\bcan(?:not|t| not) (?:be )?(?:answer|answered|determine|determined|find|found|say|tell)\b"
    r"|\b(?:no|not enough|insufficient) (?:\w+ )?(?:info|information|mention|answer|record|data|details?)\b"
    r"|\bnothing (?:states|says|mentions|was found|is said|is known|is stated)\b"
    r"|\b(?:do not|dont|does not|doesnt) (?:know|state|say|mention|specify|give|provide|contain|include)\b"
    r"|\bcould(?: not|nt) (?:be )?(?:find|found|determine|determined|answer)\b"
    r"|^(?:unknown|unanswerable|none|na|not here)$|\b(?:is|remains) unknown\b"
)
_IGNORED = re.compile(r"[ ,./\-_*^]")
_MISSING = object()


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


def mark_run(question: Question, result: RunResult, judged: bool | None = None, *, priced: bool = False) -> Marks:
    """Return the marks of a run. `judged` is the verdict of a model, if there is one; `priced`: the cost is known."""
    usage = result.usage
    shares = _measure_shares(question, result) | ({} if judged is None else {"judged": judged})
    amounts = _measure_amounts(question, result) | {
        "steps": len(result.steps),
        "requests": usage.requests,
        "input_tokens": usage.input_tokens,
        "cached_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
        "seconds": result.seconds,
        "unparseable": count_unusable_replies(result),
    }
    return Marks(shares, amounts | {"cost": usage.cost} if priced else amounts)


def _measure_shares(question: Question, result: RunResult) -> dict[str, bool]:
    answer = result.text
    if question.answers or question.unanswerable:
        shares = {"right": is_right(answer, question)}
    else:
        made = _list_all_calls(result)
        shares = {"right": count_matches(question.calls, made) == len(question.calls) == len(made)}
    if texts := [one for one in question.answers if isinstance(one, str)]:
        shares["exact_match"] = any(is_exact_match(answer, one) for one in texts)
        shares["contains"] = any(is_contained(answer, one) for one in texts)
    if numbers := [one for one in question.answers if isinstance(one, Number)]:
        shares["numeric"] = any(is_number_stated(answer, one) for one in numbers)
    if question.unanswerable:
        shares["said_not_stated"] = is_not_stated(answer)
    elif question.answers:
        shares["said_not_stated_wrongly"] = not shares["right"] and is_not_stated(answer)
    return shares


def _measure_amounts(question: Question, result: RunResult) -> dict[str, float]:
    amounts: dict[str, float] = {}
    if texts := [one for one in question.answers if isinstance(one, str)]:
        amounts["f1"] = max(compute_f1(result.text, one) for one in texts)
    if question.evidence:
        seen = " ".join(  # what tools returned; what an agent that was called said is none of it
            event.observation.text
            for path, log in _list_logs(result)
            for event in log
            if isinstance(event, Observed) and f"{path}{event.observation.call_id}" not in result.children
        )
        amounts["evidence_found"] = sum(is_contained(seen, one) for one in question.evidence) / len(question.evidence)
    if question.calls:
        amounts["tool_accuracy"] = count_matches(question.calls, _list_all_calls(result)) / len(question.calls)
    return amounts


def _list_logs(result: RunResult) -> list[tuple[str, Sequence[Event]]]:
    """Return the logs of a run and of the agents that it called, with what their calls' paths begin with."""
    return [("", result.events), *((f"{path}/", log) for path, log in result.children.items())]


def _list_all_calls(result: RunResult) -> list[AgentAction]:
    """Return the calls of tools, also by agents that were called."""
    calls = ((f"{path}{call.id}", call) for path, log in _list_logs(result) for call in list_calls(log))
    return [call for path, call in calls if path not in result.children]


def count_unusable_replies(result: RunResult) -> int:
    """Return the number of unusable replies, which were requested again, also of the agents that were called."""
    asked = [event for _, log in _list_logs(result) for event in log if isinstance(event, Asked)]
    return sum(bool(event.problem) and not event.aside for event in asked)


# ── whether an answer is right ────────────────────────────────────────────────────────────────────


def normalize_answer(answer: str) -> str:
    """Return the answer in lower case, without punctuation, articles and superfluous whitespace."""
    text = answer.lower().translate(_PUNCTUATION)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def is_exact_match(answer: str, gold: str) -> bool:
    """Return whether the normalized answers are equal."""
    return normalize_answer(answer) == normalize_answer(gold)


def compute_f1(answer: str, gold: str) -> float:
    """Return the harmonic mean of word precision and recall, 0 to 1; yes and no match entirely or not at all."""
    left, right = normalize_answer(answer), normalize_answer(gold)
    if left != right and (left in _CLOSED or right in _CLOSED):
        return 0.0
    shared = sum((Counter(left.split()) & Counter(right.split())).values())
    return 2 * shared / (len(left.split()) + len(right.split())) if shared else 0.0


def is_contained(answer: str, gold: str) -> bool:
    """Return whether the normalized `gold` occurs in the answer as whole words."""
    wanted = normalize_answer(gold)
    if not wanted:  # nothing but signs and articles
        return answer.strip().casefold() == gold.strip().casefold()
    return f" {wanted} " in f" {normalize_answer(answer)} "


def is_number_stated(answer: str, wanted: Number) -> bool:
    """Return whether a number in the answer is within the tolerance of the wanted one; commas group its digits."""
    found = (float(one.replace(",", "")) for one in _NUMBER.findall(answer.replace("−", "-")))
    return any(abs(number - wanted.number) <= wanted.within + 1e-9 for number in found)


def is_not_stated(answer: str) -> bool:
    """Return whether the answer says that the sources do not state what was asked.

    It does so in one of the usual phrases: *not stated*, *not mentioned*, *cannot be determined*, *no information*, *do
    not know*, *could not find*, or *unknown* alone. An empty answer says nothing.
    """
    return bool(_NOT_STATED.search(" ".join(answer.lower().replace("’", "'").translate(_PUNCTUATION).split())))


def is_right(answer: str, question: Question) -> bool:
    """Return whether an answer is right: it contains an accepted text or number and none of the rivals; for an
    unanswerable question, it says that this is not stated."""
    if question.unanswerable:
        return is_not_stated(answer)
    if any(is_contained(answer, rival) for rival in question.rivals):
        return False
    return any(
        is_contained(answer, wanted) if isinstance(wanted, str) else is_number_stated(answer, wanted)
        for wanted in question.answers
    )


# ── whether the expected calls were made ──────────────────────────────────────────────────────────


def list_calls(log: Iterable[Event]) -> list[AgentAction]:
    """Return the calls in a run's log: those with a result of their own, and those that wait for somebody."""
    calls: dict[str, AgentAction] = {}
    for event in log:
        if isinstance(event, Called | Paused):
            calls[event.action.id] = event.action
        elif isinstance(event, Observed) and event.observation.outcome in ("repeated", "unknown_tool"):
            calls.pop(event.observation.call_id, None)
    return list(calls.values())


def count_matches(expected: Sequence[ExpectedCall], made: Sequence[AgentAction]) -> int:
    """Return how many of the expected calls were made; each call counts for one of them."""
    left = list(made)
    for wanted in expected:
        if found := next((call for call in left if is_call(wanted, call)), None):
            left.remove(found)
    return len(made) - len(left)


def is_call(expected: ExpectedCall, call: AgentAction) -> bool:
    """Return whether a call is the expected one."""
    given = call.tool_input
    if isinstance(given, str):  # the only argument, as text
        same = len(expected.arguments) == 1 and all(_is_same(one, given) for one in expected.arguments.values())
    else:
        same = _is_same(expected.arguments, given)
    return call.tool == expected.name and same


def _is_same(wanted: Any, given: Any) -> bool:
    """Return whether a value is the wanted one, or one of the accepted ones."""
    match wanted:
        case OneOf(values, optional):
            return (optional and given is _MISSING) or any(_is_same(one, given) for one in values)
        case bool() | None:
            return given is wanted
        case str():
            return isinstance(given, str) and _normalize_argument(wanted) == _normalize_argument(given)
        case int() | float():
            return isinstance(given, int | float) and not isinstance(given, bool) and given == wanted
        case Mapping():
            if not isinstance(given, Mapping) or not given.keys() <= wanted.keys():
                return False
            return all(_is_same(one, given.get(name, _MISSING)) for name, one in wanted.items())
        case list() | tuple():
            long = isinstance(given, list | tuple) and len(given) == len(wanted)
            return long and all(map(_is_same, wanted, given))
    return False


def _normalize_argument(text: str) -> str:
    return _IGNORED.sub("", text).lower().replace("'", '"')
