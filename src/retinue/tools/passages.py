"""`passages`: keyword search over a JSONL file or a folder of text and Markdown (BM25, SQLite FTS5)."""

from __future__ import annotations

import json
import re
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol

from ..core.tools.tool import ExampleCall, Tool, ToolExample
from ..core.values import Document
from ..errors import DataError
from .keyword_search import TITLE_WEIGHT, TOKENIZE, make_storable, match_expression, stem_words

Rank = Callable[[str, list[Document]], list[Document]]  # reranks search results for a query
RANKED = 20  # passages that are reranked
MAX_PASSAGE = 1_000  # characters of a passage cut from a text file
_EXAMPLES = (
    ToolExample(
        "Which instrument did the inventor of the Pinto stove play?",
        (
            ExampleCall(
                "I need to find out who invented the Pinto stove.",
                "Pinto stove inventor",
                "[Pinto stove] The Pinto stove burns twigs. Ilka Moreno invented it in a mountain hut.",
            ),
            ExampleCall(
                "The inventor is Ilka Moreno. I need to find which instrument she played.",
                "Ilka Moreno instrument",
                "[Ilka Moreno] Ilka Moreno was an engineer and, on Sundays, an accordionist in a village band.",
            ),
        ),
        "the accordion",
        "Ilka Moreno was an accordionist, so she played the accordion.",
    ),
    ToolExample(
        "How many bells hang in the Brandt carillon?",
        (
            ExampleCall(
                "I need to find out how many bells the Brandt carillon has.",
                "Brandt carillon bells",
                "[Brandt carillon] The Brandt carillon is played by hand. It consists of 62 bells.",
            ),
        ),
        "62",
        "The Brandt carillon consists of 62 bells.",
    ),
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"'(]?[A-Z0-9])")


class Passages:
    """An in-memory collection of passages with keyword search.

    >>> found = Passages([Document("Paris is the capital of France.", meta={"title": "Paris"})])
    >>> [document.content for document in found.search("capital of France")]
    ['Paris is the capital of France.']
    """

    def __init__(self, documents: Iterable[Document]) -> None:
        self._lock = threading.Lock()
        self._database = sqlite3.connect(":memory:", check_same_thread=False)
        self._database.execute(f"CREATE VIRTUAL TABLE passages USING fts5(title, text, tokenize = '{TOKENIZE}')")
        rows = (
            (make_storable(str(document.meta.get("title", ""))), make_storable(document.content))
            for document in documents
        )
        self._database.executemany("INSERT INTO passages VALUES (?, ?)", rows)

    @classmethod
    def load(cls, path: str | Path) -> Passages:
        """Load the passages in `path`: a file with one JSON object per line (`text` or `content`, and `title`), or a
        folder of `.txt` and `.md` files. Raises `DataError` with the place of the error.
        """
        path = Path(path).expanduser()
        if path.is_dir():
            found = cls(_from_folder(path))
        elif path.is_file():
            found = cls(_from_jsonl(path))
        else:
            raise DataError(f"{path} does not exist (want a JSONL file, or a folder of .txt and .md files)")
        if len(found) == 0:
            raise DataError(f"{path} contains no passages (want a JSONL file, or a folder of .txt and .md files)")
        return found

    def __len__(self) -> int:
        with self._lock:
            return int(self._database.execute("SELECT count(*) FROM passages").fetchone()[0])

    def list_documents(self) -> list[Document]:
        """Return all passages, in the order in which they were added."""
        with self._lock:
            rows = self._database.execute("SELECT rowid, title, text FROM passages ORDER BY rowid").fetchall()
        return [Document(text, str(row), {"title": title}) for row, title, text in rows]

    def search(self, query: str, top_k: int = 3) -> list[Document]:
        """Return the `top_k` best passages for `query`, best first; `score` is BM25, higher is better."""
        wanted = match_expression(query)
        if not wanted:
            return []
        with self._lock:
            rows = self._database.execute(
                f"SELECT rowid, title, text, -bm25(passages, {TITLE_WEIGHT}, 1.0) AS score FROM passages "
                "WHERE passages MATCH ? ORDER BY score DESC, rowid LIMIT ?",
                (wanted, top_k),
            ).fetchall()
        return [Document(text, str(row), {"title": title}, score) for row, title, text, score in rows]


class Searchable(Protocol):
    """What can be searched: `Passages`, or another collection."""

    def search(self, query: str, top_k: int = 3) -> list[Document]:
        """Return the `top_k` best passages for `query`, best first."""


def passages(
    path: str | Path | Searchable,
    *,
    name: str = "Search",
    top_k: int = 3,
    max_chars: int = 500,
    rank: Rank | None = None,
) -> Tool:
    """Return a search tool over the passages in `path`, or a collection. Raises `DataError` as `Passages.load` does.

    It returns the `top_k` best passages, each shortened to the relevant parts in about `max_chars` characters. `rank`
    reranks the best 20 first.
    """
    loaded = Passages.load(path) if isinstance(path, str | Path) else path

    def search(query: str) -> str:
        found = loaded.search(query, top_k if rank is None else max(top_k, RANKED))
        found = found if rank is None else rank(query, found)[:top_k]
        lines = [_format_line(document, query, max_chars) for document in found]
        return "\n".join(lines) or "Nothing was found. Try other words."

    return Tool(
        name,
        search,
        "useful for when you need to find facts about people, places, works and events. Ask about one thing at a time",
        effects="read",
        examples=_EXAMPLES,
    )


def _format_line(document: Document, query: str, max_chars: int) -> str:
    title = document.meta.get("title")
    return (f"[{title}] " if title else "") + shorten_to_excerpt(document.content, query, max_chars)


def shorten_to_excerpt(text: str, query: str, max_chars: int) -> str:
    """Shorten `text` to `max_chars`: the first sentence and those most relevant to `query`, in their original order."""
    text = " ".join(text.split())
    if len(text) <= max_chars:
        return text
    sentences = _SENTENCE_END.split(text)
    wanted = stem_words(query)
    ranked = sorted(range(1, len(sentences)), key=lambda at: (-len(wanted & stem_words(sentences[at])), at))
    kept, length = {0}, len(sentences[0])
    for at in ranked:
        if length + 1 + len(sentences[at]) <= max_chars:
            kept.add(at)
            length += 1 + len(sentences[at])
    return " ".join(sentences[at] for at in sorted(kept))[:max_chars]


def _from_jsonl(path: Path) -> Iterator[Document]:
    with path.open(encoding="utf-8-sig") as lines:
        try:
            for number, line in (one for one in enumerate(lines, 1) if one[1].strip()):
                yield _read_document(line, f"{path}:{number}")
        except UnicodeDecodeError as error:
            raise DataError(f"{path}: not a text file in UTF-8") from error


def _read_document(line: str, place: str) -> Document:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: not JSON: {line.strip()[:60]!r} (want one JSON object a line)") from error
    if not isinstance(values, dict):
        raise DataError(f"{place}: want a JSON object, not {line.strip()[:60]!r}")
    text = values.get("text", values.get("content"))
    if not isinstance(text, str):
        raise DataError(f"{place}: the object has no text under 'text' or 'content'; its keys: {', '.join(values)}")
    return Document(text, meta={"title": str(values.get("title") or "")})


def _from_folder(folder: Path) -> Iterator[Document]:
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() in (".txt", ".md") and path.is_file():
            text = _read_text(path)
            title = str(path.relative_to(folder))
            for passage in cut(text):
                yield Document(passage, meta={"title": title})


def _read_text(path: Path) -> str:
    """Return the text of a file in UTF-8, or else in Windows-1252, which has all of Latin-1's letters."""
    data = path.read_bytes()
    if b"\0" in data:
        raise DataError(f"{path}: not a text file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def cut(text: str, max_chars: int = MAX_PASSAGE) -> Iterator[str]:
    """Split `text` into passages: whole paragraphs, merged up to `max_chars`; longer ones are split at words."""
    gathered = ""
    for paragraph in re.split(r"\n\s*\n", text):
        paragraph = paragraph.strip()
        while len(paragraph) > max_chars:
            at = paragraph.rfind(" ", 1, max_chars)
            at = max_chars if at < 0 else at
            if gathered:
                yield gathered
                gathered = ""
            yield paragraph[:at].strip()
            paragraph = paragraph[at:].strip()
        if gathered and len(gathered) + len(paragraph) + 1 > max_chars:
            yield gathered
            gathered = ""
        gathered = f"{gathered}\n{paragraph}" if gathered and paragraph else gathered or paragraph
    if gathered:
        yield gathered
