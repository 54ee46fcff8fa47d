"""The protocol of document stores: the methods that retrievers and writers call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ..core.values import Document
from ..errors import UsageError
from .filters import Where

if TYPE_CHECKING:
    from .document_store import Vectors


@runtime_checkable
class Store(Protocol):
    """A document store: `retinue.DocumentStore`, which documents the methods, or another one with the same methods."""

    def write(
        self,
        documents: Iterable[Document],
        vectors: Vectors | None = None,
        *,
        expires: float | None = None,
    ) -> int:
        """Write documents, all or none; return how many were new or changed."""
        ...

    def filter(self, where: Where | None = None) -> list[Document]:
        """Return all documents that match `where`, in the order written."""
        ...

    def get(self, ids: Iterable[str]) -> list[Document]:
        """Return those of these documents that exist, in the order of `ids`."""
        ...

    def delete(self, where: Where | None = None, *, ids: Iterable[str] | None = None) -> int:
        """Delete documents that match `where` and have one of `ids`; return how many there were."""
        ...

    def keyword(self, query: str, top_k: int = 10, where: Where | None = None) -> list[Document]:
        """Return the best documents for the words of `query`, best first."""
        ...

    def nearest(self, vector: Sequence[float], top_k: int = 10, where: Where | None = None) -> list[Document]:
        """Return the documents whose vectors are nearest to `vector`, best first."""
        ...

    def __len__(self) -> int: ...

    def close(self) -> None:
        """Release its resources."""
        ...


def checked_store(store: Any, name: str) -> Store:
    """Return `store` if it is a store. Otherwise raises `UsageError` that begins with `name`."""
    if isinstance(store, type) or not isinstance(store, Store):
        raise UsageError(f"{name}: store must be a DocumentStore, not {store!r:.80}")
    return store
