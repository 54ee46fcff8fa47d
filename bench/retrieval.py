"""How many of the passages that answer a HotpotQA question are among the five that a search gives."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean

from bench.report import levels
from bench.search_methods import ways
from retinue import Document

ROOT = Path(__file__).parents[1]
DATA = ROOT / "data" / "hotpotqa"
TOP_K = 5


def measure() -> str:
    """Recall of the supporting titles among the first 2, 3 and 5, and how many documents come."""
    asked = {line["id"]: line["question"].strip() for line in _lines("questions.jsonl")}
    wanted = {line["id"]: set(line["titles"]) for line in _lines("supporting.jsonl")}
    rows, recalls = [], []
    for name, search in ways(DATA / "passages.jsonl", TOP_K):
        found = {one: search(question) for one, question in asked.items()}
        shares = [recall(found, wanted, top_k) for top_k in (2, 3, TOP_K)]
        kept = mean(len(documents) for documents in found.values())
        rows.append(f"| {name} | {' | '.join(f'{share:.3f}' for share in shares)} | {kept:.2f} |")
        recalls.append((name, shares[-1]))
    (ROOT / "bench" / "retrieval.svg").write_text(levels(recalls, "recall@5 of the supporting passages"), "utf-8")
    head = "| search | recall@2 | recall@3 | recall@5 | documents kept |\n|---|---|---|---|---|"
    count = sum(map(len, wanted.values()))
    said = f"{len(asked)} questions, 500 passages, {count} of them wanted (`data/hotpotqa/supporting.jsonl`)."
    return "\n".join([f"{said}\n", head, *rows, "\n![recall@5](retrieval.svg)\n"])


def recall(found: Mapping[str, Sequence[Document]], wanted: Mapping[str, set[str]], top_k: int) -> float:
    """The share of a question's wanted titles that are among its first `top_k` documents, on average."""
    titles = {one: {document.meta["title"] for document in documents[:top_k]} for one, documents in found.items()}
    return mean(len(wanted[one] & titles[one]) / len(wanted[one]) for one in wanted)


def _lines(name: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]
