"""`DocumentWriter`: the last step of an indexing pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypedDict

from ..core.component import Component, ComponentReference
from ..core.values import Document
from ..documents.document_store import Store, checked_store
from ..documents.embedding import Embedder
from ..documents.retrieval import vectors_of
from .embedding_models import embedder as named


class Written(TypedDict):
    """`written`: the number of new or changed documents."""

    written: int


class DocumentWriter(Component):
    """Writes documents to `store`, with their vectors if there is an `embedder` (see `Retriever`).

    Raises `UsageError` without a store.
    """

    def __init__(
        self,
        store: Annotated[Store, ComponentReference("DocumentStore")],
        embedder: Embedder | str | None = None,
        *,
        name: str = "DocumentWriter",
    ) -> None:
        self.name = name
        self.store = checked_store(store, name)
        self.embedder = None if embedder is None else named(embedder, name)

    def run(self, documents: Sequence[Document]) -> Written:
        """Keep these documents."""
        vectors = None if self.embedder is None else vectors_of(documents, self.embedder)
        return {"written": self.store.write(documents, vectors)}

    def tool_function(self, texts: list[str]) -> int:
        """Keep texts, to be searched later; says how many are new."""
        return self.run([Document(text) for text in texts])["written"]
