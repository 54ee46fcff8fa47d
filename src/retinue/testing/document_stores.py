"""Document stores under test: how they are made, and test data and queries for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..core.values import Document
from ..documents.document_store import Store
from ..documents.store_database import Where
from ..errors import UsageError
from .case import require, shown

YEARS = (
    Document("The first text.", "a", {"year": 2019, "kind": "page", "draft": True}),
    Document("The second text.", "b", {"year": 2020, "kind": "book", "draft": False}),
    Document("The third text.", "c", {"year": 2021.5, "kind": "page", "tags": ["x"], "note": None}),
)
MISFITS: tuple[Any, ...] = (  # for one document of a store with vectors of length 2
    [[1.0, 2.0, 3.0]],
    [],
    [[0.0, 0.0]],
    [[math.nan, 1.0]],
    [[1e400, 1.0]],
    [[1.0, 2.0], [1.0, 2.0]],
    [[1.0, 2.0], [1.0]],
    ["ab"],
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
    {"a b": 1},
    {"a' OR 1=1 --": 1},
    {"": 1},
    {"1a": 1},
    {"$.a": 1},
    {"a[0]": 1},
    {"a": {"like": "%"}},
    {"a": {"$gt": 1}},
    {"a": {"in": "text"}},
    {"a": {"in": [{"b": 1}]}},
    {"a": {"gt": None}},
    {"a": {"gt": True}},
    {"a": [1]},
    {"a": math.nan},
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
def opened(subject: DocumentStoreSubject, *documents: Document) -> Iterator[Store]:
    """Open a new store that contains these documents."""
    store = subject.make()
    try:
        require(len(store) == 0, f"a new store has {len(store)} documents; want an empty one for each case")
        if documents:
            store.write(documents)
        yield store
    finally:
        store.close()


def ids(found: Iterable[Document]) -> list[str]:
    """Return the ids of documents."""
    return [document.id for document in found]


def refused(use: Callable[[], object], what: str) -> str:
    """Return the message of the `UsageError` that `use` raises."""
    try:
        value = use()
    except UsageError as error:
        return str(error)
    raise AssertionError(f"{what}: want a UsageError, it gave {shown(value)}")
