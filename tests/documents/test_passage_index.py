"""Texts in pieces that are found by words."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from retinue.documents.passage_index import PassageIndex
from retinue.documents.splitter import cut_windows
from retinue.errors import DataError

CHUNKS = (3_200, 1_600)


@pytest.fixture
def passages(tmp_path: Path) -> PassageIndex:
    return PassageIndex(tmp_path / "index")


@given(st.text(alphabet="ab \n.é", max_size=400), st.integers(4, 60), st.data())
def test_windows_are_all_of_a_text_and_overlap(text: str, size: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, size // 2))
    spans = list(cut_windows(text, size, overlap))
    assert spans[0][0] == 0
    assert spans[-1][1] == len(text)
    assert all(end - start <= size for start, end in spans)
    for (start, end), (after, _) in pairwise(spans):
        assert start < after <= end
        assert end - after <= overlap


@settings(max_examples=20)
@given(text=st.text(min_size=1, max_size=3_000))
def test_a_text_comes_back_whole(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    passages = PassageIndex(tmp_path_factory.mktemp("passages"))
    passages.put("one", "key", "title", text, (100, 50))
    assert passages.read_text("one", "key") == text.encode("utf-8", "replace").decode()


def test_what_fits_best_comes_first_with_a_score_up_to_1(passages: PassageIndex) -> None:
    passages.put("one", "a", "paris.md", "Paris is the capital of France.", CHUNKS)
    passages.put("one", "b", "london.md", "London is the capital of England.", CHUNKS)
    passages.put("one", "c", "notes.md", "Nothing of the kind.", CHUNKS)
    found = passages.search("one", "capital of France", 10)
    assert [one.key for one in found] == ["a", "b"]
    assert found[0].score == 1 > found[1].score > 0
    assert [one.key for one in passages.search("one", "capital of France", 1)] == ["a"]
    assert [one.key for one in passages.search("one", "london", 10)] == ["b"]  # in its title
    assert [one.key for one in passages.search("one", "capital", 10, ["b", *map(str, range(5_000))])] == ["b"]
    assert passages.search("one", "capital", 10, []) == []


def test_a_collection_does_not_depend_on_others(passages: PassageIndex) -> None:
    passages.put("one", "a", "x", "A rare word and a common one.", CHUNKS)
    passages.put("one", "b", "x", "A common one.", CHUNKS)
    before = passages.search("one", "rare common", 10)
    for number in range(20):
        passages.put("two", f"k{number}", "x", "A rare word.", CHUNKS)
    assert passages.search("one", "rare common", 10) == before
    passages.drop("two")
    assert passages.list_collections() == ["one"]
    assert passages.search("two", "rare", 10) == []


def test_a_text_is_there_once_until_it_is_removed(passages: PassageIndex) -> None:
    for _ in range(2):
        passages.put("one", "a", "x", "One word.", CHUNKS)
    passages.put("one", "b", "x", "Another word.", CHUNKS)
    assert len(passages.search("one", "word", 10)) == 2
    passages.remove("one", ["a", "unknown"])
    assert passages.list_keys("one") == {"b"}
    assert [one.key for one in passages.search("one", "word", 10)] == ["b"]
    assert passages.read_text("one", "a") == ""
    assert PassageIndex(passages.folder).list_keys("one") == {"b"}


def test_a_file_that_is_damaged(passages: PassageIndex) -> None:
    passages.put("one", "a", "x", "One word.", CHUNKS)
    (passages.folder / "one.sqlite").write_bytes(b"no database" * 1_000)
    with pytest.raises(DataError, match="is not a document store, or is damaged"):
        passages.search("one", "word", 10)


@pytest.mark.parametrize("name", ["../one", "a/b", "", "a.b", "x" * 65])
def test_a_name_leads_nowhere_else(passages: PassageIndex, name: str) -> None:
    with pytest.raises(ValueError, match="not the name of a collection"):
        passages.put(name, "a", "x", "One word.", CHUNKS)
    assert list(passages.folder.glob("**/*.sqlite")) == []
