"""`DocumentSplitter`: splits long documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from ..core.component import Component
from ..core.values import Document
from ..documents.splitter import split_document
from ..errors import UsageError


class Pieces(TypedDict):
    """`documents`: the pieces, in order."""

    documents: list[Document]


class DocumentSplitter(Component):
    """Splits documents into pieces of at most `size` characters, between paragraphs or else between sentences.

    Each piece has its document's `meta` and its index from 0 in `part`. Raises `UsageError` for a size below 1.
    """

    effects = "read"

    def __init__(self, size: int = 1_000, *, name: str = "DocumentSplitter") -> None:
        if size < 1:
            raise UsageError(f"{name}: size must be at least 1, not {size}")
        self.name = name
        self.size = size

    def run(self, documents: Sequence[Document]) -> Pieces:
        """Cut documents into pieces."""
        return {"documents": split_document(documents, self.size)}

    def tool_function(self, text: str) -> Pieces:
        """Cut a long text into pieces."""
        return self.run([Document(text)])
