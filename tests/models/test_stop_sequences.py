"""Stop words, cut off by the client."""

from __future__ import annotations

from hypothesis import example, given, strategies as st

from retinue.models.reply_reader import StopCutter

LETTERS = st.text("ab\n", max_size=20)
WORDS = st.lists(st.text("ab\n", min_size=1, max_size=4), max_size=3)


def cut(pieces: list[str], stop: list[str]) -> str:
    cutter = StopCutter(stop)
    return "".join([cutter.feed(piece) for piece in pieces]) + cutter.flush()


def up_to_the_first(text: str, stop: list[str]) -> str:
    for end in range(len(text) + 1):
        complete = [word for word in stop if text[:end].endswith(word)]
        if complete:
            return text[: end - max(map(len, complete))]
    return text


@given(st.lists(LETTERS, max_size=6), WORDS)
@example(["ab", "a"], ["aba", "b"])
def test_any_pieces_give_the_text_up_to_the_first_stop_word(pieces: list[str], stop: list[str]) -> None:
    assert cut(pieces, stop) == up_to_the_first("".join(pieces), stop)


@given(st.lists(LETTERS, max_size=6), WORDS)
def test_nothing_that_was_passed_on_is_taken_back(pieces: list[str], stop: list[str]) -> None:
    cutter = StopCutter(stop)
    whole = up_to_the_first("".join(pieces), stop)
    passed = ""
    for piece in pieces:
        passed += cutter.feed(piece)
        assert whole.startswith(passed)


def test_text_that_cannot_begin_a_stop_word_is_passed_on_at_once() -> None:
    assert StopCutter(["\nObservation:"]).feed("Thought: I know") == "Thought: I know"


def test_an_empty_stop_word_stops_nothing() -> None:
    assert cut(["text"], [""]) == "text"
