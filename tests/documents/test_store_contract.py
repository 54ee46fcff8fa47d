"""`DocumentStore` keeps to the contract of document stores, and the suite that says so finds those that do not."""

from __future__ import annotations

import threading
import unittest
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from retinue import Document, DocumentStore, UsageError
from retinue.testing import Case, DocumentStoreSubject, document_store_cases

every_case = pytest.mark.parametrize("case", document_store_cases(), ids=str)


@every_case
def test_a_store_in_memory_keeps_to_the_contract(case: Case[DocumentStoreSubject]) -> None:
    case.run(DocumentStoreSubject(DocumentStore))


@every_case
def test_a_store_in_a_file_keeps_to_the_contract(case: Case[DocumentStoreSubject], tmp_path: Path) -> None:
    number = count()
    case.run(DocumentStoreSubject(lambda: DocumentStore(tmp_path / f"{next(number)}.db")))


# ── stores that break it ─────────────────────────────────────────────────────────────────────────


class Bare(DocumentStore):
    def filter(self, where: Any = None) -> list[Document]:
        return [replace(one, meta={}) for one in super().filter(where)]


class Narrow(DocumentStore):
    def write(self, documents: Any, vectors: Any = None, *, expires: Any = None) -> int:
        narrow = [replace(one, content=one.content.encode("ascii", "replace").decode()) for one in documents]
        return super().write(narrow, vectors, expires=expires)


class Numbering(DocumentStore):
    numbers = count()

    def write(self, documents: Any, vectors: Any = None, *, expires: Any = None) -> int:
        numbered = [one if one.id else replace(one, id=f"n{next(self.numbers)}") for one in documents]
        return super().write(numbered, vectors, expires=expires)


class Keeping(DocumentStore):
    def write(self, documents: Any, vectors: Any = None, *, expires: Any = None) -> int:
        new = [one for one in documents if not (one.id and self.get([one.id]))]
        return super().write(new, vectors, expires=expires)


class Piecemeal(DocumentStore):
    def write(self, documents: Any, vectors: Any = None, *, expires: Any = None) -> int:
        if vectors is not None:
            return super().write(documents, vectors, expires=expires)
        return sum(DocumentStore.write(self, [one], expires=expires) for one in documents)


class Sorting(DocumentStore):
    def get(self, ids: Any) -> list[Document]:
        return super().get(sorted(ids))


class Silent(DocumentStore):
    def delete(self, where: Any = None, *, ids: Any = None) -> int:
        super().delete(where, ids=ids)
        return 0


class Sweeping(DocumentStore):
    def delete(self, where: Any = None, *, ids: Any = None) -> int:
        return super().delete({} if where is None and ids is None else where, ids=ids)


class Lax(DocumentStore):
    """Takes `{"ne": …}` to say something of those only that have the key."""

    def filter(self, where: Any = None) -> list[Document]:
        negated = [key for key, value in (where or {}).items() if isinstance(value, dict) and "ne" in value]
        return [one for one in super().filter(where) if all(key in one.meta for key in negated)]


class Vague(DocumentStore):
    def filter(self, where: Any = None) -> list[Document]:
        try:
            return super().filter(where)
        except UsageError:
            raise UsageError("this filter is not valid") from None


class Lenient(DocumentStore):
    def filter(self, where: Any = None) -> list[Document]:
        try:
            return super().filter(where)
        except UsageError:
            return []


class OneThreaded(DocumentStore):
    def write(self, documents: Any, vectors: Any = None, *, expires: Any = None) -> int:
        if threading.current_thread().name.startswith("ThreadPool"):
            raise RuntimeError("made in another thread")
        return super().write(documents, vectors, expires=expires)


class Reversed(DocumentStore):
    def keyword(self, query: str, top_k: int = 10, where: Any = None) -> list[Document]:
        return super().keyword(query, top_k, where)[::-1]


class Raw(DocumentStore):
    def keyword(self, query: str, top_k: int = 10, where: Any = None) -> list[Document]:
        if query.count('"') % 2:
            raise SyntaxError("unterminated string")
        return super().keyword(query, top_k, where)


class Unfiltered(DocumentStore):
    def nearest(self, vector: Any, top_k: int = 10, where: Any = None) -> list[Document]:
        return super().nearest(vector, top_k)


class Dropping(DocumentStore):
    def write(self, documents: Any, vectors: Any = None, *, expires: Any = None) -> int:
        kept = list(documents)
        try:
            return super().write(kept, vectors, expires=expires)
        except UsageError:
            return super().write(kept, expires=expires)


class Modest(DocumentStore):
    def keyword(self, query: str, top_k: int = 10, where: Any = None) -> list[Document]:
        return super().keyword(query, top_k, where) if top_k else []


class Immortal(DocumentStore):
    def write(self, documents: Any, vectors: Any = None, *, expires: Any = None) -> int:
        return super().write(documents, vectors)


class Haunted(DocumentStore):
    def filter(self, where: Any = None) -> list[Document]:
        return []


@pytest.mark.parametrize(
    ("kind", "clause", "problem"),
    [
        (Bare, "what is written is there", "what is found, and was written: .*meta={}"),
        (Narrow, "any text is kept", r"what is found, and was written: .*\? \? \?\?"),
        (Numbering, "a document without an id is kept once", "how many were new: 4 / 3"),
        (Keeping, "an id is written over", "how many were new or changed: 0 / 1"),
        (Piecemeal, "a write is all or nothing", "what is there after a write that was refused: .*'fine'"),
        (Sorting, "documents are got by id", r"what ids find: \['a', 'c'\] / \['c', 'a'\]"),
        (Silent, "documents are deleted", "how many of two ids were deleted: 0 / 1"),
        (Sweeping, "deleting everything must be said", "want a UsageError, it gave 3"),
        (Lax, "filters compare", r"what {'missing': {'ne': 1}} finds, and should find: \[\] / \['a', 'b', 'c'\]"),
        (Vague, "a bad filter names its place", "its key is not in 'this filter is not valid'"),
        (Lenient, "a bad filter names its place", r"the filter {'a b': 1}: want a UsageError, it gave \[\]"),
        (OneThreaded, "many threads may use it", "unexpectedly raised RuntimeError: made in another thread"),
        (Reversed, "words are found best first", r"what 'river' finds: \['town', 'river'\] / \['river', 'town'\]"),
        (Raw, "any text is a query", "unexpectedly raised SyntaxError"),
        (Unfiltered, "vectors are found nearest first", "what a filter leaves"),
        (Dropping, "vectors that do not fit are refused", "want a UsageError, it gave 1"),
        (Modest, "top k is at least one", r"top_k=0: want a UsageError, it gave \[\]"),
        (Immortal, "what has expired is not there", r"what is found: \['a', 'b', 'c'\] / \['b', 'c'\]"),
        (Haunted, "a closed store says so", "want a UsageError"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_broken_store_is_found_and_the_clause_named(kind: type[DocumentStore], clause: str, problem: str) -> None:
    (case,) = [one for one in document_store_cases() if one.name == clause]
    with pytest.raises(AssertionError, match=f"^document store: {clause}: .*({problem})"):
        case.run(DocumentStoreSubject(kind))


def test_what_a_store_cannot_do_is_not_asked_of_it() -> None:
    subject = DocumentStoreSubject(DocumentStore, expires=False, keyword=False, nearest=False)
    reasons = []
    for case in document_store_cases():
        try:
            case.run(subject)
        except unittest.SkipTest as reason:
            reasons.append(str(reason))
    assert len(reasons) == 6
    assert all(reason.startswith("DocumentStoreSubject.") for reason in reasons)
