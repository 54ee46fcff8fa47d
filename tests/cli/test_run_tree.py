"""The tree of a run, of whatever events: it never fails, and steers no terminal."""

from __future__ import annotations

import io
import re
import unicodedata
from collections.abc import Sequence
from functools import partial

import pytest
from hypothesis import assume, given, strategies as st

from core.test_events_kept import events
from retinue.core.events import (
    Asked,
    Called,
    Delta,
    Event,
    Finished,
    Observed,
    Replied,
    Retried,
    Said,
    Started,
    Stopped,
)
from retinue.core.run_result import fold_result
from retinue.core.values import AgentAction, Observation, Reply, StopReason
from retinue.display.run_display import RunDisplay
from retinue.display.run_tree import RunTree, Section, View
from retinue.display.terminal import Page, count_cells, put

HOSTILE = st.text(st.sampled_from("ab \n\t\r\x1b[2J\x07\x9b\u202e\u2028漢🙂é\ud800├│`")) | st.sampled_from(
    ["call_1_0", "consult_1", "\x1b]0;title\x07", "Thought: a\nAction: b", '{"thought": "\\u001b[31m"}']
)
PATHS = st.sampled_from(["", "call_1_0", "call_1_1", "call_1_0/call_2_0", "a/b/c/d/e"])
HAPPENED = st.lists(
    st.tuples(PATHS, events(HOSTILE) | st.builds(Delta, HOSTILE, HOSTILE), st.sampled_from([0.0, 1e9, 1e300])),
    max_size=12,
)
VIEWS = st.builds(View, st.sampled_from([0, 5, 600]), st.booleans(), st.booleans())


TURNS = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"  # the direction of what follows


@given(HAPPENED, VIEWS)
def test_whatever_happened_is_shown_without_control_characters(
    happened: Sequence[tuple[str, Event | Delta, float]], view: View
) -> None:
    out = io.StringIO()
    with RunDisplay(out, view) as display:
        for path, event, at in happened:
            display(path, event, at)
        top = [event for path, event, _ in happened if not path and not isinstance(event, Delta)]
        display.end(fold_result(top))
    shown = out.getvalue()
    assert [one for one in shown if (unicodedata.category(one) == "Cc" and one != "\n") or one in TURNS] == []


class Screen(io.StringIO):
    """A terminal of a width, as far as it is asked."""

    def isatty(self) -> bool:
        return True


@given(HAPPENED, st.integers(20, 90))
def test_no_line_is_wider_than_the_terminal_and_the_only_escapes_are_colours(
    happened: Sequence[tuple[str, Event | Delta, float]], width: int
) -> None:
    answers = any(isinstance(event, Delta | Finished | Stopped) for _, event, _ in happened)
    assume(not answers or len({path for path, _, _ in happened}) == 1)  # no agent begins within another's answer
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        patch.setenv("TERM", "xterm")
        patch.delenv("NO_COLOR", raising=False)
        out = Screen()
        tree = RunTree(out, partial(put, out))
        for path, event, at in happened:
            tree.show(path, event, at)
        tree.end(fold_result([]))
    plain = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
    assert "\x1b" not in plain
    assert [line for line in plain.splitlines() if count_cells(line) > width] == []


@pytest.mark.parametrize("event", [Retried(1, "too busy", 2.0), Said("So")], ids=["retried", "said"])
def test_a_model_that_is_not_done_is_said_to_work(event: Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    with RunDisplay(out := Screen()) as display:
        display("", Asked(1, 0, ()))
        display("", event)
        display.tree.write_head("above")
        assert "the model works" in out.getvalue().rpartition("above")[2]


def test_what_was_held_back_comes_in_its_place() -> None:
    written: list[str] = []
    top = Section(written.append)
    top.write("a")
    first, second = top.begin(), top.begin()
    second.write("d")
    inner = second.begin()
    top.write("f")
    first.write("b")
    assert written == ["a", "b"]
    inner.write("e")
    first.close()
    assert written == ["a", "b", "d", "e"]
    second.close()  # with what is in it
    assert "".join(written) == "abdef"


def test_a_place_that_has_no_lines_gets_ascii_ones() -> None:
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="cp1252")
    tree = RunTree(narrow, partial(put, narrow))
    tree.show("", Started("q", "a", "s", "m", ()))
    tree.show("", Called(1, AgentAction("t", "x", id="call_1_0")))
    tree.show("", Observed(1, Observation("call_1_0", "seen")))
    tree.show("", Finished("so", {}))
    narrow.seek(0)
    assert narrow.read().splitlines()[2:] == ['|- t("x")', "|  > seen · 0.0 s", "`- Answer: so"]
    assert Page(narrow).is_plain


def test_a_run_that_goes_on_after_it_rested_is_one_tree() -> None:
    out = io.StringIO()
    tree = RunTree(out, partial(put, out))
    action = AgentAction("member", "x", id="call_1_0")
    happened: list[tuple[str, Event]] = [
        ("", Called(1, action)),
        ("", Stopped(StopReason.AWAITING_MEMBER, "member is at work")),
        ("call_1_0", Finished("seen", {})),
        ("", Observed(1, Observation("call_1_0", "seen"))),
        ("", Finished("so", {})),
    ]
    for path, event in happened:
        tree.show(path, event)
    assert out.getvalue().splitlines() == [
        '├─ member("x")',
        "│  ╰─ Answer: seen",
        "│  → answered · 0.0 s",
        "╰─ Answer: so",
    ]


def test_thoughts_are_shown_before_the_answer_and_are_none_of_it() -> None:
    thinking = Reply("So.", reasoning="Let me\nsee.", unsent="chat example.org")
    pieces = [Delta("", reasoning="Let me\n"), Delta("", reasoning="see."), Delta("So.", "So.")]
    trees = []
    for happened in ([*pieces, Replied(1, thinking)], [Replied(1, thinking)]):
        out = io.StringIO()
        tree = RunTree(out, partial(put, out))
        for event in (Asked(1, 0, ()), *happened, Finished("So.", {})):
            tree.show("", event)
        trees.append(out.getvalue())
        assert out.getvalue().index("see.") < out.getvalue().index("Answer: So.")
        assert out.getvalue().count("see.") == out.getvalue().count("Answer:") == 1
    assert "chat example.org" in trees[1]
