"""What a document store is, whoever wrote it: the methods that retrievers and writers call."""

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
    """A document store: `retinue.DocumentStore`, which says what each of these does, or one with the same methods."""

    def write(
        self,
        documents: Iterable[Document],
        vectors: Vectors | None = None,
        *,
        expires: float | None = None,
    ) -> int:
        """Keep documents, all or none; how many were new or changed."""
        ...

    def filter(self, where: Where | None = None) -> list[Document]:
        """All documents that `where` holds for, in the order written."""
        ...

    def get(self, ids: Iterable[str]) -> list[Document]:
        """Those of these documents that are there, in the order of `ids`."""
        ...

    def delete(self, where: Where | None = None, *, ids: Iterable[str] | None = None) -> int:
        """Delete what `where` holds for and has one of `ids`; how many there were."""
        ...

    def keyword(self, query: str, top_k: int = 10, where: Where | None = None) -> list[Document]:
        """The documents that fit the words of `query` best, best first."""
        ...

    def nearest(self, vector: Sequence[float], top_k: int = 10, where: Where | None = None) -> list[Document]:
        """The documents whose vectors point most nearly where `vector` does, best first."""
        ...

    def __len__(self) -> int: ...

    def close(self) -> None:
        """Let go of whatever it holds."""
        ...


def checked_store(store: Any, name: str) -> Store:
    """`store`, if it is one. Raises `UsageError`, which begins with `name`, for anything else."""
    if isinstance(store, type) or not isinstance(store, Store):
        raise UsageError(f"{name}: store must be a DocumentStore, not {store!r:.80}")
    return store
