"""`DocumentWriter`: the end of an indexing pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from ..documents.retrieval import Embedder
from ..documents.store import DocumentStore
from ..errors import UsageError
from ..schema import Document


class Written(TypedDict):
    """`written`: how many documents were new or changed."""

    written: int


class DocumentWriter:
    """Keeps documents in `store`; with an `embedder`, with their vectors. Raises `UsageError` without a store."""

    def __init__(self, store: DocumentStore, embedder: Embedder | None = None, *, name: str = "DocumentWriter") -> None:
        if not isinstance(store, DocumentStore):
            raise UsageError(f"{name}: store must be a DocumentStore, not {store!r:.80}")
        self.name = name
        self.store, self.embedder = store, embedder

    def run(self, documents: Sequence[Document]) -> Written:
        """Keep these documents."""
        vectors = self.embedder.embed([document.content for document in documents]) if self.embedder else None
        return {"written": self.store.write(documents, vectors)}
