"""The contract of every document store, as kept by `retinue.DocumentStore`."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from ..core.values import Document
from ..documents.store_database import Where
from .case import Case, cases, require, require_same, shown, skip
from .document_stores import (
    BAD_FILTERS,
    FILTERS,
    MISFITS,
    VECTORS,
    YEARS,
    DocumentStoreSubject,
    ids,
    opened,
    refused,
)


def document_store_cases() -> tuple[Case[DocumentStoreSubject], ...]:
    """Return the conformance suite of a document store, for `pytest.mark.parametrize("case", …, ids=str)`."""
    return cases(
        "document store",
        what_is_written_is_there,
        any_text_is_kept,
        a_document_without_an_id_is_kept_once,
        an_id_is_written_over,
        a_write_is_all_or_nothing,
        documents_are_got_by_id,
        documents_are_deleted,
        deleting_everything_must_be_said,
        filters_compare,
        a_bad_filter_names_its_place,
        many_threads_may_use_it,
        words_are_found_best_first,
        any_text_is_a_query,
        vectors_are_found_nearest_first,
        vectors_that_do_not_fit_are_refused,
        top_k_is_at_least_one,
        what_has_expired_is_not_there,
        a_closed_store_says_so,
    )


# ── writing ──────────────────────────────────────────────────────────────────────────────────────


async def what_is_written_is_there(subject: DocumentStoreSubject) -> None:
    """Written documents are found with content, id and meta, in the order written, and counted."""
    with opened(subject) as store:
        require_same(store.write(YEARS), 3, "how many were new")
        require_same(store.filter(), list(YEARS), "what is found, and was written")
        require_same(len(store), 3, "how many there are")
        require_same(store.write([]), 0, "how many of no documents were new")


async def any_text_is_kept(subject: DocumentStoreSubject) -> None:
    """Content, ids and values may be any Unicode text; an invalid character may be replaced."""
    odd = ["", "é 🙂 漢字 \u202e", "a\nb\r\n\tc", "'; DROP TABLE documents; --", '"', "x" * 100_000, "zero\x00byte"]
    documents = [Document(text, f"{at} {text[:20]}", {"said": text[:50]}) for at, text in enumerate(odd)]
    with opened(subject, *documents) as store:
        require_same(store.filter(), documents, "what is found, and was written")
        for document in documents:
            require_same(store.filter({"said": document.meta["said"]}), [document], "what a filter finds")
            require_same(store.get([document.id]), [document], "what its id finds")
        store.write([Document("half \ud800 a character", "half")])
        require(ids(store.get(["half"])) == ["half"], "a lone surrogate in a text: the document is not there")


async def a_document_without_an_id_is_kept_once(subject: DocumentStoreSubject) -> None:
    """A document without an id gets one derived from content and meta, so that duplicates are stored once."""
    same = [
        Document("text", meta={"a": 1, "b": [1, {"c": None}]}),
        Document("text", meta={"b": (1, {"c": None}), "a": 1}),
    ]
    with opened(subject) as store:
        require_same(store.write([*same, Document("text"), Document("other")]), 3, "how many were new")
        require_same(store.write(same), 0, "how many of the same were new")
        require(len(set(ids(store.filter()))) == 3 and all(ids(store.filter())), "want three ids, all different")


async def an_id_is_written_over(subject: DocumentStoreSubject) -> None:
    """A document entirely replaces the one with the same id; an identical one is not a change."""
    with opened(subject, *YEARS) as store:
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
        with opened(subject, YEARS[0]) as store:
            wrong = [Document("fine", "fine"), Document("wrong", "wrong", {"a": value})]
            refused(lambda store=store, wrong=wrong: store.write(wrong), f"meta with {value!r}")  # type: ignore[misc]
            require_same(ids(store.filter()), ["a"], "what is there after a write that was refused")


async def documents_are_got_by_id(subject: DocumentStoreSubject) -> None:
    """`get` returns the existing documents, each once, in the order of the ids, however many there are."""
    with opened(subject, *YEARS) as store:
        require_same(ids(store.get(["c", "none", "a", "c"])), ["c", "a"], "what ids find")
        require_same(store.get([]), [], "what no ids find")
        require_same(ids(store.get([*map(str, range(5_000)), "b"])), ["b"], "what 5,001 ids find")


async def documents_are_deleted(subject: DocumentStoreSubject) -> None:
    """`delete` takes a filter, ids, or both, and returns how many documents there were."""
    with opened(subject, *YEARS) as store:
        require_same(store.delete(ids=["a", "none"]), 1, "how many of two ids were deleted")
        require_same(store.delete({"kind": "page"}, ids=["b"]), 0, "how many had the kind and the id")
        require_same(store.delete({"kind": "page"}), 1, "how many had the kind")
        require_same(ids(store.filter()), ["b"], "what is left")
        require_same(store.delete({}), 1, "how many were left")
        require_same(len(store), 0, "how many there are in the end")


async def deleting_everything_must_be_said(subject: DocumentStoreSubject) -> None:
    """`delete()` without a filter and without ids is refused; `delete({})` deletes all."""
    with opened(subject, *YEARS) as store:
        refused(store.delete, "delete()")
        require_same(len(store), 3, "how many are left")
        require_same(store.delete(ids=[]), 0, "how many of no ids were deleted")


# ── filters ──────────────────────────────────────────────────────────────────────────────────────


async def filters_compare(subject: DocumentStoreSubject) -> None:
    """A filter compares texts with texts and numbers with numbers; `None` equals a missing value; all conditions must
    hold.
    """
    with opened(subject, *YEARS) as store:
        for where, wanted in FILTERS:
            require_same(ids(store.filter(where)), list(wanted), f"what {dict(where)} finds, and should find")


async def a_bad_filter_names_its_place(subject: DocumentStoreSubject) -> None:
    """An invalid key, operator or value is refused with its key in the message, wherever a filter is accepted."""
    with opened(subject, *YEARS) as store:
        for where in BAD_FILTERS:
            uses: list[Callable[[Where], object]] = [store.filter, store.delete]
            if subject.keyword:
                uses.append(lambda where: store.keyword("text", where=where))
            for use in uses:
                said = refused(lambda use=use, where=where: use(where), f"the filter {where}")  # type: ignore[misc]
                require(next(iter(where)) in said, f"the filter {where}: its key is not in {said!r}")
        require_same(len(store), 3, "how many are left")


async def many_threads_may_use_it(subject: DocumentStoreSubject) -> None:
    """Several threads may write and read at once without losing anything."""
    with opened(subject) as store:

        def work(thread: int) -> None:
            for part in range(10):
                store.write([Document(f"text {thread} {part}", f"{thread}-{part}", {"thread": thread})])
                require_same(len(store.filter({"thread": thread})), part + 1, f"what thread {thread} finds of its own")

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(work, range(6)))
        require_same(len(store), 60, "how many there are")


# ── searching ────────────────────────────────────────────────────────────────────────────────────


def _for(ability: bool, name: str) -> None:
    if not ability:
        skip(f"DocumentStoreSubject.{name} is false")


async def words_are_found_best_first(subject: DocumentStoreSubject) -> None:
    """`keyword` finds documents by their words, best first and by descending score; a filter applies here, too."""
    _for(subject.keyword, "keyword")
    river = Document("The river flows through the town, and the river is deep.", "river", {"kind": "page"})
    town = Document("A town at a river, with many other things to see.", "town", {"kind": "book"})
    with opened(subject, town, river, Document("A lake.", "lake", {"kind": "page"})) as store:
        found = store.keyword("river")
        require_same(ids(found), ["river", "town"], "what 'river' finds")
        scores = [one.score for one in found if one.score is not None]
        require(
            len(scores) == 2 and scores == sorted(scores, reverse=True), f"the scores are {scores}; want them to fall"
        )
        require_same(store.keyword("river", 1), found[:1], "the best one")
        require_same(ids(store.keyword("river", where={"kind": "book"})), ["town"], "what a filter leaves")
        store.write([replace(river, content="A mountain.")])
        require_same(ids(store.keyword("river")), ["town"], "what 'river' finds after a change")
        store.delete(ids=["town"])
        require_same(store.keyword("river"), [], "what 'river' finds after a deletion")


async def any_text_is_a_query(subject: DocumentStoreSubject) -> None:
    """Any text is a valid query: none of it is interpreted as the store's own query language."""
    _for(subject.keyword, "keyword")
    with opened(subject, *YEARS) as store:
        for query in (
            "",
            "*",
            '"',
            "text AND",
            "NEAR(text, 2)",
            "title: x",
            "'; --",
            "\x00\ud800",
            "text " * 5_000,
            "?" * 999,
        ):
            found = ids(store.keyword(query))
            require(set(found) <= set("abc"), f"{shown(query, 40)} finds {found}")


async def vectors_are_found_nearest_first(subject: DocumentStoreSubject) -> None:
    """`nearest` finds documents by the direction of their vectors; `score` is the cosine similarity. A document changed
    without a vector loses its vector.
    """
    _for(subject.nearest, "nearest")
    with opened(subject) as store:
        require_same(store.nearest([1.0, 0.0]), [], "what an empty store finds")
        require_same(store.write(YEARS, VECTORS), 3, "how many were new")
        found = store.nearest([10.0, 1.0])
        require_same(ids(found), ["a", "c", "b"], "what is found near to the first")
        cosines = [10 / math.sqrt(101), 11 / math.sqrt(202), 1 / math.sqrt(101)]
        close = all(abs((one.score or 0) - cosine) < 1e-4 for one, cosine in zip(found, cosines, strict=True))
        require(close, f"the scores are {[one.score for one in found]}; want the cosines {cosines}")
        require_same(ids(store.nearest([10.0, 1.0], 1, {"kind": "book"})), ["b"], "what a filter leaves")
        store.write([Document("changed", "a")])
        require_same(ids(store.nearest([1.0, 0.0])), ["c", "b"], "what is found after a change without a vector")


async def vectors_that_do_not_fit_are_refused(subject: DocumentStoreSubject) -> None:
    """There is one vector for each document, all of the same length, of finite numbers that are not all 0."""
    _for(subject.nearest, "nearest")
    with opened(subject) as store:
        store.write(YEARS[:1], VECTORS[:1])
        for vectors in MISFITS:
            refused(lambda vectors=vectors: store.write(YEARS[1:2], vectors), f"the vectors {vectors}")  # type: ignore[misc]
        require_same(ids(store.filter()), ["a"], "what is there after writes that were refused")
        refused(lambda: store.nearest([1.0, 2.0, 3.0]), "a vector of another length")


async def top_k_is_at_least_one(subject: DocumentStoreSubject) -> None:
    """A search for fewer documents than one is refused, and one for more than there are finds all."""
    _for(subject.keyword or subject.nearest, "keyword")
    with opened(subject, *YEARS) as store:
        if subject.keyword:
            refused(lambda: store.keyword("text", 0), "top_k=0")
            require_same(len(store.keyword("text", 10**9)), 3, "how many are found of 10^9")
        if subject.nearest:
            store.write(YEARS, VECTORS)
            refused(lambda: store.nearest([1.0, 0.0], 0), "top_k=0")
            require_same(len(store.nearest([1.0, 0.0], 10**9)), 3, "how many are found of 10^9")


async def what_has_expired_is_not_there(subject: DocumentStoreSubject) -> None:
    """An expired document is neither found nor counted."""
    _for(subject.expires, "expires")
    with opened(subject) as store:
        store.write(YEARS[:1], expires=time.time() - 1)
        store.write(YEARS[1:], expires=time.time() + 1_000)
        for found in (store.filter(), store.get("abc"), store.keyword("text") if subject.keyword else YEARS[1:]):
            require_same(sorted(ids(found)), ["b", "c"], "what is found")
        require_same(len(store), 2, "how many there are")


async def a_closed_store_says_so(subject: DocumentStoreSubject) -> None:
    """After `close` every use is refused; closing again has no effect."""
    store = subject.make()
    store.close()
    store.close()
    refused(store.filter, "filter() of a closed store")
