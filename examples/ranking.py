"""The passages that answer a question, found in three steps: `python examples/ranking.py [QUESTION]`.

By words and by meaning at once (`Retriever`), put in order (`Ranker`), and only as many as it takes (`TopPSampler`).
It runs offline over HotpotQA's passages, with the extras `documents` and `rank` and the weights that
`retinue models pull minilm` fetches (23 MB). With a service instead: `Ranker("cohere:rerank-v3.5")` and
`COHERE_API_KEY`; with a cross-encoder as ONNX: `Ranker("FOLDER")`.
"""

import json
import sys
from pathlib import Path

from retinue import Document, DocumentStore, Pipeline
from retinue.components import DocumentWriter, Ranker, Retriever, TopPSampler

DATA = Path(__file__).parents[1] / "data" / "hotpotqa" / "passages.jsonl"
QUESTION = "What creature of American folklore gained notoriety in 1964?"


def main(question: str, passages: int | None = None) -> None:
    """Answer with documents, of the first so many `passages` or all."""
    lines = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()[:passages]]
    documents = [Document(line["text"], meta={"title": line["title"]}) for line in lines]
    store = DocumentStore()
    DocumentWriter(store, "minilm").run(documents)

    pipeline = Pipeline()
    pipeline.add_node(Retriever(store, "hybrid", 20, "minilm"), "Retriever", ["Query"])
    pipeline.add_node(Ranker("minilm", top_k=5), "Ranker", ["Retriever"])
    pipeline.add_node(TopPSampler(0.9), "TopP", ["Ranker"])
    for document in pipeline.run(question)["documents"]:
        share, title = document.meta["probability"], document.meta["title"]
        sys.stdout.write(f"{share:4.0%} {title}: {document.content[:80]}\n")


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]) or QUESTION)
