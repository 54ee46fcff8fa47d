"""Components for documents: `FileConverter`, `DocumentSplitter`, `DocumentWriter` and `Retriever` store and find them,
`Ranker` and `TopPSampler` keep the best, and `Reader` extracts answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from math import exp, fsum, inf, isfinite
from pathlib import Path
from typing import Annotated, Any, TypedDict

from .._internal.concurrency import run_in_thread
from .._internal.message_text import suggest_name
from .._internal.sync_bridge import run_blocking
from ..core.component import Component, ComponentReference
from ..core.values import Document
from ..documents.cross_encoders import CrossEncoder
from ..documents.document_store import Store, check_store
from ..documents.embedding import Embedder, add_title
from ..documents.folder_index import read_document
from ..documents.retrieval import MODES, Mode, format_results, read_vectors, retrieve
from ..documents.splitter import split_document
from ..errors import DataError, UsageError
from .prompt_node import PromptNode, PromptTemplate
from .retrieval_models import resolve_cross_encoder, resolve_embedder
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
    """Writes documents to `store`, with their vectors if there is an `embedder` (see `Retriever`). Raises `UsageError`
    without a store."""

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


Scorer = CrossEncoder | str
_ROUNDING = 1e-9


async def _with_scores(scorer: CrossEncoder, query: str, documents: Sequence[Document]) -> list[Document]:
    """Return `documents` with the scores of `scorer` for `query`, in unchanged order. Raises `DataError` unless there
    is a finite number for each."""
    if not documents:
        return []
    texts = [add_title(document) for document in documents]
    scores = [float(score) for score in await run_in_thread(scorer.score, query, texts)]
    if len(scores) != len(texts) or not all(map(isfinite, scores)):
        raise DataError(f"a cross-encoder must give a finite number for each of {len(texts)} texts, not {scores!r:.80}")
    return [replace(document, score=score) for document, score in zip(documents, scores, strict=True)]


def _sort_best_first(documents: Sequence[Document]) -> list[Document]:
    return sorted(documents, key=lambda document: inf if document.score is None else -document.score)


class Ranker(Component):
    """Orders documents by relevance and keeps the best `top_k`.

    `cross_encoder`: a `CrossEncoder`, or `minilm` (`EmbeddingScorer` with the embedded MiniLM), `cohere:MODEL`,
    `jina:MODEL`, `tei:ADDRESS`, or the folder of a cross-encoder as ONNX. Its scores are in the output `documents`.
    Raises `UsageError` if the model is not installed.
    """

    effects = "read"

    def __init__(self, cross_encoder: Scorer = "minilm", top_k: int = 10, *, name: str = "Ranker") -> None:
        check_positive(name, top_k=top_k)
        self.name = name
        self.top_k = top_k
        self._scorer = resolve_cross_encoder(cross_encoder, name)

    async def run_async(self, query: str, documents: Sequence[Document]) -> FoundDocuments:
        """Put documents in the order in which they answer the query."""
        return {"documents": _sort_best_first(await _with_scores(self._scorer, query, documents))[: self.top_k]}

    def run(self, query: str, documents: Sequence[Document]) -> FoundDocuments:
        """Run `run_async` and block."""
        return run_blocking(self.run_async(query, documents))

    async def tool_function(self, query: str, texts: list[str]) -> FoundDocuments:
        """Put texts in the order in which they answer the query."""
        return await self.run_async(query, [Document(text) for text in texts])


class TopPSampler(Component):
    """Keeps the smallest set of documents whose cumulative relevance exceeds `top_p`.

    A document's relevance is its share in the softmax of all scores: those of `cross_encoder` (see `Ranker`), or
    without one the documents' own. The output `documents` are best first, with that share as `probability` in `meta`.
    At least one document is kept, and all are with a `top_p` of 1. Raises `UsageError` unless `top_p` is above 0 and at
    most 1, and if the model is not installed.
    """

    effects = "read"

    def __init__(self, top_p: float = 0.95, cross_encoder: Scorer | None = None, *, name: str = "TopPSampler") -> None:
        if not 0 < top_p <= 1:
            raise UsageError(f"{name}: top_p must be above 0 and at most 1, not {top_p}")
        self.name = name
        self.top_p = top_p
        self._scorer = None if cross_encoder is None else resolve_cross_encoder(cross_encoder, name)

    async def run_async(self, query: str, documents: Sequence[Document]) -> FoundDocuments:
        """Keep only the documents that are likely to answer the query.

        Raises `UsageError` if documents without a score come in and there is no model to give one.
        """
        if self._scorer is not None:
            documents = await _with_scores(self._scorer, query, documents)
        for document in documents:
            if document.score is None or not isfinite(document.score):
                raise UsageError(
                    f"{self.name}: a document has no score ({document.content[:40]!r}); "
                    "put a Ranker before it or give it a cross_encoder"
                )
        ranked = _sort_best_first(documents)
        scores = [document.score or 0.0 for document in ranked]
        powers = [exp(score - scores[0]) for score in scores]
        whole = fsum(powers)
        shares = [power / whole for power in powers]
        kept = [
            replace(document, meta={**document.meta, "probability": share})
            for document, share, sum_before in zip(ranked, shares, accumulate(shares, initial=0.0), strict=False)
            if sum_before <= self.top_p + _ROUNDING
        ]
        return {"documents": kept}

    def run(self, query: str, documents: Sequence[Document]) -> FoundDocuments:
        """Run `run_async` and block."""
        return run_blocking(self.run_async(query, documents))

    async def tool_function(self, query: str, texts: list[str]) -> FoundDocuments:
        """Keep only the texts that are likely to answer the query."""
        return await self.run_async(query, [Document(text) for text in texts])


NOTHING = "The documents do not say."
_PROMPT = PromptTemplate(
    "extractive-answer",
    "$documents\n\n"
    "Which words of the documents above answer the question? Copy them exactly, as few as tell the answer, on a line "
    'of their own. Add nothing. If no document answers it, write "none".\n'
    "Question: $query\n"
    "Answer: ",
)
_NONE = ("none", NOTHING.casefold())
_MAX_QUOTE = 1_000  # characters
_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")
_AROUND = " \t\"'`“”‘’«».,;:…"


class ExtractedAnswer(TypedDict):
    """`answer` is the text of the document `document_id` from `start` to `end` in its `content`."""

    answer: str
    document_id: str
    start: int
    end: int


class ExtractedAnswers(TypedDict):
    """`answers`, in the model's order, and `results`: the same as a text for a model."""

    answers: list[ExtractedAnswer]
    results: str


class Reader(Component):
    """Asks a model which words of the documents answer a query, and returns those that occur in a document.

    Case and whitespace are ignored in the comparison; anything else is omitted. `prompt_node`: a `PromptNode`, or the
    name of its model; a custom template uses `$query` and `$documents`. The first `top_k` documents are read.
    """

    effects = "read"

    def __init__(self, prompt_node: PromptNode | str = "local", top_k: int = 5, *, name: str = "Reader") -> None:
        check_positive(name, top_k=top_k)
        self.name = name
        self.prompt_node = PromptNode(prompt_node) if isinstance(prompt_node, str) else prompt_node
        self.top_k = top_k

    async def run_async(self, query: str, documents: Sequence[Document]) -> ExtractedAnswers:
        """Find the words of the documents that answer the query. Raises `ModelError`."""
        read = [document for document in documents[: self.top_k] if document.content.strip()]
        if not read:
            return {"answers": [], "results": NOTHING}
        template = self.prompt_node.default_prompt_template or _PROMPT
        replies = await self.prompt_node.prompt_async(template, query=query, documents=read)
        answers: list[ExtractedAnswer] = []
        for line in (line for reply in replies for line in reply.splitlines()):
            quote = _BULLET.sub("", line).strip()
            answer = _find_quote(quote, read) or _find_quote(quote.strip(_AROUND), read)
            if answer is not None and answer not in answers:
                answers.append(answer)
        return {"answers": answers, "results": "\n".join(one["answer"] for one in answers) or NOTHING}

    def run(self, query: str, documents: Sequence[Document]) -> ExtractedAnswers:
        """Run `run_async` and block."""
        return run_blocking(self.run_async(query, documents))

    async def tool_function(self, query: str, texts: list[str]) -> ExtractedAnswers:
        """Find the words in texts that answer the query."""
        return await self.run_async(query, [Document(text) for text in texts])


def _find_quote(quote: str, documents: Sequence[Document]) -> ExtractedAnswer | None:
    """Find the first occurrence of `quote`, as whole words."""
    words = quote.split()
    if not words or len(quote) > _MAX_QUOTE or quote.casefold() in _NONE or not re.search(r"\w", quote):
        return None
    pattern = re.compile(r"(?<!\w)" * words[0][0].isalnum() + r"\s+".join(map(re.escape, words)), re.IGNORECASE)
    for document in documents:
        for found in pattern.finditer(document.content):
            if not (quote[-1].isalnum() and document.content[found.end() : found.end() + 1].isalnum()):
                return ExtractedAnswer(answer=found[0], document_id=document.id, start=found.start(), end=found.end())
    return None
