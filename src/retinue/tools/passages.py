"""Keyword search by SQLite's FTS5 (BM25): its queries, and `passages`, over a JSONL file or a folder of text."""

from __future__ import annotations

import json
import re
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

from ..core.tools.tool import ExampleCall, Tool, ToolExample
from ..core.values import Document
from ..errors import DataError

TOKENIZE = "porter unicode61"
TITLE_WEIGHT = 2.0  # weight of a word in the title; one in the text has 1
MAX_WORDS = 200  # words of a query that are searched; more would cost time without improving the result
_WORD = re.compile(r"\w+")
_STOP_WORDS = frozenset(
    "a an the of in on at to for and or is are was were be been by with from as that this which who whom whose what "
    "when where how did do does has have had it its his her their he she they i you we not also than then s".split()
)


def match_expression(query: str) -> str:
    """Return the FTS5 expression that matches any significant word of `query`; empty if there is none.

    Each word is quoted and consists of letters and digits, so nothing in `query` is interpreted as FTS5 syntax.
    """
    words = list(dict.fromkeys(word.lower() for word in _WORD.findall(query)))
    words = [word for word in words if word not in _STOP_WORDS] or words
    if len(words) > MAX_WORDS:  # in a long text, the question is at the beginning or at the end
        words = words[: MAX_WORDS // 2] + words[-MAX_WORDS // 2 :]
    return " OR ".join(f'"{word}"' for word in words)


def stem_words(text: str) -> set[str]:
    """Return the first six letters of each significant word."""
    return {word[:6] for word in _WORD.findall(text.lower()) if word not in _STOP_WORDS}


def make_storable(text: str) -> str:
    """Make `text` valid for SQLite: JSON may contain lone surrogates."""
    return text.encode("utf-8", "replace").decode("utf-8")


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
        folder of `.txt` and `.md` files. Raises `DataError` with the place of the error."""
        path = Path(path).expanduser()
        problem = "contains no passages" if path.is_dir() or path.is_file() else "does not exist"
        found = cls(_read_folder(path) if path.is_dir() else _read_jsonl(path) if path.is_file() else ())
        if len(found) == 0:
            raise DataError(f"{path} {problem} (want a JSONL file, or a folder of .txt and .md files)")
        return found

    def __len__(self) -> int:
        return int(self._read_rows("SELECT count(*) FROM passages")[0][0])

    def list_documents(self) -> list[Document]:
        """Return all passages, in the order in which they were added."""
        rows = self._read_rows("SELECT rowid, title, text, NULL FROM passages ORDER BY rowid")
        return [Document(text, str(row), {"title": title}, score) for row, title, text, score in rows]

    def search(self, query: str, top_k: int = 3) -> list[Document]:
        """Return the `top_k` best passages for `query`, best first; `score` is BM25, higher is better."""
        wanted = match_expression(query)
        sql = (
            f"SELECT rowid, title, text, -bm25(passages, {TITLE_WEIGHT}, 1.0) AS score FROM passages "
            "WHERE passages MATCH ? ORDER BY score DESC, rowid LIMIT ?"
        )
        rows = self._read_rows(sql, wanted, top_k) if wanted else []
        return [Document(text, str(row), {"title": title}, score) for row, title, text, score in rows]

    def _read_rows(self, sql: str, *bound: Any) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._database.execute(sql, bound).fetchall()


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
        lines = []
        for document in found:
            title = document.meta.get("title")
            text = shorten_to_excerpt(document.content, query, max_chars)
            lines.append(f"[{title}] {text}" if title else text)
        return "\n".join(lines) or "Nothing was found. Try other words."

    about = "useful for when you need to find facts about people, places, works and events."
    about += " Ask about one thing at a time"
    return Tool(name, search, about, effects="read", examples=_EXAMPLES)


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


def _read_jsonl(path: Path) -> Iterator[Document]:
    with path.open(encoding="utf-8-sig") as lines:
        try:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _read_object(line, f"{path}:{number}")
        except UnicodeDecodeError as error:
            raise DataError(f"{path}: not a text file in UTF-8") from error


def _read_object(line: str, place: str) -> Document:
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


def _read_folder(folder: Path) -> Iterator[Document]:
    """Yield the passages of text files in UTF-8, or else in Windows-1252, which has all of Latin-1's letters."""
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() in (".txt", ".md") and path.is_file():
            data = path.read_bytes()
            if b"\0" in data:
                raise DataError(f"{path}: not a text file")
            try:
                text = data.decode("utf-8-sig")
            except UnicodeDecodeError:
                text = data.decode("cp1252", "replace")
            for passage in cut(text):
                yield Document(passage, meta={"title": str(path.relative_to(folder))})


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
