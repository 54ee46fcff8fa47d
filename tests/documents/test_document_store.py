"""`DocumentStore`: what is written is found, by whom and how long it should be, and what is no store is refused."""

from __future__ import annotations

import json
import operator
import threading
import time
from pathlib import Path
from typing import Any

import apsw
import numpy
import pytest
from hypothesis import example, given, settings, strategies as st

from retinue import DataError, Document, DocumentStore, UsageError

KEYS = st.sampled_from(["year", "title", "a.b", "x-1"])
NUMBERS = st.integers(-3, 3) | st.sampled_from([0.5, -1.5, 2**70, 1e300])
VALUES = NUMBERS | st.sampled_from(["", "a", "Ab", "1", "null", "\x00", "'", '"; --', "💡"]) | st.booleans() | st.none()
METAS = st.dictionaries(KEYS, VALUES, max_size=3)
TEXTS = st.text(max_size=8) | st.sampled_from(["one two", "two three", "\ud800 half", "zero\x00byte"])
COMPARED: dict[str, Any] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}
CONDITIONS = st.one_of(
    VALUES,
    st.dictionaries(st.sampled_from(["eq", "ne"]), VALUES, max_size=2),
    st.dictionaries(st.sampled_from(list(COMPARED)), NUMBERS | st.sampled_from(["a", "b", ""]), max_size=2),
    st.fixed_dictionaries({"in": st.lists(VALUES, max_size=3)}),
)
WHERES = st.dictionaries(KEYS, CONDITIONS, max_size=2)
OPERATIONS = st.one_of(
    st.tuples(st.just("write"), st.lists(st.tuples(st.sampled_from("abcd"), TEXTS, METAS), max_size=3)),
    st.tuples(st.just("delete"), WHERES),
    st.tuples(st.just("delete ids"), st.lists(st.sampled_from("abcde"), max_size=3)),
)


def holds(meta: dict[str, Any], key: str, name: str, wanted: Any) -> bool:
    """What a condition means, in Python."""
    value = meta.get(key)
    if name == "in":
        return any(holds(meta, key, "eq", one) for one in wanted)
    if name == "ne":
        return not holds(meta, key, "eq", wanted)
    kinds = [str] if isinstance(wanted, str) else [type(wanted)] if wanted is None or wanted in (True, False) else []
    numbers = isinstance(wanted, int | float) and not isinstance(wanted, bool)
    fits = isinstance(value, int | float) and not isinstance(value, bool) if numbers else type(value) in kinds
    return bool(fits and COMPARED.get(name, operator.eq)(value, wanted))


def fits(document: Document, where: dict[str, Any]) -> bool:
    return all(
        holds(dict(document.meta), key, name, wanted)
        for key, given in where.items()
        for name, wanted in (given.items() if isinstance(given, dict) else [("eq", given)])
    )


def as_kept(document: Document) -> tuple[str, str]:
    """To Python `1` and `True` are the same."""
    return document.content, json.dumps(dict(document.meta), sort_keys=True)


@settings(max_examples=300)
@example([("write", [("a", "", {"year": 1}), ("a", "", {"year": True})])], {})
@given(st.lists(OPERATIONS, max_size=6), WHERES)
def test_a_store_is_a_dict_of_documents(operations: list[tuple[str, Any]], where: dict[str, Any]) -> None:
    model: dict[str, Document] = {}
    with DocumentStore() as store:
        for name, given in operations:
            if name == "write":
                new = [Document(text.encode("utf-8", "replace").decode(), one, meta) for one, text, meta in given]
                changed = 0
                for document in new:
                    changed += document.id not in model or as_kept(model[document.id]) != as_kept(document)
                    model[document.id] = document
                assert store.write(Document(text, one, meta) for one, text, meta in given) == changed
            else:
                gone = [
                    one for one in model.values() if (one.id in given if name == "delete ids" else fits(one, given))
                ]
                deleted = store.delete(ids=given) if name == "delete ids" else store.delete(given)
                assert deleted == len(gone)
                model = {one: document for one, document in model.items() if document not in gone}
        assert len(store) == len(model)
        assert {document.id: document for document in store.filter()} == model
        assert {one.id for one in store.filter(where)} == {one.id for one in model.values() if fits(one, where)}
        assert [one.id for one in store.get("dcbae")] == [one for one in "dcbae" if one in model]


@settings(max_examples=300)
@given(st.text(max_size=40))
@example('"alpha" OR (NEAR(beta, 2) * ^gamma) AND NOT title: x')
@example("' \" ; DROP TABLE documents; --")
@example("\x00\ud800 💡 _ ＡＬＰＨＡ")
@example("alpha " * 5_000)
def test_any_text_is_a_query(query: str) -> None:
    with DocumentStore() as store:
        store.write([Document("alpha beta", "1"), Document("gamma", "2", {"title": "Alphas"})])
        assert {one.id for one in store.keyword(query)} <= {"1", "2"}
        assert not query.startswith("alpha") or [one.id for one in store.keyword(query)] == ["2", "1"]
        assert len(store) == 2


def test_words_in_the_title_count_more_and_scores_fall() -> None:
    with DocumentStore() as store:
        store.write([Document("A river in Italy.", "text"), Document("Flows.", "title", {"title": "The river"})])
        found = store.keyword("rivers", where={"title": {"ne": "x"}})
        assert [one.id for one in found] == ["title", "text"]
        assert (found[0].score or 0) > (found[1].score or 0) > 0
        assert store.keyword("rivers", 1) == found[:1]
        assert store.keyword("river", where={"title": "The river"})[0].id == "title"
        store.write([Document("A lake.", "text")])
        assert [one.id for one in store.keyword("rivers")] == ["title"]
        assert [one.id for one in store.keyword("lakes")] == ["text"]


def test_the_nearest_vectors_are_found(tmp_path: Path) -> None:
    random = numpy.random.default_rng(0)
    vectors = random.standard_normal((40, 16))
    documents = [Document(f"text {number}", str(number), {"even": number % 2 == 0}) for number in range(40)]
    wanted = random.standard_normal(16)
    cosines = vectors @ wanted / numpy.linalg.norm(vectors, axis=1) / numpy.linalg.norm(wanted)
    best = [str(number) for number in numpy.argsort(-cosines)]
    with DocumentStore(tmp_path / "store") as store:
        assert store.nearest(list(wanted)) == []
        assert store.write(documents, vectors) == 40
        assert store.write(documents, (1e150 * vectors).tolist()) == 0  # only where a vector points to counts
        found = store.nearest(wanted.tolist(), 5)
        assert [one.id for one in found] == best[:5]
        assert found[0].score == pytest.approx(cosines.max(), abs=1e-5)
        assert [one.id for one in store.nearest(list(wanted), 3, {"even": True})] == [
            n for n in best if not int(n) % 2
        ][:3]
        assert store.write([Document("without", best[0])]) == 1
        store.delete(ids=[best[1]])
        assert [one.id for one in store.nearest(list(wanted), 2)] == best[2:4]
    with DocumentStore(tmp_path / "store") as store, pytest.raises(UsageError, match="vectors of 16 dimensions, not 3"):
        store.nearest([1, 2, 3])


def test_what_has_expired_is_not_there_and_goes_at_the_next_writing() -> None:
    with DocumentStore() as store:
        store.write([Document("old text", "old")], [[1.0, 0.0]], expires=time.time() - 1)
        store.write([Document("new text", "new")], [[1.0, 0.0]], expires=time.time() + 1_000)
        for found in (store.filter(), store.get(["old", "new"]), store.keyword("text"), store.nearest([1, 0])):
            assert [one.id for one in found] == ["new"]
        assert [one.id for one in store.keyword("text", where={"x": None})] == ["new"]
        assert len(store) == 1
        store.write([Document("old text", "old")], expires=time.time() - 1)
        store.write([Document("old text", "old")])
        assert store.get(["old"])
        assert store.write([Document("old text", "old")], expires=time.time() - 1) == 0
        assert not store.get(["old"])


def test_threads_and_processes_share_a_store(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with DocumentStore(path) as one, DocumentStore(path) as other:

        def work(number: int) -> None:
            for part in range(10):
                (one if number % 2 else other).write([Document(f"word{number} {part}", f"{number}-{part}")])
                one.keyword(f"word{number}")

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(one) == len(other) == 60


def test_a_transaction_is_all_or_nothing() -> None:
    with DocumentStore() as store:

        def replaced() -> None:
            with store.transaction():
                store.delete(ids=["a"])
                store.write([Document("second", "b")])
                raise KeyboardInterrupt

        store.write([Document("first", "a")])
        with pytest.raises(KeyboardInterrupt):
            replaced()
        assert [one.id for one in store.filter()] == ["a"]
        assert store.keyword("first")


# ── files that are no stores ─────────────────────────────────────────────────────────────────────


def _foreign(path: Path) -> None:
    apsw.Connection(str(path)).execute("CREATE TABLE moz_places (id)")


def _newer(path: Path) -> None:
    DocumentStore(path).close()
    apsw.Connection(str(path)).execute("PRAGMA user_version = 99")


def _damaged(path: Path) -> None:
    with DocumentStore(path) as store:
        store.write([Document("word " * 3_000, str(number)) for number in range(50)])
    data = bytearray(path.read_bytes())
    data[100:] = b"\xee" * (len(data) - 100)
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda path: path.write_bytes(b"no database " * 1_000), "is not a document store, or is damaged"),
        (_damaged, "is not a document store, or is damaged"),
        (_foreign, "but another database"),
        (_newer, r"was written by a newer Retinue \(schema 99, here 1\)"),
        (lambda path: path.mkdir(), "cannot be used as a document store"),
    ],
)
def test_what_is_no_store_is_refused_in_a_line(tmp_path: Path, make: Any, problem: str) -> None:
    path = tmp_path / "store"
    make(path)
    with pytest.raises(DataError, match=problem) as raised:
        DocumentStore(path).filter()
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)
