"""Runs the actions of a step: find the tool, check the input, call it, and turn every failure into an observation.

A result that is no news counts as a step in circles. Boilerplate that accompanies any result does not count. Results
for different inputs may differ only in a number ("2103 thousand", "520 thousand"), so a new number counts as news.
Exceptions: request ids, timestamps and durations; any number in an error; and any number in the output for an input
that was only spelled differently."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

from ..._internal.containment import TimedOut, call_contained, describe_error
from ..._internal.foreign_text import make_well_formed
from ..._internal.redaction import redact
from ...errors import UsageError
from ..budgets import Budget
from ..run_context import StaleCall, ToolCall, current_run, run_context
from ..run_texts import MOST_KEPT
from ..values import AgentAction, Decision, File, Observation, Outcome
from .delegation import Answer, Delegate, MemberCall, Pending, ask_member, is_member, makes_helpers
from .helpers import RunHelpers, reads_helpers
from .long_results import HEAD, READ_RESULT
from .signature import InvalidInput
from .tool import Effects, Tool

logger = logging.getLogger(__name__)
MAX_INPUT = 2**18  # characters of a call's input
MAX_RESULT = Tool.max_result
KeepFiles = Callable[[Sequence[File]], Awaitable[str]]
UNKNOWN = "(Whether this call of {} took effect is not known. It is not made again unless a person says so.)"
DOUBT = (
    "{} was begun before and its outcome is unknown: did it happen? It may still be under way and happen later; no "
    "decision stops that."
)
NUDGE = "(Nothing new came of this. Use what you have seen, try something else, or give the final answer.)"
_HINT = (
    "whether it took effect is not known (if it does no harm to call it again, say so: effects='read' or 'idempotent'; "
    "for exceptions that mean that nothing happened there is not_done)"
)
_SETTLING = frozenset({"result", "unknown", "failed", "timed_out"})
_SORTED = json.JSONEncoder(sort_keys=True, default=repr)


@dataclass(slots=True)
class _Record:
    """What came of equal calls so far."""

    result: str | None = None
    pending: Pending | None = None  # its member's run has not ended
    doubt: str | None = None  # if it is unknown whether the last of them took effect: what it ended with, if anything,
    is_news: bool = False  # and whether that became so in this drive
    failed: str = ""  # for calls that may be repeated: the id of the first that failed
    under_way: asyncio.Event | None = None


class Toolbox:
    """The tools of one run, and the outcomes of its calls so far. `run` is the run's key; `delegate` runs members.
    `keep` stores files that a tool returned, and says why it cannot. Helpers are made of the run's `spec`. A model is
    shown at most so many characters of a result at once as its tool and `most` say; `read_result`, which every run
    knows, reads on."""

    __slots__ = (
        *("_calls", "_delegate", "_doubts", "_keep", "_most", "_records", "_run", "_seen", "_settled", "_tools"),
        "helpers",
    )

    def __init__(
        self,
        tools: Iterable[Tool],
        run: str = "",
        delegate: Delegate | None = None,
        keep: KeepFiles | None = None,
        spec: Any = None,
        most: int | None = None,
    ) -> None:
        self._run = run
        self._most = most
        self._keep = keep
        self._delegate = delegate
        self._tools: dict[str, Tool] = {}
        self._records: defaultdict[tuple[str, str], _Record] = defaultdict(_Record)
        self._doubts = False  # whether any call was ever in doubt, which is rare
        self._settled: dict[str, None] = {}  # ids of calls that are already in the records
        self._seen: dict[int, None] = {}  # an empty set takes three times as much memory
        self._calls: list[tuple[Tool, AgentAction, Observation]] = []
        for tool in tools:
            if tool.name in self._tools:
                raise UsageError(f"two tools are called '{tool.name}'; give one of them another name")
            self._tools[tool.name] = tool
        self.helpers = RunHelpers(self._tools, delegate, spec)

    @property
    def lasting(self) -> frozenset[str]:
        """The tools whose last result always counts."""
        return frozenset(name for name, tool in self._tools.items() if tool.keeps_last)

    def limit(self, name: str) -> int:
        """Return how many characters of the tool's result a model is shown at once."""
        tool = self._find_tool(name)
        most = MAX_RESULT if tool is None else tool.max_result
        return most if self._most is None or most != MAX_RESULT else min(most, self._most)

    def _find_tool(self, name: str) -> Tool | None:
        return self._tools.get(name) or (READ_RESULT if name == READ_RESULT.name else None)

    # ── what the run asks before and after a call ──────────────────────────────────────────────────

    def needs_human(self, action: AgentAction, *, begun: bool) -> str:
        """Return why a person must approve this action, or an empty string. `begun`: it was begun before with an
        unknown outcome; an equal call with an unknown outcome counts, too."""
        tool = self._find_tool(action.tool)
        if tool is None or (begun and self._can_continue(action)):
            return ""
        doubt = self._find_record(action).doubt
        if (begun or doubt is not None) and tool.find_effects(action.tool_input) == "once":
            return DOUBT.format(tool.name) + (f" It ended with: {doubt}" if doubt else "")
        return f"{tool.name} runs only with a person's approval" if tool.approval and not begun else ""

    def has_news(self, action: AgentAction) -> bool:
        """Return whether an equal call got an unknown outcome in this drive, which outdates earlier decisions."""
        return self._find_record(action).is_news

    def is_in_doubt(self, action: AgentAction) -> bool:
        """Return whether it is unknown if an equal call took effect."""
        record = self._find_record(action)
        return record.doubt is not None or record.is_news

    def _find_record(self, action: AgentAction) -> _Record:
        """Return the record of equal calls; the key is computed only if any call is in doubt."""
        return self._records[self._make_key(action)] if self._doubts else _Record()

    def edit_problem(self, action: AgentAction, decision: Decision) -> str:
        """Return why the input to which a person edited this action does not fit its tool, or an empty string."""
        tool = self._find_tool(action.tool)
        if tool is None or decision.kind != "edit" or decision.tool_input is None:
            return ""
        try:
            call_contained(tool.signature.arguments, decision.tool_input)
        except InvalidInput as error:
            return f"the edited input of {tool.name} is not valid: {error}"
        except Exception:  # a check may raise anything; the call shows it
            return ""
        return ""

    def same(self, one: AgentAction, other: AgentAction) -> bool:
        """Return whether the two are equal calls: the same tool, with equivalent inputs."""
        return one.tool == other.tool and self._make_key(one) == self._make_key(other)

    def restore(self, action: AgentAction, observation: Observation | None) -> None:
        """Restore a call begun in an earlier drive, with its outcome (`None`: unknown, unless its member's run can be
        continued)."""
        if observation is not None:
            self.helpers.note(action, observation)
            self._settled[action.id] = None
        elif self._can_continue(action):
            return
        self._settle(action, observation)

    def remember(self, action: AgentAction, observation: Observation) -> None:
        """Store a result, so that the same call is not repeated but gets this result."""
        if action.id not in self._settled or not action.id:
            self._settle(action, observation)
        self._seen |= dict.fromkeys(self._trace(action, observation.outcome, observation.text, observation.size))
        self.helpers.note(action, observation)
        if observation.size and observation.outcome == "result":
            self._records[self._make_key(action)].result = observation.text
        if (tool := self._find_tool(action.tool)) is not None:
            self._calls.append((tool, action, observation))

    def _trace(self, action: AgentAction, outcome: Outcome, text: str, size: int) -> frozenset[int]:
        """Return the traces of an observation whose text is whole or, if its `size` is above the limit, may be cut."""
        limit = self.limit(action.tool)
        return _find_traces(action, outcome, f"{text[: min(HEAD, limit // 2)]}\0{size:x}\0" if size > limit else text)

    def _settle(self, action: AgentAction, observation: Observation | None) -> None:
        tool, outcome = self._find_tool(action.tool), "unknown" if observation is None else observation.outcome
        if tool is not None and outcome in _SETTLING:
            record = self._records[self._make_key(action)]
            effects = tool.find_effects(action.tool_input)
            self._note(tool, effects, record, action.id, outcome, observation.text if observation else "")

    def _note(self, tool: Tool, effects: Effects, record: _Record, call: str, outcome: str, text: str) -> None:
        """Record what `outcome` means for equal calls."""
        if outcome == "result":
            record.result = _shorten(redact(text), tool.max_result)
            record.doubt, record.is_news, record.failed = None, False, ""
        elif outcome == "unknown" and effects == "once":
            record.doubt, self._doubts = " ".join(_shorten(redact(text), 300).split()), True
        elif effects == "idempotent":
            record.failed = record.failed or call

    def _can_continue(self, action: AgentAction) -> bool:
        """Return whether the call is of a member, or a helper, whose run can be continued."""
        tool = self._find_tool(action.tool)
        member = is_member(tool) or makes_helpers(tool)
        return self._delegate is not None and member and self._delegate.can_continue(action.id)

    def _make_key(self, action: AgentAction, arguments: Mapping[str, Any] | None = None) -> tuple[str, str]:
        """Return the key that equal calls share; `arguments` are those of the action, if already checked."""
        if (tool := self._find_tool(action.tool)) is not None:
            try:
                checked = (
                    call_contained(tool.signature.arguments, action.tool_input) if arguments is None else arguments
                )
                return tool.name, call_contained(tool.signature.key, checked)
            except Exception:  # invalid, or not comparable
                pass
        return action.tool, _format_input(action)

    # ── a call ─────────────────────────────────────────────────────────────────────────────────────

    async def run(self, action: AgentAction, share: Callable[[], Budget] = Budget) -> Observation:
        """Run one action. Mistakes of the model or the tool become observations and are never raised. `share` returns
        the budget of a member's run. Raises `Pending` if that run has not ended."""
        began = time.perf_counter()
        tool = self._find_tool(action.tool)
        call = ToolCall(action.id, action.tool, self._calls)
        with run_context(replace(current_run(), call=call)):
            try:
                outcome, text = await self._answer_call(action, tool, share, call)
            finally:
                call.is_over = True
        direct = outcome == "result" and tool is not None and tool.return_direct
        text = _shorten(redact(make_well_formed(text)), tool.max_result if direct and tool else MOST_KEPT)
        shown, data = (tuple(call.files), call.data) if outcome == "result" else ((), None)
        if shown and self._keep is not None and (problem := await self._keep(shown)):
            text, shown = f"{text}\n(Its files are not shown: {problem})", ()
        # For a tool with effects, each result is news.
        known = tool is None or not (tool.polls or (outcome == "result" and tool.effects != "read"))
        stale = outcome == "repeated" or (
            known and not self._seen.keys().isdisjoint(self._trace(action, outcome, text, len(text)))
        )
        note = UNKNOWN.format(action.tool) if outcome == "unknown" else NUDGE if stale else ""
        seconds = max(call.seconds, time.perf_counter() - began)
        states = tuple(call.helpers)
        return Observation(action.id, text, outcome, seconds, note, direct, stale, call.usage, shown, data, states)

    async def _answer_call(
        self, action: AgentAction, tool: Tool | None, share: Callable[[], Budget], call: ToolCall
    ) -> Answer:
        if tool is None:
            there_are = ", ".join(self._tools) or "none"
            return "unknown_tool", f"{action.tool} is not a valid tool, try one of [{there_are}]."
        if (size := len(_format_input(action))) > MAX_INPUT:
            return "invalid_input", f"The input of {tool.name} has {size:,} characters; the most is {MAX_INPUT:,}."
        try:
            arguments = call_contained(tool.signature.arguments, action.tool_input)
        except InvalidInput as error:
            return "invalid_input", f"The input of {tool.name} is not valid: {error}"
        except Exception as error:  # a check may raise anything
            return "failed", f"{tool.name} failed: {describe_error(error)}"
        record = self._records[self._make_key(action, arguments)]
        call.effects = tool.find_effects(action.tool_input)
        make = partial(self._make_call, tool, arguments, record, call, share)
        return await (make() if tool.polls else _deduplicate_call(tool, record, make))

    async def _make_call(
        self, tool: Tool, arguments: Mapping[str, Any], record: _Record, call: ToolCall, share: Callable[[], Budget]
    ) -> Answer:
        first = record.failed or call.id  # a retry keeps the first call's key
        call.key = f"{self._run}/{first}" if self._run else ""
        if self._delegate is not None and is_member(tool):
            member = MemberCall(tool, str(arguments["query"]), call.id, share)
            outcome, text = await ask_member(self._delegate, member, call)
        elif self._delegate is not None and (makes_helpers(tool) or reads_helpers(tool)):
            outcome, text = await self.helpers.call(tool, arguments, call, share)
        else:
            outcome, text = await _call_tool(tool, call.effects, arguments)
        self._settled[call.id] = None
        self._note(tool, call.effects, record, call.id, outcome, text)
        record.is_news = record.is_news or outcome == "unknown"
        return outcome, text


async def _deduplicate_call(tool: Tool, record: _Record, make: Callable[[], Awaitable[Answer]]) -> Answer:
    """Make the call, unless an equal one was made: a repeated call gets the earlier result, and a concurrent one waits
    for it."""
    waited = record.under_way is not None
    while record.under_way is not None:
        await record.under_way.wait()
    if record.result is not None:
        return "repeated", f"You used {tool.name} with this input before. Its result was: {record.result}"
    if record.pending is not None:
        raise record.pending
    if waited and record.doubt is not None:
        return "unknown", f"{tool.name} was called with this input at the same time, and is not called twice."
    done = record.under_way = asyncio.Event()
    try:
        if tool.effects == "once":  # equal calls of the same turn find this one under way
            await asyncio.sleep(0)
        return await make()
    except Pending as pending:
        record.pending = pending
        raise
    finally:
        record.under_way = None
        done.set()


async def _invoke(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """Run the tool once it is sure that the run is still this process's. Raises what `confirm` and the tool raise."""
    while True:
        try:
            return await tool.invoke(arguments)
        except StaleCall:
            await current_run().confirm()


async def _call_tool(tool: Tool, effects: Effects, arguments: Mapping[str, Any]) -> Answer:
    outcome: Outcome = "failed"
    try:
        return "result", await _invoke(tool, arguments)
    except TimedOut as error:
        problem: Exception = error
        outcome, text = "timed_out", f"{tool.name} did not finish in time (its limit is {tool.timeout:g} seconds)."
    except Exception as error:  # a tool may raise anything; the model is told and the run continues
        problem, text = error, f"{tool.name} failed: {describe_error(error)}"
    if effects != "once" or tool.was_not_done(problem):
        return outcome, text
    logger.warning("%s; %s", redact(text).rstrip("."), _HINT)
    return "unknown", text


def _format_input(action: AgentAction) -> str:
    value = action.tool_input
    return " ".join(value.split()) if isinstance(value, str) else _SORTED.encode(value)


def _shorten(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]} … ({len(text) - length:,} more characters)"


# ── news ───────────────────────────────────────────────────────────────────────────────────────────

_ABOUT_THE_REQUEST = re.compile(
    r"\b(?:request|attempt|retry|trace|correlation)(?:[ _-]?(?:id|no\.?|number))?[\"']?[ \t]{0,4}[:=#(]?[ \t\"'#]{0,4}"
    r"(?=[a-f-]{0,40}\d)[0-9a-f-]{1,40}\b"
    r"|\b(?:as of|checked|fetched|generated|queried|requested|retrieved|served)(?: at| on)?:? "
    r"(?:\d{4}-\d\d-\d\d[T ]?)?(?:\d\d?:\d\d(?::\d\d)?(?:[.,]\d{1,9})?)?(?:Z\b|[+-]\d\d:?\d\d)?"
    r"|\b(?:in|took) [\d.]{1,20} ?(?:ms|milliseconds)\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d++(?:[.,:]\d++)*+")
_AROUND = " \t\n\"'?!.;"


def _find_traces(action: AgentAction, outcome: Outcome, text: str) -> frozenset[int]:
    """Return the traces of an observation. The observation is news if none of its traces was seen before."""
    return _compute_traces(action.tool, _format_input(action), outcome, text)


@lru_cache(maxsize=16)  # computed when an observation is made, and again when it is recorded
def _compute_traces(tool: str, written: str, outcome: Outcome, text: str) -> frozenset[int]:
    plain = _NUMBER.sub("0", text)
    kept = {_ABOUT_THE_REQUEST.sub("", text), f"{plain}\x00{' '.join(written.lower().split()).strip(_AROUND)}"}
    if outcome != "result":
        kept.add(f"{plain}\x00\x00{outcome}")
    return frozenset([hash((tool, one)) for one in kept])
