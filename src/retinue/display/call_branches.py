"""The calls of a run in a tree: each has a section of its own, with the run of a member or the result of a tool."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.events import Resumed
from ..core.values import AgentAction, Observation
from .event_texts import call_text, shortened, tokens_text
from .sections import Section
from .tree_page import DIM, DOING, GOOD, ODD, Page

_CONSULTED = "consult_"  # with which ids of questions to a person begin that no call follows


@dataclass(slots=True)
class _Call:
    section: Section
    inside: str  # the branches before what belongs to the call
    shown: AgentAction | None = None
    ended: bool = False  # whether a member was called, and has ended with this answer
    answer: str = ""


class CallBranches:
    """Writes the calls of a run to `section`.

    `inside` are the branches before what belongs to the current step, or to the run outside of steps.
    """

    def __init__(self, page: Page, most: int, section: Section, inside: str) -> None:
        self._page = page
        self._most = most
        self._section = section
        self.inside = inside
        self._open: dict[str, _Call] = {}

    def place(self, call_id: str) -> tuple[Section, str]:
        """Return where what the member does is shown that was called: a section, and the branches before it."""
        call = self._of(call_id)
        return call.section, call.inside

    def answered(self, call_id: str, answer: str) -> None:
        """Take note of how a member ended that was called: it need not be shown again."""
        if call_id in self._open:
            call = self._open[call_id]
            call.ended, call.answer = True, answer.strip()

    def call(self, action: AgentAction) -> None:
        """Show a call, or that a person changed it."""
        call = self._of(action.id)
        if call.shown is None:
            self._begin(call, action)
        elif call.shown.tool_input != action.tool_input:
            self._line(call, f"now {call_text(action)}", DOING)

    def pause(self, action: AgentAction, problem: str) -> None:
        """Show that a call waits for a person."""
        if "/" in action.id:
            return  # it is a member's, and shown there
        call = self._of(action.id)
        if call.shown is None:
            self._begin(call, action)
        self._line(call, f"waits for a person: {problem}", ODD)

    def resume(self, event: Resumed) -> None:
        """Show what a person decided."""
        if "/" in event.call_id:
            return
        call = self._of(event.call_id)
        said = f": {event.decision.message}" if event.decision.message else ""
        self._line(call, f"a person decided: {event.decision.kind}{said}", ODD)
        if event.call_id.startswith(_CONSULTED):
            self._end(event.call_id)

    def observe(self, seen: Observation) -> None:
        """Show what came of a call."""
        call = self._of(seen.call_id)
        good, glyphs = seen.outcome in ("result", "repeated"), self._page.glyphs
        took = f"{seen.seconds:.1f} s" + (f", {tokens_text(seen.usage)}" if seen.usage.requests else "")
        text = shortened(seen.text.strip(), self._most)
        if call.ended and (not good or (call.answer and call.answer in seen.text)):  # the member's branch says it
            text = "answered" if good else "no answer"
        outcome = "" if seen.outcome == "result" else f"{seen.outcome.replace('_', ' ')} · "
        sign, ink = (glyphs.result, GOOD) if good else (glyphs.problem, ODD)
        first, rest = call.inside + sign, call.inside + " " * len(sign)
        call.section.write(self._page.lines(first, rest, (text, ink), (f" · {outcome}{took}", DIM)))
        if seen.note:
            self._line(call, seen.note, ODD)
        self._end(seen.call_id)

    def close(self) -> None:
        """End the calls of a step."""
        for call_id in list(self._open):
            self._end(call_id)

    def _of(self, call_id: str) -> _Call:
        if call_id not in self._open:
            self._open[call_id] = _Call(self._section.begin(), self.inside + self._page.glyphs.bar)
        return self._open[call_id]

    def _begin(self, call: _Call, action: AgentAction) -> None:
        call.shown = action
        text = shortened(call_text(action), self._most)
        call.section.write(self._page.lines(self.inside + self._page.glyphs.fork, call.inside, (text, DOING)))

    def _line(self, call: _Call, text: str, ink: str) -> None:
        call.section.write(self._page.lines(call.inside, call.inside, (text, ink)))

    def _end(self, call_id: str) -> None:
        self._open.pop(call_id).section.close()
