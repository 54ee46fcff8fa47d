"""The contract of every document store, as kept by `retinue.DocumentStore`."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ..core.values import Document
from ..documents.document_store import Store, Where
from ..errors import UsageError
from .case import Case, collect_cases, format_value, need, require, require_same

YEARS = (
    Document("The first text.", "a", {"year": 2019, "kind": "page", "draft": True}),
    Document("The second text.", "b", {"year": 2020, "kind": "book", "draft": False}),
    Document("The third text.", "c", {"year": 2021.5, "kind": "page", "tags": ["x"], "note": None}),
)
MISFITS: tuple[Any, ...] = (  # for one document of a store with vectors of length 2
    *([[1.0, 2.0, 3.0]], [], [[0.0, 0.0]], [[math.nan, 1.0]], [[1e400, 1.0]]),
    *([[1.0, 2.0], [1.0, 2.0]], [[1.0, 2.0], [1.0]], ["ab"]),
)
VECTORS = ([1.0, 0.0], [0.0, 2.0], [3.0, 3.0])  # of YEARS
FILTERS: tuple[tuple[Where, str], ...] = (
    ({}, "abc"),
    ({"kind": "page"}, "ac"),
    ({"kind": "page", "year": 2019}, "a"),
    ({"kind": {"eq": "page"}}, "ac"),
    ({"kind": {"ne": "page"}}, "b"),
    ({"kind": {"in": ["book", "letter"]}}, "b"),
    ({"kind": {"in": []}}, ""),
    ({"year": {"gt": 2019}}, "bc"),
    ({"year": {"gte": 2020, "lt": 2021.5}}, "b"),
    ({"year": {"lte": 2019}}, "a"),
    ({"year": "2019"}, ""),
    ({"year": {"in": [2019, "2020", 2021.5]}}, "ac"),
    ({"kind": {"gt": "book"}}, "ac"),
    ({"kind": {"gt": 1}}, ""),
    ({"draft": True}, "a"),
    ({"draft": 1}, ""),
    ({"draft": None}, "c"),
    ({"note": None}, "abc"),
    ({"missing": {"ne": 1}}, "abc"),
    ({"missing": {"lt": 1}}, ""),
)
BAD_FILTERS: tuple[Where, ...] = (
    *({name: 1} for name in ("a b", "a' OR 1=1 --", "", "1a", "$.a", "a[0]")),
    *({"a": {"like": "%"}}, {"a": {"$gt": 1}}, {"a": {"in": "text"}}, {"a": {"in": [{"b": 1}]}}),
    *({"a": {"gt": None}}, {"a": {"gt": True}}, {"a": [1]}, {"a": math.nan}),
)


@dataclass(frozen=True, slots=True)
class DocumentStoreSubject:
    """A document store under test.

    Args:
        make: Returns a new, empty store.
        expires: Whether it supports an expiry time for documents, in Unix seconds.
        keyword: Whether it supports keyword search.
        nearest: Whether it supports vector search.
    """

    make: Callable[[], Store]
    expires: bool = True
    keyword: bool = True
    nearest: bool = True


@contextmanager
def _open_store(subject: DocumentStoreSubject, *documents: Document) -> Iterator[Store]:
    """Open a new store that contains these documents."""
    store = subject.make()
    try:
        require(len(store) == 0, f"a new store has {len(store)} documents; want an empty one for each case")
        if documents:
            store.write(documents)
        yield store
    finally:
        store.close()


def _list_ids(found: Iterable[Document]) -> list[str]:
    """Return the ids of documents."""
    return [document.id for document in found]


def _read_refusal(what: str, use: Callable[..., object], *arguments: object) -> str:
    """Return the message of the `UsageError` that `use` raises, given these arguments."""
    try:
        value = use(*arguments)
    except UsageError as error:
        return str(error)
    raise AssertionError(f"{what}: want a UsageError, it gave {format_value(value)}")


def document_store_cases() -> tuple[Case[DocumentStoreSubject], ...]:
    """Return the conformance suite of a document store, for `pytest.mark.parametrize("case", …, ids=str)`."""
    return collect_cases("document store", globals())


async def what_is_written_is_there(subject: DocumentStoreSubject) -> None:
    """Written documents are found with content, id and meta, in the order written, and counted."""
    with _open_store(subject) as store:
        require_same(store.write(YEARS), 3, "how many were new")
        require_same(store.filter(), list(YEARS), "what is found, and was written")
        require_same(len(store), 3, "how many there are")
        require_same(store.write([]), 0, "how many of no documents were new")


async def any_text_is_kept(subject: DocumentStoreSubject) -> None:
    """Content, ids and values may be any Unicode text; an invalid character may be replaced."""
    odd = ["", "é 🙂 漢字 \u202e", "a\nb\r\n\tc", "'; DROP TABLE documents; --", '"', "x" * 100_000, "zero\x00byte"]
    documents = [Document(text, f"{at} {text[:20]}", {"said": text[:50]}) for at, text in enumerate(odd)]
    with _open_store(subject, *documents) as store:
        require_same(store.filter(), documents, "what is found, and was written")
        for document in documents:
            require_same(store.filter({"said": document.meta["said"]}), [document], "what a filter finds")
            require_same(store.get([document.id]), [document], "what its id finds")
        store.write([Document("half \ud800 a character", "half")])
        require(_list_ids(store.get(["half"])) == ["half"], "a lone surrogate in a text: the document is not there")


async def a_document_without_an_id_is_kept_once(subject: DocumentStoreSubject) -> None:
    """A document without an id gets one derived from content and meta, so that duplicates are stored once."""
    first, second = {"a": 1, "b": [1, {"c": None}]}, {"b": (1, {"c": None}), "a": 1}
    same = [Document("text", meta=first), Document("text", meta=second)]
    with _open_store(subject) as store:
        require_same(store.write([*same, Document("text"), Document("other")]), 3, "how many were new")
        require_same(store.write(same), 0, "how many of the same were new")
        found = _list_ids(store.filter())
        require(len(set(found)) == 3 and all(found), "want three ids, all different")


async def an_id_is_written_over(subject: DocumentStoreSubject) -> None:
    """A document entirely replaces the one with the same id; an identical one is not a change."""
    with _open_store(subject, *YEARS) as store:
        changed = Document("Another text.", "b", {"kind": "letter"})
        require_same(store.write([YEARS[0], changed]), 1, "how many were new or changed")
        require_same(store.get(["b"]), [changed], "what is found, and was written")
        require_same(store.filter({"year": 2020}), [], "what the former meta finds")
        require_same(len(store), 3, "how many there are")
        store.write([Document("1", "twice"), Document("2", "twice")])
        require_same([one.content for one in store.get(["twice"])], ["2"], "the last of one id in one write counts")


async def a_write_is_all_or_nothing(subject: DocumentStoreSubject) -> None:
    """Meta that is not JSON is refused, and then nothing of that write is stored."""
    for value in (math.nan, object(), b"x"):
        with _open_store(subject, YEARS[0]) as store:
            wrong = [Document("fine", "fine"), Document("wrong", "wrong", {"a": value})]
            _read_refusal(f"meta with {value!r}", store.write, wrong)
            require_same(_list_ids(store.filter()), ["a"], "what is there after a write that was refused")


async def documents_are_got_by_id(subject: DocumentStoreSubject) -> None:
    """`get` returns the existing documents, each once, in the order of the ids, however many there are."""
    with _open_store(subject, *YEARS) as store:
        require_same(_list_ids(store.get(["c", "none", "a", "c"])), ["c", "a"], "what ids find")
        require_same(store.get([]), [], "what no ids find")
        require_same(_list_ids(store.get([*map(str, range(5_000)), "b"])), ["b"], "what 5,001 ids find")


async def documents_are_deleted(subject: DocumentStoreSubject) -> None:
    """`delete` takes a filter, ids, or both, and returns how many documents there were."""
    with _open_store(subject, *YEARS) as store:
        require_same(store.delete(ids=["a", "none"]), 1, "how many of two ids were deleted")
        require_same(store.delete({"kind": "page"}, ids=["b"]), 0, "how many had the kind and the id")
        require_same(store.delete({"kind": "page"}), 1, "how many had the kind")
        require_same(_list_ids(store.filter()), ["b"], "what is left")
        require_same(store.delete({}), 1, "how many were left")
        require_same(len(store), 0, "how many there are in the end")


async def deleting_everything_must_be_said(subject: DocumentStoreSubject) -> None:
    """`delete()` without a filter and without ids is refused; `delete({})` deletes all."""
    with _open_store(subject, *YEARS) as store:
        _read_refusal("delete()", store.delete)
        require_same(len(store), 3, "how many are left")
        require_same(store.delete(ids=[]), 0, "how many of no ids were deleted")


async def filters_compare(subject: DocumentStoreSubject) -> None:
    """A filter compares texts with texts and numbers with numbers; `None` equals a missing value; all conditions must
    hold."""
    with _open_store(subject, *YEARS) as store:
        for where, wanted in FILTERS:
            require_same(_list_ids(store.filter(where)), list(wanted), f"what {dict(where)} finds, and should find")


async def a_bad_filter_names_its_place(subject: DocumentStoreSubject) -> None:
    """An invalid key, operator or value is refused with its key in the message, wherever a filter is accepted."""
    with _open_store(subject, *YEARS) as store:
        for where in BAD_FILTERS:
            search = partial(store.keyword, "text", 10) if subject.keyword else store.filter
            for use in (store.filter, store.delete, search):
                said = _read_refusal(f"the filter {where}", use, where)
                require(next(iter(where)) in said, f"the filter {where}: its key is not in {said!r}")
        require_same(len(store), 3, "how many are left")


async def many_threads_may_use_it(subject: DocumentStoreSubject) -> None:
    """Several threads may write and read at once without losing anything."""
    with _open_store(subject) as store:

        def work(thread: int) -> None:
            for part in range(10):
                store.write([Document(f"text {thread} {part}", f"{thread}-{part}", {"thread": thread})])
                require_same(len(store.filter({"thread": thread})), part + 1, f"what thread {thread} finds of its own")

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(work, range(6)))
        require_same(len(store), 60, "how many there are")


async def words_are_found_best_first(subject: DocumentStoreSubject) -> None:
    """`keyword` finds documents by their words, best first and by descending score; a filter applies here, too."""
    need(subject, "keyword")
    river = Document("The river flows through the town, and the river is deep.", "river", {"kind": "page"})
    town = Document("A town at a river, with many other things to see.", "town", {"kind": "book"})
    with _open_store(subject, town, river, Document("A lake.", "lake", {"kind": "page"})) as store:
        found = store.keyword("river")
        require_same(_list_ids(found), ["river", "town"], "what 'river' finds")
        scores = [one.score for one in found if one.score is not None]
        fall = len(scores) == 2 and scores[0] >= scores[1]
        require(fall, f"the scores are {scores}; want them to fall")
        require_same(store.keyword("river", 1), found[:1], "the best one")
        require_same(_list_ids(store.keyword("river", where={"kind": "book"})), ["town"], "what a filter leaves")
        store.write([replace(river, content="A mountain.")])
        require_same(_list_ids(store.keyword("river")), ["town"], "what 'river' finds after a change")
        store.delete(ids=["town"])
        require_same(store.keyword("river"), [], "what 'river' finds after a deletion")


async def any_text_is_a_query(subject: DocumentStoreSubject) -> None:
    """Any text is a valid query: none of it is interpreted as the store's own query language."""
    need(subject, "keyword")
    with _open_store(subject, *YEARS) as store:
        odd = ["", "*", '"', "text AND", "NEAR(text, 2)", "title: x", "'; --", "\x00\ud800", "text " * 5_000, "?" * 999]
        for query in odd:
            found = _list_ids(store.keyword(query))
            require(set(found) <= set("abc"), f"{format_value(query, 40)} finds {found}")


async def vectors_are_found_nearest_first(subject: DocumentStoreSubject) -> None:
    """`nearest` finds documents by the direction of their vectors; `score` is the cosine similarity. A document changed
    without a vector loses its vector."""
    need(subject, "nearest")
    with _open_store(subject) as store:
        require_same(store.nearest([1.0, 0.0]), [], "what an empty store finds")
        require_same(store.write(YEARS, VECTORS), 3, "how many were new")
        found = store.nearest([10.0, 1.0])
        require_same(_list_ids(found), ["a", "c", "b"], "what is found near to the first")
        cosines = [10 / math.sqrt(101), 11 / math.sqrt(202), 1 / math.sqrt(101)]
        close = all(abs((one.score or 0) - cosine) < 1e-4 for one, cosine in zip(found, cosines, strict=True))
        require(close, f"the scores are {[one.score for one in found]}; want the cosines {cosines}")
        require_same(_list_ids(store.nearest([10.0, 1.0], 1, {"kind": "book"})), ["b"], "what a filter leaves")
        store.write([Document("changed", "a")])
        require_same(_list_ids(store.nearest([1.0, 0.0])), ["c", "b"], "what is found after a change without a vector")


async def vectors_that_do_not_fit_are_refused(subject: DocumentStoreSubject) -> None:
    """There is one vector for each document, all of the same length, of finite numbers that are not all 0."""
    need(subject, "nearest")
    with _open_store(subject) as store:
        store.write(YEARS[:1], VECTORS[:1])
        for vectors in MISFITS:
            _read_refusal(f"the vectors {vectors}", store.write, YEARS[1:2], vectors)
        require_same(_list_ids(store.filter()), ["a"], "what is there after writes that were refused")
        _read_refusal("a vector of another length", store.nearest, [1.0, 2.0, 3.0])


async def top_k_is_at_least_one(subject: DocumentStoreSubject) -> None:
    """A search for fewer documents than one is refused, and one for more than there are finds all."""
    need(subject, "keyword" if not subject.nearest else "nearest")
    with _open_store(subject, *YEARS) as store:
        if subject.keyword:
            _read_refusal("top_k=0", store.keyword, "text", 0)
            require_same(len(store.keyword("text", 10**9)), 3, "how many are found of 10^9")
        if subject.nearest:
            store.write(YEARS, VECTORS)
            _read_refusal("top_k=0", store.nearest, [1.0, 0.0], 0)
            require_same(len(store.nearest([1.0, 0.0], 10**9)), 3, "how many are found of 10^9")


async def what_has_expired_is_not_there(subject: DocumentStoreSubject) -> None:
    """An expired document is neither found nor counted."""
    need(subject, "expires")
    with _open_store(subject) as store:
        store.write(YEARS[:1], expires=time.time() - 1)
        store.write(YEARS[1:], expires=time.time() + 1_000)
        for found in (store.filter(), store.get("abc"), store.keyword("text") if subject.keyword else YEARS[1:]):
            require_same(sorted(_list_ids(found)), ["b", "c"], "what is found")
        require_same(len(store), 2, "how many there are")


async def a_closed_store_says_so(subject: DocumentStoreSubject) -> None:
    """After `close` every use is refused; closing again has no effect."""
    store = subject.make()
    store.close()
    store.close()
    _read_refusal("filter() of a closed store", store.filter)
