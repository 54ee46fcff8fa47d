"""`passages`: loading, searching and shortening."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from retinue import DataError, Document
from retinue.tools.passages import RANKED, Passages, cut, passages, shorten_to_excerpt

FRANCE = Document("Paris is the capital of France. It lies on the Seine.", meta={"title": "Paris"})
TEXAS = Document("Paris is a town in Texas.", meta={"title": "Paris, Texas"})
RIVER = Document("The Seine is a river that flows through Paris and Rouen.", meta={"title": "Seine"})
LIBRARY = Passages([FRANCE, TEXAS, RIVER])


def jsonl(path: Path, *values: Any) -> Path:
    path.write_text("".join(f"{value if isinstance(value, str) else json.dumps(value)}\n" for value in values), "utf-8")
    return path


def titles(found: list[Document]) -> list[Any]:
    return [document.meta["title"] for document in found]


def test_the_best_fitting_passages_come_first() -> None:
    found = LIBRARY.search("Which river flows through Rouen?")
    assert titles(found)[0] == "Seine"
    scores = [document.score or 0 for document in found]
    assert scores == sorted(scores, reverse=True)
    assert titles(LIBRARY.search("capital", top_k=1)) == ["Paris"]
    assert len(LIBRARY.search("Paris", top_k=2)) == 2


def test_a_word_in_the_title_counts_more_than_one_in_the_text() -> None:
    assert titles(LIBRARY.search("Seine"))[0] == "Seine"


def test_words_are_found_in_other_forms_and_cases() -> None:
    assert titles(LIBRARY.search("RIVERS FLOWING")) == ["Seine"]


@pytest.mark.parametrize("query", ["", "?!", "zebra", '"', "*", "²"])
def test_what_is_not_there_is_not_found(query: str) -> None:
    assert LIBRARY.search(query) == []


def test_stop_words_alone_are_searched_as_they_are() -> None:
    who = Passages([Document("The Who are a band.", meta={"title": "The Who"}), FRANCE])
    assert titles(who.search("the who"))[0] == "The Who"


@settings(max_examples=200)
@given(
    st.text()
    | st.lists(
        st.sampled_from("Paris \" ' * ( ) : ^ - + AND OR NOT NEAR( title: { } \\ , _ \x00 \ud800 %".split(" "))
    ).map(" ".join)
)
def test_no_query_is_an_error(query: str) -> None:
    assert len(LIBRARY.search(query)) <= 3


def test_a_query_of_thousands_of_words_is_searched() -> None:
    assert titles(LIBRARY.search(" ".join(f"word{n}" for n in range(3_000)) + " Rouen")) == ["Seine"]


# ── loading ──────────────────────────────────────────────────────────────────────────────────────


def test_a_jsonl_file_has_a_passage_a_line(tmp_path: Path) -> None:
    path = jsonl(
        tmp_path / "p.jsonl", {"text": "one", "title": "T"}, "", {"content": "two"}, {"text": "three", "title": None}
    )
    loaded = Passages.load(path)
    assert len(loaded) == 3
    assert titles(loaded.search("one")) == ["T"]
    assert titles(loaded.search("two")) == [""]
    assert titles(loaded.search("three")) == [""]


def test_a_byte_order_mark_and_half_a_surrogate_pair_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('\ufeff{"text": "one \\ud800 two", "title": "\\udfff"}\n', encoding="utf-8")
    assert [document.content for document in Passages.load(path).search("one")] == ["one ? two"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{text: 1}", "not JSON: '{text: 1}' (want one JSON object a line)"),
        ("[" * 100_000, f"not JSON: '{'[' * 60}' (want one JSON object a line)"),
        ('"just text"', "want a JSON object, not '\"just text\"'"),
        ('{"id": 1, "body": "x"}', "the object has no text under 'text' or 'content'; its keys: id, body"),
        ('{"text": 5}', "the object has no text under 'text' or 'content'; its keys: text"),
    ],
)
def test_a_wrong_line_is_named_with_its_file_and_number(tmp_path: Path, line: str, problem: str) -> None:
    path = jsonl(tmp_path / "p.jsonl", {"text": "good"}, line, {"text": "good"})
    with pytest.raises(DataError) as caught:
        Passages.load(path)
    assert str(caught.value) == f"{path}:2: {problem}"


def test_passages_that_are_not_utf_8_are_named(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(b'{"text": "caf\xe9"}\n')
    with pytest.raises(DataError) as caught:
        Passages.load(path)
    assert str(caught.value) == f"{path}: not a text file in UTF-8"


def test_a_folders_texts_may_be_of_an_older_encoding_and_are_texts(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_bytes(b"caf\xe9")
    assert [one.content for one in Passages.load(tmp_path).list_documents()] == ["caf\xe9"]
    (tmp_path / "q.txt").write_bytes(b"a\0b")
    with pytest.raises(DataError, match=r"q\.txt: not a text file"):
        Passages.load(tmp_path)


def test_a_folders_texts_are_found_by_their_paths(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.txt").write_text("about apples", encoding="utf-8")
    (tmp_path / "sub" / "b.MD").write_text("# Bees\n\nabout bees", encoding="utf-8")
    (tmp_path / "c.py").write_text("about code", encoding="utf-8")
    loaded = Passages.load(str(tmp_path))
    assert titles(loaded.search("about")) == ["a.txt", str(Path("sub/b.MD"))]
    assert [document.content for document in loaded.search("bees")] == ["# Bees\nabout bees"]


def test_a_missing_path_and_one_without_passages_are_named(tmp_path: Path) -> None:
    want = "(want a JSONL file, or a folder of .txt and .md files)"
    with pytest.raises(DataError) as caught:
        Passages.load(tmp_path / "gone")
    assert str(caught.value) == f"{tmp_path / 'gone'} does not exist {want}"
    for empty in (tmp_path, jsonl(tmp_path / "p.jsonl", "")):
        with pytest.raises(DataError) as caught:
            Passages.load(empty)
        assert str(caught.value) == f"{empty} contains no passages {want}"


def test_the_tool_shows_titles_and_shortened_passages(tmp_path: Path) -> None:
    long = "Paris is a city. " + "It rains. " * 50 + "The mayor is Anne."
    path = jsonl(tmp_path / "p.jsonl", {"text": long, "title": "Paris"}, {"text": "Texas has a mayor."})
    search = passages(path, name="Find", top_k=2, max_chars=40)
    assert (search.name, search.effects, search.signature.text_argument) == ("Find", "read", "query")
    said = asyncio.run(search.call("mayor of Paris"))
    assert said == "[Paris] Paris is a city. The mayor is Anne.\nTexas has a mayor."
    assert asyncio.run(search.call("zebra")) == "Nothing was found. Try other words."


# ── shortening ───────────────────────────────────────────────────────────────────────────────────

PROSE = st.lists(st.sampled_from(["Paris is big.", "It rains!", "Why?", "no end", "A\nline.", "x" * 30])).map(" ".join)


@given(PROSE | st.text(), st.text(max_size=10), st.integers(0, 60))
def test_an_excerpt_is_bounded_and_made_of_the_text(text: str, query: str, most: int) -> None:
    short = shorten_to_excerpt(text, query, most)
    assert len(short) <= most
    whole = " ".join(text.split())
    assert short == whole or len(whole) > most
    rest = iter(whole)
    assert all(character in rest for character in short)  # in the same order


def test_an_excerpt_keeps_the_first_sentence_and_those_that_fit_the_query() -> None:
    text = "Ada was a countess. She liked horses. She was born in London. She died young."
    assert shorten_to_excerpt(text, "where was Ada born", 50) == "Ada was a countess. She was born in London."


@given(PROSE | st.text() | st.lists(PROSE).map("\n\n".join), st.integers(1, 50))
def test_cutting_loses_nothing_but_whitespace_and_keeps_the_length(text: str, most: int) -> None:
    pieces = list(cut(text, most))
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert all(0 < len(piece) <= most for piece in pieces)


def test_paragraphs_stay_whole_where_they_fit_and_else_are_cut_at_words() -> None:
    assert list(cut("one\n\ntwo\n \nthree four five", 9)) == ["one\ntwo", "three", "four five"]


@pytest.mark.full
def test_what_is_found_by_words_can_be_put_in_another_order(tmp_path: Path) -> None:
    path = tmp_path / "many.jsonl"
    path.write_text("".join(f'{{"text": "a creature, number {number}"}}\n' for number in range(30)))
    asked: list[tuple[str, int]] = []

    def backwards(query: str, found: list[Document]) -> list[Document]:
        asked.append((query, len(found)))
        return found[::-1]

    tool = passages(path, top_k=2, rank=backwards)
    assert asyncio.run(tool.call("creature")) == "a creature, number 19\na creature, number 18"
    assert asked == [("creature", RANKED)]
