"""A run shown as a tree: agents and the members that they call, their steps, calls, outcomes and costs.

A tree is derived from events. It reads the same live and afterwards: members that work side by side are shown one after
the other, each where it was called. `RunTree` has a `Branch` for each run, and `Section` writes in order what arrives
side by side.
"""

from __future__ import annotations

import json
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TextIO, assert_never

from ..core.events import (
    ENDINGS,
    Asked,
    Called,
    Compacted,
    Delta,
    Event,
    Finished,
    Judged,
    Observed,
    Paused,
    Replied,
    Reported,
    Resumed,
    Retried,
    Said,
    Started,
    Stopped,
)
from ..core.run_result import RESTING, RunResult, find_ending
from ..core.values import AgentAction, Observation, Reply, StopReason, Usage
from .terminal import ANSWER, BOLD, DIM, DOING, GAP, GOOD, ODD, Page, Paragraph, clean
from .work_lines import list_work_lines

_ANSWER_NEXT = re.compile(r"(?:final answer|final answer is):\s*\Z", re.IGNORECASE)
_DECIDED = re.compile(
    r"^[ \t>*_#`-]*(?:action|tool|follow[ _-]?up|(?:so the )?final[ _]answer|observation)\b[^:\n]{0,40}:",
    re.IGNORECASE | re.MULTILINE,
)
_LABEL = re.compile(r"^[\s>*_#`-]*thought[ \t]*\d*[*_`]*:[*_`]*", re.IGNORECASE)
_IN_JSON = re.compile(r'"thought"\s*+:\s*+("(?:[^"\\]|\\.)*+")')
_CONSULTED = "consult_"  # with which ids of questions to a person begin that no call follows


@dataclass(frozen=True, slots=True)
class View:
    """What is shown of a run.

    Args:
        most: Characters of each text; of members' texts, half as many (0: all).
        verbose: Also shows prompts and replies word for word.
        head: Shows the agent, its tools and the question first.
    """

    most: int = 600
    verbose: bool = False
    head: bool = True


class RunTree:
    """Writes the events of a run and of its members with `write`, for the place `out`.

    Paths of call ids name the members' runs (`call_1_0/call_2_0`); that of the run itself is empty.
    """

    def __init__(self, out: TextIO, write: Callable[[str], None], view: View = View()) -> None:
        self._page = Page(out)
        self._view = view
        self._section = Section(write)
        self._branches = {"": Branch(self._page, view, self._section)}

    def show(self, path: str, event: Event | Delta, at: float = 0.0) -> None:
        """Show one event of the run at `path`, which happened `at` this Unix time (0: unknown)."""
        branch = self._find_branch(path)
        branch.show(event, at)
        if path and isinstance(event, ENDINGS):
            above, _, call = path.rpartition("/")
            self._find_branch(above).note_answer(call, branch.answer)

    def write_head(self, title: str) -> None:
        """Write a line above the tree, unless it is empty."""
        if title:
            self._section.write(self._page.wrap_paragraph("", "", (title, DIM)))

    def quote(self, path: str, title: str, text: str) -> None:
        """Show a text word for word, set off from the rest."""
        self._find_branch(path).quote(title, text)

    def name_of(self, path: str) -> str:
        """Return the name of the member at `path`, after those of its callers."""
        ends = [at for at, one in enumerate(path) if one == "/"] + [len(path)] * bool(path)
        return " › ".join(self._find_branch(path[:end]).name or "member" for end in ends)

    def read_written(self, path: str) -> str:
        """Return what the model of the run at `path` has written of its current reply, or else thought."""
        return self._find_branch(path).written or self._find_branch(path).reasoning

    def end(self, result: RunResult[object]) -> None:
        """Close the tree with what the run took, unless its only step says it."""
        steps, usage = len(result.steps), result.usage
        took = [f"{usage.requests} {'reply' if usage.requests == 1 else 'replies'}"]
        took += [f"{steps} tool step{'s' * (steps != 1)}"] * bool(steps)
        total = ", ".join([*took, f"{result.seconds:.1f} s", _format_tokens(usage)])
        said = usage.requests == 1 and result.stop_reason is StopReason.ANSWER and not steps
        for path in sorted(self._branches, key=len, reverse=True):
            self._branches[path].end("" if path or said else total)
        self._section.close()

    def show_result(self, result: RunResult[object]) -> None:
        """Show a whole run."""
        for path, event in _order_events(result.events, result.children):
            self.show(path, event)
        self.end(result)

    def _find_branch(self, path: str) -> Branch:
        if path not in self._branches:
            above, _, call = path.rpartition("/")
            section, prefix = self._find_branch(above).place_member(call)
            view = replace(self._view, most=self._view.most // 2, head=True)
            self._branches[path] = Branch(self._page, view, section, prefix, top=False)
        return self._branches[path]


def _order_events(
    log: Sequence[Event], children: Mapping[str, Sequence[Event]], path: str = ""
) -> Iterator[tuple[str, Event]]:
    """Yield the events of a run and of its members with their paths, a member's where it was called."""
    for event in log:
        yield path, event
        if isinstance(event, Called):
            below = f"{path}/{event.action.id}" if path else event.action.id
            yield from _order_events(children.get(below, ()), children, below)


@dataclass(slots=True)
class _OpenCall:
    section: Section
    inside: str  # the branches before what belongs to the call
    shown: AgentAction | None = None
    answer: str | None = None  # of the member that was called, if it has ended


class Branch:
    """Writes the events of a run to `section`, behind the branches `prefix`. Only the `top` shows its answer as it
    comes.

    `written` is the part of the current reply that came already, and `reasoning` what the model thought before it.
    """

    def __init__(self, page: Page, view: View, section: Section, prefix: str = "", *, top: bool = True) -> None:
        self._page = page
        self._view = view
        self._section = section
        self._prefix = prefix
        self._top = top
        self.name = ""
        self.written = ""
        self.reasoning = ""
        self.answer = ""
        self._shown = ""  # the part of the answer that was shown
        self._stream: Paragraph | None = None  # the line of an answer that is being written
        self._thought = ""  # the text of a reply of which nothing was shown yet
        self._usage, self._seconds, self._first = Usage(), 0.0, 0.0
        self._goes_on = False  # the next reply belongs to this step
        self._closed = False
        self._rests: Stopped | None = None
        self._inside = prefix  # the branches before what belongs to the step, or to the run outside of steps
        self._open: dict[str, _OpenCall] = {}

    def show(self, event: Event | Delta, at: float = 0.0) -> None:
        """Show one event, which happened `at` this time (0: now)."""
        match event:
            case Delta():
                self._show_delta(event)
            case Replied(reply=reply):
                self._note_reply(reply)
            case Said():
                pass  # was shown as it arrived
            case _:
                self._rests = None
                thought, self._thought = self._thought, ""
                if not isinstance(event, Finished) or thought.strip() != event.answer.strip():
                    self._say_thought(thought)
                if not isinstance(event, Started | Finished | Stopped):
                    self._end_stream()
                self._show_event(event, at)

    def _show_event(
        self,
        event: Started
        | Asked
        | Compacted
        | Retried
        | Called
        | Observed
        | Paused
        | Resumed
        | Judged
        | Reported
        | Finished
        | Stopped,
        at: float,
    ) -> None:
        match event:
            case Started():
                self._show_start(event)
            case Asked():
                self._begin_step(event, at)
            case Retried():
                self._closed = False
                again = f"asking {event.model}" if event.model else f"asking again in {event.seconds:.1f} s"
                self._put_line(f"{event.problem}; {again}", ODD)
            case Called() | Observed() | Paused() | Resumed():
                self._show_call(event)
            case Judged() | Reported() | Compacted():
                self._show_remark(event)
            case Finished(answer=answer):
                self._show_answer("Answer", answer)
                self._end_step()
            case Stopped() if event.reason in RESTING and not event.answer:
                self._end_stream()
                self._rests = event
            case Stopped():
                end = find_ending([event])
                self._show_answer("Answer" if end.answered else "So far", end.answer or end.best)
                self._end_step()
                self._put_stop(event)
            case _:
                assert_never(event)

    def _show_remark(self, event: Judged | Reported | Compacted) -> None:
        match event:
            case Judged():
                said = f"the hook {event.hook}: {event.verdict}{f': {event.reason}' if event.reason else ''}"
                self._put_line(clean(said), ODD, self._open.get(event.call_id))
            case Reported(text=text, call_id=call):
                self._put_line(clean(text), DIM, self._open.get(call))
            case Compacted():
                self._put_line(event.describe(), DIM)

    def end(self, total: str) -> None:
        """Close the branch: with why the run rests, if it does, and the line `total`."""
        self._end_stream()
        self._end_step()
        if self._rests is not None:
            self._put_stop(self._rests)
        if total:
            self._put(*self._draw_edges(), (total, DIM))

    # ── what the model is asked, and says ────────────────────────────────────────────────────────

    def _show_start(self, event: Started) -> None:
        self.name = event.agent
        if not self._view.head:
            return
        words = [event.agent, event.strategy, event.model, ", ".join(event.tools)]
        self._put(self._prefix, self._prefix, (_shorten(" · ".join(filter(None, words)), self._view.most), DIM))
        if event.abilities.problem:
            problem = f"no native tool calls here: {event.abilities.problem}"
            self._put(self._prefix, self._prefix, (problem, ODD))
        if self._top:
            self._put("", GAP, (f"Question: {event.question.strip()}", BOLD))

    def _begin_step(self, event: Asked, at: float) -> None:
        if not self._goes_on:
            self._end_step()
            glyphs = self._page.glyphs
            notes = [f"step {event.step}", "beside it" * event.aside, "the last" * event.closing]
            notes.append(f"the reply was not usable: {clean(event.problem)}" if event.problem else "")
            title = ", ".join(filter(None, notes)) + (f" · {format_clock_time(at)}" if at else "")
            self._put(self._prefix + glyphs.fork, self._prefix + glyphs.bar, (title, BOLD))
            self._inside, self._closed = self._prefix + glyphs.bar, False
        self._goes_on = False
        for message in event.messages if self._view.verbose else ():
            of_tool = f"result of {message.tool or 'a tool'} ({message.call_id})"
            files = [f"[{one.media_type} {one.id[:12]}]" for one in message.files]
            text = "\n".join([*files, _write_whole(message.content, message.calls)])
            self.quote(of_tool if message.role == "tool" else message.role, text)

    def quote(self, title: str, text: str) -> None:
        """Show a text word for word, set off from the rest."""
        self._put_line(title, ODD)
        quoted = self._inside + self._page.glyphs.quote
        self._put(quoted, quoted, (text, ""))

    def _show_delta(self, event: Delta) -> None:
        if event.answer and self._top and not self._view.verbose:
            if self._stream is None:
                self._say_reasoning(self.reasoning)
                self._say_thought(self.written)
                self._shown = ""
                self._stream = self._page.begin(*self._draw_edges(plain_rest=True))
                self._section.write(self._stream.add("Answer: ", ANSWER))
            self._shown += event.answer
            self._section.write(self._stream.add(event.answer, ANSWER))
        self.written += event.text
        self.reasoning += event.reasoning

    def _note_reply(self, reply: Reply) -> None:
        if self._stream is None:
            self._say_reasoning(reply.reasoning)
        if reply.unsent:
            self._put_line(f"another model: what {reply.unsent} wanted back was not sent", ODD)
        if self._view.verbose:
            self.quote("reply", _write_whole(reply.text, reply.calls))
        elif self._stream is None:
            self._thought = reply.text  # shown once it is known whether it is the answer
        self._usage += reply.usage
        self._first = self._first or reply.first_token_seconds
        self._seconds += reply.seconds
        self._goes_on = bool(_ANSWER_NEXT.search(reply.text)) and not reply.calls

    def _say_reasoning(self, text: str) -> None:
        if text.strip():
            self._put_line(_shorten(text.strip(), 0 if self._view.verbose else self._view.most), DIM)

    def _say_thought(self, text: str) -> None:
        if thought := _read_thought(text):
            self._put_line(_shorten(thought, self._view.most), "")

    # ── calls ────────────────────────────────────────────────────────────────────────────────────

    def place_member(self, call_id: str) -> tuple[Section, str]:
        """Return where what the member does is shown that was called: a section, and the branches before it."""
        call = self._open_call(call_id)
        return call.section, call.inside

    def note_answer(self, call_id: str, answer: str) -> None:
        """Take note of how a member ended that was called: it need not be shown again."""
        if call_id in self._open:
            self._open[call_id].answer = answer.strip()

    def _show_call(self, event: Called | Observed | Paused | Resumed) -> None:
        match event:
            case Called(action=action):
                call, shown = self._begin_call(action)
                if shown.tool_input != action.tool_input:  # a person changed it
                    self._put_line(f"now {_write_call(action)}", DOING, call)
            case Paused(action=action) if "/" not in action.id:  # that of a member is shown there
                call, _ = self._begin_call(action)
                self._put_line(f"waits for a person: {event.problem}", ODD, call)
            case Resumed(call_id=call_id, decision=decision) if "/" not in call_id:
                said = f": {decision.message}" if decision.message else ""
                self._put_line(f"a person decided: {decision.kind}{said}", ODD, self._open_call(call_id))
                if call_id.startswith(_CONSULTED):
                    self._open.pop(call_id).section.close()
            case Observed(observation=seen):
                self._show_outcome(seen)

    def _open_call(self, call_id: str) -> _OpenCall:
        if call_id not in self._open:
            self._open[call_id] = _OpenCall(self._section.begin(), self._inside + self._page.glyphs.bar)
        return self._open[call_id]

    def _begin_call(self, action: AgentAction) -> tuple[_OpenCall, AgentAction]:
        """Return a call, and the action that is shown of it."""
        call = self._open_call(action.id)
        if call.shown is None:
            text, first = _shorten(_write_call(action), self._view.most), self._inside + self._page.glyphs.fork
            call.section.write(self._page.wrap_paragraph(first, call.inside, (text, DOING)))
        call.shown = call.shown or action
        return call, call.shown

    def _show_outcome(self, seen: Observation) -> None:
        call = self._open_call(seen.call_id)
        good, glyphs = seen.outcome in ("result", "repeated"), self._page.glyphs
        took = f"{seen.seconds:.1f} s" + (f", {_format_tokens(seen.usage)}" if seen.usage.requests else "")
        text = _shorten(seen.text.strip(), self._view.most)
        if isinstance(seen.data, dict) and "todos" in seen.data:
            text = text.partition("\n")[0]  # the rest is shown below, and not twice
        if call.answer is not None and (not good or (call.answer and call.answer in seen.text)):
            text = "answered" if good else "no answer"  # the member's branch says it
        outcome = "" if seen.outcome == "result" else f"{seen.outcome.replace('_', ' ')} · "
        sign, ink = (glyphs.result, GOOD) if good else (glyphs.problem, ODD)
        first, rest = call.inside + sign, call.inside + " " * len(sign)
        call.section.write(self._page.wrap_paragraph(first, rest, (text, ink), (f" · {outcome}{took}", DIM)))
        for line, colour in list_work_lines(seen.data):
            self._put_line(clean(line), colour, call)
        if seen.note:
            self._put_line(seen.note, ODD, call)
        self._open.pop(seen.call_id).section.close()

    # ── the answer, and the end ──────────────────────────────────────────────────────────────────

    def _show_answer(self, label: str, answer: str) -> None:
        """Show the answer, or the rest of it."""
        self.answer, self._goes_on = answer, False
        if self._stream is not None and answer.startswith(self._shown):
            self._section.write(self._stream.add(answer[len(self._shown) :], ANSWER))
            self._end_stream()
            return
        self._end_stream()
        if answer:
            text = answer if self._top else _shorten(answer, self._view.most)
            self._put(*self._draw_edges(plain_rest=self._top), (f"{label}: {text.strip()}", ANSWER))

    def _end_stream(self) -> None:
        """End the line of a partially written answer."""
        if self._stream is not None:
            self._section.write(self._stream.end())
        self._stream, self.written, self.reasoning = None, "", ""

    def _end_step(self) -> None:
        """End the step with what it took."""
        while self._open:
            self._open.pop(next(iter(self._open))).section.close()
        if self._usage.requests or self._seconds:
            first = f" (first word after {self._first:.1f} s)" if self._first else ""
            cost = f"model {self._seconds:.1f} s{first} · {_format_tokens(self._usage)}"
            outer = self._prefix + ("" if self._closed else self._page.glyphs.bar)
            self._put(outer + (GAP if self._closed else self._page.glyphs.last), outer + GAP, (cost, DIM))
        self._usage, self._seconds, self._first = Usage(), 0.0, 0.0
        self._inside = self._prefix

    def _put_stop(self, event: Stopped) -> None:
        why = f"Stopped: {event.reason}{': ' + event.detail if event.detail else ''}"
        self._put(*self._draw_edges(), (why, BOLD))

    def _draw_edges(self, *, plain_rest: bool = False) -> tuple[str, str]:
        """Return the branches before the last lines of the run: its answer, or why it stopped."""
        first = self._prefix + (GAP if self._closed else self._page.glyphs.last)
        self._closed = True
        return first, "" if plain_rest and self._page.is_plain else self._prefix + GAP

    def _put_line(self, text: str, ink: str, call: _OpenCall | None = None) -> None:
        section, inside = (call.section, call.inside) if call else (self._section, self._inside)
        section.write(self._page.wrap_paragraph(inside, inside, (text, ink)))

    def _put(self, first: str, rest: str, piece: tuple[str, str]) -> None:
        self._section.write(self._page.wrap_paragraph(first, rest, piece))


class Section:
    """A part of a text. It has text and further sections, in the order in which they were begun.

    What is written to the first open section goes out at once. What is written to later ones waits until those before
    them are closed.
    """

    def __init__(self, write: Callable[[str], None], top: Section | None = None) -> None:
        self._write = write
        self._top = top or self
        self._parts: deque[str | Section] = deque()
        self._closed = False

    def write(self, text: str) -> None:
        """Add text at the end."""
        if text:
            self._parts.append(text)
            self._top._flush()

    def begin(self) -> Section:
        """Begin a section at the end."""
        section = Section(self._write, self._top)
        self._parts.append(section)
        return section

    def close(self) -> None:
        """End this section and those in it: what comes after it is not held back any more."""
        self._end()
        self._top._flush()

    def _end(self) -> None:
        self._closed = True
        for part in self._parts:
            if isinstance(part, Section):
                part._end()

    def _flush(self) -> bool:
        """Write what can be written; return whether that is all of it, for good."""
        while self._parts:
            first = self._parts[0]
            if isinstance(first, str):
                self._write(first)
            elif not first._flush():
                return False
            self._parts.popleft()
        return self._closed


# ── texts ────────────────────────────────────────────────────────────────────────────────────────


def _read_thought(text: str) -> str:
    """Return the text of a reply before its action or answer; of a reply in JSON, which may be partial, its thought."""
    if text.lstrip().startswith(("{", "[", "```")):
        written = _IN_JSON.search(text)
        try:
            return str(json.loads(written[1], strict=False)) if written else ""
        except ValueError:
            return ""
    decided = _DECIDED.search(text)
    return _LABEL.sub("", text[: decided.start()] if decided else text).strip()


def format_clock_time(at: float, form: str = "%H:%M:%S") -> str:
    """Return a time of day, of Unix seconds; empty for one that no clock shows."""
    try:
        return time.strftime(form, time.localtime(at))
    except (OverflowError, ValueError, OSError):
        return ""


def _write_call(action: AgentAction) -> str:
    """Return a call as in a program."""
    given, write = action.tool_input, partial(json.dumps, ensure_ascii=False)
    written = (
        ", ".join(f"{key}={write(value)}" for key, value in given.items()) if isinstance(given, dict) else write(given)
    )
    return f"{action.tool}({written})"


def _shorten(text: str, most: int) -> str:
    """Return at most so many characters of a text (0: all)."""
    return text if not most or len(text) <= most else f"{text[:most]} …"


def _format_tokens(usage: Usage) -> str:
    """Return the tokens and what they cost."""
    cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    thought = f" ({usage.reasoning_tokens:,} of reasoning)" if usage.reasoning_tokens else ""
    cost = f", cost {usage.cost:.4g}" if usage.cost else ""
    return f"{usage.input_tokens:,} tokens in{cached}, {usage.output_tokens:,} out{thought}{cost}"


def _write_whole(text: str, calls: Sequence[AgentAction]) -> str:
    """Return a message or a reply, word for word."""
    return "\n".join([*([text] if text or not calls else []), *map(_write_call, calls)])
