"""The branch of one run in a tree: its steps, each with what the model thought, the calls, and what the step took."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import assert_never

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
from ..core.run_result import RESTING, ending
from ..core.values import Reply, Usage
from .call_branches import CallBranches
from .event_texts import message_text, message_title, reply_text, shortened, step_title, thought_in, tokens_text
from .sections import Section
from .tree_page import ANSWER, BOLD, DIM, GAP, ODD, Page, Paragraph

_ANSWER_NEXT = re.compile(r"(?:final answer|final answer is):\s*\Z", re.IGNORECASE)
_Line = Started | Asked | Retried | Called | Observed | Paused | Resumed | Finished | Stopped


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

    def of_members(self) -> View:
        """Return what is shown of a member's run."""
        return View(self.most // 2, self.verbose)


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
        self._thinking: Reply | None = None  # a reply of which nothing was shown yet
        self._usage, self._seconds, self._first = Usage(), 0.0, 0.0
        self._goes_on = False  # the next reply belongs to this step
        self._closed = False
        self._rests: Stopped | None = None
        self.calls = CallBranches(page, view.most, section, prefix)

    def show(self, event: Event | Delta, at: float = 0.0) -> None:
        """Show one event, which happened `at` this time (0: now)."""
        match event:
            case Delta():
                self._delta(event)
            case Replied(reply=reply):
                self._replied(reply)
            case Said():
                pass  # was shown as it arrived
            case _:
                self._rests = None
                self._thought(event.answer if isinstance(event, Finished) else "")
                self._event(event, at)

    def _event(self, event: _Line, at: float) -> None:
        match event:
            case Started():
                self._started(event)
            case Asked():
                self._void()
                self._asked(event, at)
            case Retried():
                self._void()
                self._closed = False
                again = f"asking {event.model}" if event.model else f"asking again in {event.seconds:.1f} s"
                self._line(f"{event.problem}; {again}", ODD)
            case Called() | Observed() | Paused() | Resumed():
                self._void()
                self._call(event)
            case Finished(answer=answer):
                self._answered("Answer", answer)
                self._leave()
            case Stopped():
                self._stopped(event)
            case _:
                assert_never(event)

    def end(self, *totals: str) -> None:
        """Close the branch: with why the run rests, if it does, and lines of `totals`."""
        self._void()
        self._leave()
        if self._rests is not None:
            self._tail(_reason(self._rests), BOLD)
        for total in totals:
            self._tail(total, DIM)

    # ── what the model is asked, and says ────────────────────────────────────────────────────────

    def _started(self, event: Started) -> None:
        self.name = event.agent
        if not self._view.head:
            return
        words = [event.agent, event.strategy, event.model, ", ".join(event.tools)]
        self._put(self._prefix, self._prefix, (shortened(" · ".join(filter(None, words)), self._view.most), DIM))
        if event.abilities.problem:
            problem = f"no native tool calls here: {event.abilities.problem}"
            self._put(self._prefix, self._prefix, (problem, ODD))
        if self._top:
            self._put("", GAP, (f"Question: {event.question.strip()}", BOLD))

    def _asked(self, event: Asked, at: float) -> None:
        if not self._goes_on:
            self._leave()
            self._fork(step_title(event, at), BOLD)
            self.calls.inside, self._closed = self._prefix + self._page.glyphs.bar, False
        self._goes_on = False
        self.written = ""
        if self._view.verbose:
            for message in event.messages:
                self.quote(message_title(message), message_text(message))

    def quote(self, title: str, text: str) -> None:
        """Show a text word for word, set off from the rest."""
        inside = self.calls.inside
        self._put(inside, inside, (title, ODD))
        quoted = inside + self._page.glyphs.quote
        self._put(quoted, quoted, (text, ""))

    def _delta(self, event: Delta) -> None:
        if event.answer and self._top and not self._view.verbose:
            if self._stream is None:
                self._say_reasoning(self.reasoning)
                self._say_thought(self.written)
                self._shown = ""
                self._stream = self._page.begin(*self._edges(plain_rest=True))
                self._section.write(self._stream.add("Answer: ", ANSWER))
            self._shown += event.answer
            self._section.write(self._stream.add(event.answer, ANSWER))
        self.written += event.text
        self.reasoning += event.reasoning

    def _replied(self, reply: Reply) -> None:
        if self._stream is None:
            self._say_reasoning(reply.reasoning)
        if reply.unsent:
            self._line(f"another model: what {reply.unsent} wanted back was not sent", ODD)
        if self._view.verbose:
            self.quote("reply", reply_text(reply))
        elif self._stream is None:
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
                self._say_thought(text)

    def _say_reasoning(self, text: str) -> None:
        if text.strip():
            self._line(shortened(text.strip(), 0 if self._view.verbose else self._view.most), DIM)

    def _say_thought(self, text: str) -> None:
        if thought := thought_in(text):
            self._line(shortened(thought, self._view.most), "")

    # ── calls, and the end ───────────────────────────────────────────────────────────────────────

    def _call(self, event: Called | Observed | Paused | Resumed) -> None:
        match event:
            case Called(action=action):
                self.calls.call(action)
            case Observed(observation=seen):
                self.calls.observe(seen)
            case Paused(action=action):
                self.calls.pause(action, event.problem)
            case Resumed():
                self.calls.resume(event)

    def _stopped(self, event: Stopped) -> None:
        if event.reason in RESTING and not event.answer:
            self._void()
            self._rests = event
            return
        end = ending([event])
        self._answered("Answer" if end.answered else "So far", end.answer or end.best)
        self._leave()
        self._tail(_reason(event), BOLD)

    def _answered(self, label: str, answer: str) -> None:
        """Show the answer, or the rest of it."""
        self.answer, shown, self._goes_on = answer, self._shown, False
        if self._stream is not None and answer.startswith(shown):
            self._section.write(self._stream.add(answer[len(shown) :], ANSWER))
            self._void()
            return
        self._void()
        if answer:
            first, rest = self._edges(plain_rest=self._top)
            text = answer if self._top else shortened(answer, self._view.most)
            self._put(first, rest, (f"{label}: {text.strip()}", ANSWER))

    def _void(self) -> None:
        """End the line of a partially written answer."""
        if self._stream is not None:
            self._section.write(self._stream.end())
        self._stream, self.written, self.reasoning = None, "", ""

    def _leave(self) -> None:
        """End the step with what it took."""
        self.calls.close()
        if self._usage.requests or self._seconds:
            first = f" (first word after {self._first:.1f} s)" if self._first else ""
            cost = f"model {self._seconds:.1f} s{first} · {tokens_text(self._usage)}"
            outer = self._prefix + ("" if self._closed else self._page.glyphs.bar)
            self._put(outer + (GAP if self._closed else self._page.glyphs.last), outer + GAP, (cost, DIM))
        self._usage, self._seconds, self._first = Usage(), 0.0, 0.0
        self.calls.inside = self._prefix

    # ── lines ────────────────────────────────────────────────────────────────────────────────────

    def _edges(self, *, plain_rest: bool = False) -> tuple[str, str]:
        """Return the branches before the last lines of the run: its answer, or why it stopped."""
        first = self._prefix + (GAP if self._closed else self._page.glyphs.last)
        self._closed = True
        return first, "" if plain_rest and self._page.is_plain else self._prefix + GAP

    def _tail(self, text: str, ink: str) -> None:
        self._put(*self._edges(), (text, ink))

    def _fork(self, text: str, ink: str) -> None:
        self._put(self._prefix + self._page.glyphs.fork, self._prefix + self._page.glyphs.bar, (text, ink))

    def _line(self, text: str, ink: str) -> None:
        self._put(self.calls.inside, self.calls.inside, (text, ink))

    def _put(self, first: str, rest: str, *pieces: tuple[str, str]) -> None:
        self._section.write(self._page.lines(first, rest, *pieces))


def _reason(event: Stopped) -> str:
    return f"Stopped: {event.reason}{': ' + event.detail if event.detail else ''}"
