"""The components of a document store: `FileConverter`, `DocumentSplitter`, `DocumentWriter` and `Retriever`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

from .._internal.message_text import suggest_name
from ..core.component import Component, ComponentReference
from ..core.values import Document
from ..documents.document_store import Store, check_store
from ..documents.embedding import Embedder
from ..documents.folder_index import read_document
from ..documents.retrieval import MODES, Mode, format_results, read_vectors, retrieve
from ..documents.splitter import split_document
from ..errors import DataError, UsageError
from .retrieval_models import resolve_embedder
from .services import FoundDocuments, Searched, check_positive


class ConvertedFiles(TypedDict):
    """`documents`, one for each readable file, and `problems`, one line for each other file."""

    documents: list[Document]
    problems: list[str]


class FileConverter(Component):
    """Converts files (HTML, PDF, Markdown, plain text) to documents with `path` and `title` in `meta`.

    With a `folder`, only files in it are read, and paths are relative to it. Use this if a model, or anyone else who
    may not see all files, chooses the paths.
    """

    effects = "read"

    def __init__(self, folder: str | Path | None = None, *, name: str = "FileConverter") -> None:
        self.name = name
        self.folder = None if folder is None else Path(folder).expanduser()

    def run(self, file_paths: Sequence[str | Path] | str) -> ConvertedFiles:
        """Read a file of the folder.

        A path alone, as a model gives it, is read only if there is a `folder`. Raises `UsageError`.
        """
        if isinstance(file_paths, str) and self.folder is None:
            raise UsageError(f"{self.name}: want a list of paths; a single path from a model requires a folder")
        documents, problems = [], []
        for path in [file_paths] if isinstance(file_paths, str) else file_paths:
            try:
                documents.append(read_document(path, self.folder))
            except DataError as error:
                problems.append(str(error))
        return {"documents": documents, "problems": problems}


class DocumentSplitter(Component):
    """Splits documents into pieces of at most `size` characters, between paragraphs or else between sentences.

    Each piece has its document's `meta` and its index from 0 in `part`. Raises `UsageError` for a size below 1.
    """

    effects = "read"

    def __init__(self, size: int = 1_000, *, name: str = "DocumentSplitter") -> None:
        check_positive(name, size=size)
        self.name = name
        self.size = size

    def run(self, documents: Sequence[Document]) -> FoundDocuments:
        """Cut documents into pieces."""
        return {"documents": split_document(documents, self.size)}

    def tool_function(self, text: str) -> FoundDocuments:
        """Cut a long text into pieces."""
        return self.run([Document(text)])


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
        self.store = check_store(store, name)
        self.embedder = None if embedder is None else resolve_embedder(embedder, name)

    def run(self, documents: Sequence[Document]) -> Written:
        """Keep these documents."""
        vectors = None if self.embedder is None else read_vectors(documents, self.embedder)
        return {"written": self.store.write(documents, vectors)}

    def tool_function(self, texts: list[str]) -> int:
        """Keep texts, to be searched later; says how many are new."""
        return self.run([Document(text) for text in texts])["written"]


class Retriever(Component):
    """Finds the `top_k` documents of `store` that match a query best. Raises `UsageError` for invalid settings.

    Args:
        mode: `keyword` (BM25), `vector` (cosine) or `hybrid`, which fuses both by rank.
        embedder: Required for `vector` and `hybrid`, and the same that made the documents' vectors: an `Embedder`,
            `minilm`, `openai:MODEL`, or the folder of a model as ONNX.
        where: Conditions that every document must meet, in addition to any others (see `DocumentStore`).
        sources: The model is also shown where each document is from, as a link: its `url`, or its `path` after this
            text (an address, or a folder with a slash; may be empty).
    """

    effects = "read"

    def __init__(  # noqa: PLR0913 -- the parts of Haystack's retrievers, and how results are shown
        self,
        store: Annotated[Store, ComponentReference("DocumentStore")],
        mode: Mode = "keyword",
        top_k: int = 10,
        embedder: Embedder | str | None = None,
        where: Mapping[str, Any] | None = None,
        *,
        sources: str | None = None,
        name: str = "Retriever",
    ) -> None:
        if mode not in MODES:
            raise UsageError(f"{name}: no mode {mode!r}; {suggest_name(mode, MODES)}")
        if mode != "keyword" and embedder is None:
            raise UsageError(f"{name}: the mode {mode!r} needs an embedder")
        check_positive(name, top_k=top_k)
        self.name = name
        self.sources = sources
        self.store, self.mode, self.top_k, self.where = check_store(store, name), mode, top_k, where
        self.embedder = None if embedder is None else resolve_embedder(embedder, name)

    def run(self, query: str, top_k: int | None = None, where: Mapping[str, Any] | None = None) -> Searched:
        """Search the documents. Use a few telling words.

        `top_k` instead of its own; `where` beside its own, which always holds. Raises `UsageError`.
        """
        where = {**(where or {}), **(self.where or {})}
        top_k = self.top_k if top_k is None else top_k
        found = retrieve(self.store, query, mode=self.mode, top_k=top_k, embedder=self.embedder, where=where)
        return {"documents": found, "results": format_results(found, query, self.sources)}
