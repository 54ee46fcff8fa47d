"""One step's actions: find the tool, check the input, run it, and turn every failure into an observation."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Sequence
from contextvars import ContextVar

from .errors import ToolError, UsageError
from .hiding import hidden
from .schema import AgentAction, Observation, Outcome
from .signature import InvalidInput
from .stagnation import traces
from .tooling import Effects, Tool

MAX_INPUT = 2**18  # characters of a call's input
MAX_RESULT = 8_000  # characters of a tool's result that a model is shown
Call = tuple[Tool, AgentAction, Observation]
SO_FAR: ContextVar[Sequence[Call]] = ContextVar("SO_FAR", default=())
"""The calls of a run up to the one under way, in their order, for a tool whose work depends on them. It keeps
nothing itself: so it may serve many runs at once, and in one that is resumed it finds what was recorded."""
_CALL: ContextVar[tuple[str, Effects]] = ContextVar("CALL", default=("", "read"))
NUDGE = "(Nothing new came of this. Use what you have seen, try something else, or give the final answer.)"


def idempotency_key() -> str:
    """The key of the tool call under way, `run/call`: the same when the run is resumed under its key and the call
    is made once more. Empty outside of a call."""
    return _CALL.get()[0]


def idempotency_header() -> dict[str, str]:
    """What a tool sends along over HTTP: the key, where the call under way may change something."""
    key, effects = _CALL.get()
    return {"Idempotency-Key": key} if key and effects != "read" else {}


class Toolbox:
    """The tools of one run, and what they said so far. `run`: the run's key."""

    def __init__(self, tools: Iterable[Tool], run: str = "") -> None:
        self._run = run
        self._tools: dict[str, Tool] = {}
        self._said: dict[tuple[str, str], str] = {}
        self._seen: set[tuple[str, str]] = set()
        self._running: dict[tuple[str, str], asyncio.Event] = {}
        self._calls: list[Call] = []
        for tool in tools:
            if tool.name in self._tools:
                raise UsageError(f"two tools are called '{tool.name}'; give one of them another name")
            self._tools[tool.name] = tool

    def find(self, name: str) -> Tool | None:
        """The tool of exactly this name."""
        return self._tools.get(name)

    def needs_human(self, action: AgentAction, *, begun: bool) -> str:
        """Why a person must be asked before this action runs; empty if none need be.

        `begun`: it was begun before, and whether it took effect is not known.
        """
        tool = self.find(action.tool)
        if tool is None:
            return ""
        if begun and tool.effects == "once":
            return f"{tool.name} was begun before and its outcome is unknown: did it happen?"
        return f"{tool.name} runs only with a person's approval" if tool.approval and not begun else ""

    def remember(self, action: AgentAction, observation: Observation) -> None:
        """Keep a result, so that the same call again gets the former result and not another effect."""
        if observation.outcome == "result":
            self._said[_key(action)] = observation.text
        self._seen |= traces(action, observation.outcome, observation.text)
        if (tool := self.find(action.tool)) is not None:
            self._calls.append((tool, action, observation))

    async def run(self, action: AgentAction) -> Observation:
        """Run one action. Never raises for what the model or the tool did wrong: the observation says it."""
        began = time.perf_counter()
        tool = self.find(action.tool)
        token = SO_FAR.set(self._calls)
        call = _CALL.set((f"{self._run}/{action.id}" if self._run else "", tool.effects if tool else "read"))
        try:
            outcome, text = await self._once_at_a_time(action, tool)
        finally:
            SO_FAR.reset(token)
            _CALL.reset(call)
        text = _shortened(hidden(text))
        stale = outcome == "repeated" or self._is_old(action, tool, text, outcome)
        direct = outcome == "result" and tool is not None and tool.return_direct
        seconds = time.perf_counter() - began
        return Observation(action.id, text, outcome, seconds, NUDGE if stale else "", direct, stale)

    def _is_old(self, action: AgentAction, tool: Tool | None, text: str, outcome: Outcome) -> bool:
        """Whether the tool said just this before. Of a tool with effects, each result is news."""
        if tool is not None and (tool.polls or (outcome == "result" and tool.effects != "read")):
            return False
        return not self._seen.isdisjoint(traces(action, outcome, text))

    async def _once_at_a_time(self, action: AgentAction, tool: Tool | None) -> tuple[Outcome, str]:
        """The same call is made only once: again, it gets the former result; at the same time, it waits for it."""
        if tool is None:
            there_are = ", ".join(self._tools) or "none"
            return "unknown_tool", f"{action.tool} is not a valid tool, try one of [{there_are}]."
        key = _key(action)
        if (size := len(key[1])) > MAX_INPUT:
            return (
                "invalid_input",
                f"The input of {tool.name} has {size:,} characters; the most is {MAX_INPUT:,}.",
            )
        if tool.polls:
            return await _outcome(action, tool)
        while under_way := self._running.get(key):
            await under_way.wait()
        if (former := self._said.get(key)) is not None:
            return "repeated", f"You used {tool.name} with this input before. Its result was: {former}"
        done = self._running[key] = asyncio.Event()
        try:
            outcome, text = await _outcome(action, tool)
            if outcome == "result":
                self._said[key] = _shortened(hidden(text))
            return outcome, text
        finally:
            del self._running[key]
            done.set()


async def _outcome(action: AgentAction, tool: Tool) -> tuple[Outcome, str]:
    try:
        return "result", await tool.call(action.tool_input)
    except InvalidInput as error:
        return "invalid_input", f"The input of {tool.name} is not valid: {error}"
    except TimeoutError:
        return "timed_out", f"{tool.name} did not finish in time (its limit is {tool.timeout:g} seconds)."
    except ToolError as error:
        return "failed", f"{tool.name} failed: {error}"
    except Exception as error:  # a tool may raise anything; the model is told, the run goes on
        return "failed", f"{tool.name} failed: {type(error).__name__}: {error}"


def _key(action: AgentAction) -> tuple[str, str]:
    value = action.tool_input
    text = " ".join(value.split()) if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return action.tool, text


def _shortened(text: str) -> str:
    if len(text) <= MAX_RESULT:
        return text
    return f"{text[:MAX_RESULT]} … ({len(text) - MAX_RESULT:,} more characters)"
