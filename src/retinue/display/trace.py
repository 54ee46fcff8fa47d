"""A run's trace for people, derived from its events.

Each step shows the thought, the actions, the observations and their cost; the answer appears once, at the end.
"""

from __future__ import annotations

import json
import os
import re
from typing import TextIO, assert_never

from ..core.events import (
    Asked,
    Called,
    Delta,
    Event,
    Finished,
    Observed,
    Paused,
    Replied,
    Resumed,
    Retried,
    Said,
    Started,
    Stopped,
)
from ..core.run_result import RunResult
from ..core.values import AgentAction, Observation, Reply, StopReason, Usage
from .terminal import Wrapping, cells, clean, columns, is_terminal, put

_SHOWN = 600  # characters of an observation, and of a thought
_SHOWN_NESTED = 200  # of an agent that was called
_DECIDED = re.compile(
    r"^[ \t>*_#`-]*(?:action|tool|follow[ _-]?up|(?:so the )?final[ _]answer|observation)\b[^:\n]{0,40}:",
    re.IGNORECASE | re.MULTILINE,
)
_LABEL = re.compile(r"^[\s>*_#`-]*thought[ \t]*\d*[*_`]*:[*_`]*", re.IGNORECASE)
_IN_JSON = re.compile(r'"thought"\s*+:\s*+("(?:[^"\\]|\\.)*+")')
_ANSWER_NEXT = re.compile(r"(?:final answer|final answer is):\s*\Z", re.IGNORECASE)
_Shown = Started | Asked | Retried | Called | Observed | Paused | Resumed | Finished | Stopped
_PLAIN, _BOLD, _DIM, _ANSWER = "\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[1;36m"
_GOOD, _ODD, _DOING = "\x1b[32m", "\x1b[33m", "\x1b[34m"


class Trace:
    """Writes events to `out`: in a terminal with colors and wrapped to its width.

    `written` is the part of the current reply already written; `answering`: the answer is being written.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._colours = is_terminal(out) and not os.environ.get("NO_COLOR")
        self.written = ""
        self._answer = ""  # the part that was shown
        self._wrapping: Wrapping | None = None
        self._thinking: Reply | None = None  # a reply of which nothing was shown yet
        self._costs: list[str] = []
        self._usage, self._seconds, self._first = Usage(), 0.0, 0.0
        self._goes_on = False  # the next reply belongs to this step
        self._nested: dict[str, str] = {}  # the names of agents that were called, by the paths of their calls

    @property
    def answering(self) -> bool:
        """Whether the answer is being written."""
        return self._wrapping is not None

    def show(self, event: Event | Delta) -> None:
        """Show one event."""
        match event:
            case Delta():
                self._delta(event)
            case Replied(reply=reply):
                self._replied(reply)
            case Said():
                pass  # was shown as it arrived
            case _:
                self._thought(event.answer if isinstance(event, Finished) else "")
                self._show(event)

    def name_of(self, path: str) -> str:
        """Return the name of the agent that was called at `path`."""
        return self._nested.get(path, "")

    def show_nested(self, path: str, event: Event | Delta) -> None:
        """Show one event of an agent that was called, at the end of a `path` of call ids."""
        if isinstance(event, Started):
            self._nested[path] = event.agent
        if shown := _nested_line(event):
            label, text, style = shown
            before = "│ " * path.count("/") + f"│ {self.name_of(path)} · "
            self._line(f"{before}{label}", _short(text, _SHOWN_NESTED), style)

    def _show(self, event: _Shown) -> None:
        match event:
            case Started():
                self._started(event)
            case Asked():
                self._asked(event)
            case Retried():
                self._void()
                self._line("", f"{event.problem}; asking again in {event.seconds:.1f} s", _ODD)
            case Called(action=action):
                self._line("Action", _call(action), _DOING)
            case Observed(observation=seen):
                self._observed(seen)
            case Paused(action=action):
                self._line("Waiting", f"for a person: {event.problem}: {_call(action)}", _ODD)
            case Resumed(decision=decision):
                self._line("Decided", f"by a person: {decision.kind}", _ODD)
            case Finished(answer=answer):
                self._answered("Answer", answer)
            case Stopped():
                self._answered("Answer" if event.answer else "So far", event.answer or event.best)
            case _:
                assert_never(event)

    def end(self, result: RunResult) -> None:
        """Show why the run stopped, unless with an answer, and its cost."""
        self._step_ends()
        self._rule()
        if result.stop_reason is not StopReason.ANSWER:
            detail = next((event.detail for event in result.events if isinstance(event, Stopped) and event.detail), "")
            self._line("Stopped", f"{result.stop_reason}{': ' + detail if detail else ''}", _BOLD)
        count = len(result.steps)
        words = [_count(result.usage.requests, "reply", "replies")] + [_count(count, "tool step")] * bool(count)
        self._line("", ", ".join([*words, f"{result.seconds:.1f} s", _tokens(result.usage)]), _DIM)

    # ── a step ───────────────────────────────────────────────────────────────────────────────────

    def _started(self, event: Started) -> None:
        self._line("", f"{event.model}{' with ' * bool(event.tools)}{', '.join(event.tools)}", _DIM)
        if event.abilities.problem:
            self._line("", f"no native tool calls here: {event.abilities.problem}", _ODD)
        self._line("Question", event.question, _BOLD)

    def _asked(self, event: Asked) -> None:
        if not self._goes_on:
            self._step_ends()
            self._rule(_mark(event))
        self._goes_on = False
        self.written = ""

    def _delta(self, event: Delta) -> None:
        if event.answer:
            if self._wrapping is None:
                self._thought_in(self.written)
                self._answer = ""
                self._put("Answer: ", _ANSWER)
                self._wrapping = self._after("Answer: ")
            self._answer += event.answer
            self._put(self._wrapping.add(clean(event.answer)), _ANSWER)
        self.written += event.text

    def _replied(self, reply: Reply) -> None:
        if self._wrapping is None:
            self._thinking = reply
        self._usage += reply.usage
        self._first = self._first or reply.first_token_seconds
        self._seconds += reply.seconds
        self._goes_on = bool(_ANSWER_NEXT.search(reply.text)) and not reply.calls

    def _thought(self, answer: str) -> None:
        """Show the thought in a reply, once its outcome is known."""
        if self._thinking is not None:
            text, self._thinking = self._thinking.text, None
            if text.strip() != answer.strip():
                self._thought_in(text)

    def _thought_in(self, text: str) -> None:
        if thought := _thought(text):
            self._line("Thought", _short(thought))

    def _observed(self, seen: Observation) -> None:
        good = seen.outcome in ("result", "repeated")
        self._line("Observation", _short(seen.text), _GOOD if good else _ODD)
        if seen.note:
            self._line("Note", seen.note, _ODD)
        self._costs.append(f"{'tool' if good else seen.outcome.replace('_', ' ')} {seen.seconds:.1f} s")

    def _step_ends(self) -> None:
        """Show the cost of the step."""
        if self._usage.requests or self._seconds:
            model = f"model {self._seconds:.1f} s (first word after {self._first:.1f} s)"
            self._line("", " · ".join([model, *self._costs, _tokens(self._usage)]), _DIM)
        self._costs, self._usage, self._seconds, self._first = [], Usage(), 0.0, 0.0

    def _answered(self, label: str, answer: str) -> None:
        """Show the answer, or the rest of it."""
        shown, self._goes_on = self._answer, False
        if self._wrapping is not None and answer.startswith(shown):
            self._put(self._wrapping.add(clean(answer[len(shown) :])), _ANSWER)
            self._void()
            return
        self._void()
        if answer:
            self._line(label, answer, _ANSWER)

    def _void(self) -> None:
        """End the line of a partially written answer."""
        if self._wrapping is not None:
            self._put(self._wrapping.end() + "\n", _ANSWER)
        self._wrapping, self.written = None, ""

    # ── lines ────────────────────────────────────────────────────────────────────────────────────

    def _after(self, begin: str) -> Wrapping:
        """Return the wrapping of a paragraph after its beginning."""
        return Wrapping(columns(self._out), cells(begin), "  " if columns(self._out) else "")

    def _line(self, label: str, text: str, style: str = "") -> None:
        """Write a paragraph with its label."""
        self._void()
        begin = f"{label}: " if label else ""
        wrapping = self._after(begin)
        self._put(f"{begin}{wrapping.add(clean(text).strip())}{wrapping.end()}\n", style)

    def _rule(self, mark: str = "") -> None:
        begin = f"── {mark} " if mark else ""
        self._line("", begin + "─" * max(3, (columns(self._out) or 80) - cells(begin) - 1), _DIM)

    def _put(self, text: str, style: str = "") -> None:
        if text:
            ending = "\n" * text.endswith("\n")
            coloured = self._colours and style and text != ending
            put(self._out, f"{style}{text.removesuffix(ending)}{_PLAIN}{ending}" if coloured else text)


def _nested_line(event: Event | Delta) -> tuple[str, str, str] | None:
    """Return label, text and style of an event of an agent that was called; `None` if it is not shown."""
    match event:
        case Started(question=question):
            return "Question", question, _BOLD
        case Called(action=action):
            return "Action", _call(action), _DOING
        case Observed(observation=seen):
            return "Observation", seen.text, _GOOD if seen.outcome in ("result", "repeated") else _ODD
        case Paused(action=action):
            return "Waiting", f"for a person: {event.problem}: {_call(action)}", _ODD
        case Resumed(decision=decision):
            return "Decided", f"by a person: {decision.kind}", _ODD
        case Retried():
            return "Retry", f"{event.problem}; asking again in {event.seconds:.1f} s", _ODD
        case Finished(answer=answer):
            return "Answer", answer, _ANSWER
        case Stopped(reason=reason):
            return "Stopped", f"{reason}{': ' + event.detail if event.detail else ''}", _ODD
    return None


def _thought(text: str) -> str:
    """Return the text of a reply before its action or answer."""
    if text.lstrip().startswith(("{", "[", "```")):
        return _of_json(text)
    decided = _DECIDED.search(text)
    return _LABEL.sub("", text[: decided.start()] if decided else text).strip()


def _of_json(text: str) -> str:
    """Return the thought in a complete or partial JSON reply."""
    written = _IN_JSON.search(text)
    try:
        return str(json.loads(written[1], strict=False)) if written else ""
    except ValueError:
        return ""


def _mark(event: Asked) -> str:
    notes = [f"step {event.step}", "beside it" * event.aside, "the last" * event.closing]
    notes.append(f"the reply was not usable: {clean(event.problem)}" if event.problem else "")
    notes.append("the window is full: oldest observations shortened" if event.shortened else "")
    return ", ".join(filter(None, notes))


def _call(action: AgentAction) -> str:
    given = action.tool_input
    if isinstance(given, dict):
        return f"{action.tool}({', '.join(f'{key}={_json(value)}' for key, value in given.items())})"
    return f"{action.tool}({_json(given)})"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _short(text: str, most: int = _SHOWN) -> str:
    return text if len(text) <= most else f"{text[:most]} …"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def _tokens(usage: Usage) -> str:
    cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    cost = f", cost {usage.cost:.4g}" if usage.cost else ""
    return f"{usage.input_tokens:,} tokens in{cached}, {usage.output_tokens:,} out{cost}"
