"""What a `DocumentStore` costs at 10,000 passages, next to the same by hand with sqlite3 and numpy."""

from __future__ import annotations

import json
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy

from retinue import Document, DocumentStore
from retinue.tools.passages import match_expression

COUNT, DIMENSIONS, TOP = 10_000, 384, 10
ROUNDS = 4
DATA = Path(__file__).parent.parent / "data" / "hotpotqa"
_SEARCH = "SELECT title, content FROM words WHERE words MATCH ? ORDER BY bm25(words, 2.0, 1.0) LIMIT ?"


def measure() -> str:
    """A table: indexing, keyword queries, vectors; by hand and by Retinue."""
    documents, queries = _passages(), [line["question"] for line in _lines("questions.jsonl")]
    vectors = numpy.random.default_rng(0).standard_normal((COUNT, DIMENSIONS)).astype(numpy.float32)
    wanted = [row.tolist() for row in vectors[:: COUNT // 50]]
    with tempfile.TemporaryDirectory() as folder:
        hand, by_hand = _by_hand(Path(folder, "hand"), documents)
        store = DocumentStore(Path(folder, "store"))
        ours = _cpu(lambda: store.write(documents))
        again = _cpu(lambda: store.write(documents))
        floor = _times(lambda query: hand.execute(_SEARCH, (match_expression(query), TOP)).fetchall(), queries)
        keyword = _times(lambda query: store.keyword(query, TOP), queries)
        names = _times(lambda title: store.keyword(title, TOP), [str(one.meta["title"]) for one in documents[:100]])
        some = _times(lambda query: store.keyword(query, TOP, {"copy": {"lt": 5}}), queries)
        written = _cpu(lambda: store.write(documents, vectors))
        unit = vectors / numpy.linalg.norm(vectors, axis=1, keepdims=True)
        brute = _times(lambda vector: numpy.argsort(-(unit @ numpy.array(vector, numpy.float32)))[:TOP], wanted)
        nearest = _times(lambda vector: store.nearest(vector, TOP), wanted)
        store.close()
        hand.close()
    return (
        f"{COUNT:,} passages: those of HotpotQA, with their sentences in {COUNT // 500} orders and a word more. CPU "
        "of the process; queries in milliseconds, median and 95th percentile. By hand: sqlite3 with an FTS5 table in a "
        f"file; numpy's product with all vectors in memory. Vectors of {DIMENSIONS} dimensions.\n\n"
        "| | by hand | `DocumentStore` |\n|---|---|---|\n"
        f"| indexing all for keywords, s | {by_hand:.2f} | {ours:.2f} |\n"
        f"| writing them all again, unchanged, s | | {again:.2f} |\n"
        f"| a question of HotpotQA ({_words(queries):.0f} words), ms | {_shown(floor)} | {_shown(keyword)} |\n"
        f"| the same, with a condition, ms | | {_shown(some)} |\n"
        f"| a title, ms | | {_shown(names)} |\n"
        f"| adding their vectors, s | | {written:.2f} |\n"
        f"| the nearest vectors, ms | {_shown(brute)} | {_shown(nearest)} |\n"
    )


def _passages() -> list[Document]:
    """Distinct ones, with words as frequent as in the 500 that they are made of."""
    found = list(_lines("passages.jsonl"))
    return [
        Document(_turned(one["text"], copy), meta={"title": one["title"], "copy": copy})
        for copy in range(COUNT // len(found))
        for one in found
    ]


def _turned(text: str, copy: int) -> str:
    sentences = text.split(". ")
    at = copy % len(sentences)
    return ". ".join([*sentences[at:], *sentences[:at]]) + f" Copy{copy}."


def _lines(name: str) -> Iterable[dict[str, Any]]:
    with Path(DATA, name).open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _by_hand(path: Path, documents: Sequence[Document]) -> tuple[sqlite3.Connection, float]:
    database = sqlite3.connect(path)

    def index() -> None:
        database.execute("CREATE VIRTUAL TABLE words USING fts5(title, content, tokenize = 'porter unicode61')")
        rows = ((document.meta["title"], document.content) for document in documents)
        database.executemany("INSERT INTO words VALUES (?, ?)", rows)
        database.commit()

    return database, _cpu(index)


def _cpu(work: Callable[[], Any]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _times(work: Callable[[Any], Any], items: Sequence[Any]) -> list[float]:
    """The CPU of `work` for each item, the least of several rounds each: other programs share the machine."""
    work(items[0])
    return sorted(min(_cpu(lambda: work(item)) for _ in range(ROUNDS)) * 1e3 for item in islice(items, 100))  # noqa: B023


def _shown(times: Sequence[float]) -> str:
    return f"{times[len(times) // 2]:.2f}, {times[len(times) * 95 // 100]:.2f}"


def _words(texts: Sequence[str]) -> float:
    return sum(len(text.split()) for text in texts) / len(texts)
