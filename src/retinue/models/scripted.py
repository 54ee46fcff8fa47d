"""The `scripted` engine: rules in place of a model, for users' own tests.

A rule applies to a request if its `when` (a regular expression) matches what is new in it: the question, or the last
output of the tools. One without `when` applies to every request, and if others follow it, once. Its decision is
written in the format of the strategy that asks.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from .._internal.message_text import suggest_name
from ..core.events import Delta
from ..core.prompt import Ask, Decided
from ..core.protocols import Chunks, list_kinds
from ..core.values import AgentAction, AgentFinish, Capabilities, Kind, Reply, Usage
from ..errors import DataError, ModelRefused, ModelUnavailable
from ..net.error_mapping import with_error_code
from ..net.retry import with_retries
from .settings import Settings

_KEYS = ("when", "say", "call", "finish", "raw", "error", "delay", "pace", "times")
_ERRORS = (429, 500, "cut", "hang")


@dataclass(slots=True)
class Rule:
    """A rule, with the number of uses it has left.

    `text`: the exact reply, in any format. `decision`: written in the strategy's format. `error`: 429, 500, `cut` (half
    the reply, then the connection is lost) or `hang`. `delay`: seconds before the reply; `pace`: seconds before each
    word.
    """

    when: re.Pattern[str]
    decision: Decided | None = None
    text: str | None = None
    error: int | str | None = None
    delay: float = 0.0
    pace: float = 0.0
    left: float = float("inf")


class ScriptedEngine:
    """Answers from a script. Tokens are counted as words."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        script = tuple(settings.script or ())
        self._rules = [read_rule(rule, at) for at, rule in enumerate(script, 1)]
        for rule, given in zip(self._rules[:-1], script, strict=False):
            if isinstance(given, Mapping) and not {"when", "times"} & given.keys():
                rule.left = 1  # it fits everything: the next rule would never be used
        if not self._rules:
            raise DataError("a scripted model needs a script: a list of rules")

    @property
    def name(self) -> str:
        return "scripted"

    async def abilities(self, *, native: bool = False) -> Capabilities:
        """Return that tool calls work and constraints do not: scripted replies are sent as written."""
        return Capabilities(calls_tools=True, scripted=True)

    async def sees(self) -> frozenset[Kind]:
        return list_kinds(self._settings.sees)

    def reply(self, request: Ask) -> Chunks:
        """Stream the reply of the first matching rule, word by word. Raises `ModelError`."""
        return with_retries(lambda: self._stream_once(request), self._settings.retries)

    async def close(self) -> None:
        """Do nothing; no connections are open."""

    async def _stream_once(self, request: Ask) -> Chunks:
        for rule in self._rules:
            has_calls = isinstance(rule.decision, tuple)
            if rule.left > 0 and rule.when.search(request.news) and not (has_calls and request.tool_choice == "none"):
                break
        else:
            raise ModelRefused(f"no rule of the script fits {request.news[:200]!r}")
        rule.left -= 1
        await asyncio.sleep(rule.delay)
        if rule.error == "hang":
            await asyncio.Event().wait()
        if rule.error in (429, 500):
            raise with_error_code(ModelUnavailable(f"the script answers {rule.error}"), int(rule.error))
        said = Reply(rule.text or "") if rule.decision is None else request.write(rule.decision)
        words = re.findall(r"\s*\S+|\s+$", said.text)
        for word in words[: len(words) // 2] if rule.error == "cut" else words:
            if rule.pace:
                await asyncio.sleep(rule.pace)
            yield Delta(word)
        if rule.error == "cut":
            raise ModelUnavailable("the script cuts off its reply")
        prompt = sum(len(message.content.split()) for message in request.prompt.messages)
        yield replace(said, usage=Usage(prompt, len(words), 0, 1))


def read_rule(rule: Any, number: int) -> Rule:
    """Parse a rule from Python or YAML: a mapping, or the text of an exact reply for one use. Raises `DataError`."""
    if isinstance(rule, str):
        return Rule(re.compile(""), text=rule, left=1)
    if problem := next(_find_problems(rule), None):
        raise DataError(f"script: rule {number}: {problem}")
    text = rule.get("finish", rule.get("say"))
    decision: Decided | None = None if text is None else AgentFinish({"output": str(text)})
    if "call" in rule:
        decision = tuple(AgentAction(call["tool"], call.get("input", "")) for call in _list_calls(rule))
    return Rule(
        re.compile(str(rule.get("when", ""))),
        decision,
        rule.get("raw"),
        rule.get("error"),
        float(rule.get("delay", 0)),
        float(rule.get("pace", 0)),
        float(rule.get("times", "inf")),
    )


def _list_calls(rule: Mapping[str, Any]) -> list[Any]:
    return call if isinstance(call := rule["call"], list) and call else [call]


def _find_problems(rule: Any) -> Iterator[str]:
    if not isinstance(rule, Mapping):
        yield f"want a text or a mapping, not {type(rule).__name__}"
        return
    if unknown := [key for key in rule if key not in _KEYS]:
        yield f"unknown key {unknown[0]!r}; {suggest_name(str(unknown[0]), _KEYS)}"
    called = _list_calls(rule) if "call" in rule else []
    if not all(isinstance(one, Mapping) and isinstance(one.get("tool"), str) for one in called):
        yield "call: want {tool: NAME, input: …}, or a list of these"
    if "raw" in rule and not isinstance(rule["raw"], str):
        yield f"raw: want a text, not {rule['raw']!r}"
    if "error" in rule and rule["error"] not in _ERRORS:
        yield f"error: want one of {', '.join(map(str, _ERRORS))}, not {rule['error']!r}"
    if not {"say", "call", "finish", "raw", "error"} & rule.keys():
        yield "says nothing: want one of say, call, finish, raw, error"
    for key in ("delay", "pace", "times"):
        if key in rule and not (isinstance(rule[key], int | float) and rule[key] >= 0):
            yield f"{key}: want a number, not {rule[key]!r}"
    try:
        re.compile(str(rule.get("when", "")))
    except re.error as error:
        yield f"when: not a regular expression: {error}"
