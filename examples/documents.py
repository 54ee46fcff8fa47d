"""Answers from a folder: Retinue's own documentation, indexed, searched by an agent, and quoted by a `Reader`.

The model is a script, so that this runs anywhere; `PromptModel()` in its place is the embedded one. `retinue index
docs` keeps such a store in a file, and reads only what has changed the next time.
"""

from __future__ import annotations

from pathlib import Path

from retinue import Agent, DocumentStore, Pipeline, PromptModel, Tool
from retinue.components import DocumentSplitter, DocumentWriter, FileConverter, PromptNode, Reader, Retriever
from retinue.documents import index_folder

DOCS = Path(__file__).parent.parent / "docs"
QUESTION = "Which command says all that is wrong with a file?"


def main() -> None:
    """Index, ask an agent, and quote."""
    script = [{"when": "retinue check", "finish": "retinue check"}, {"call": {"tool": "Docs", "input": QUESTION}}]
    with DocumentStore() as store:
        done = index_folder(DOCS, store)
        print(f"{done.new} files, {len(store)} passages")

        search = Retriever(store, top_k=3)
        agent = Agent(
            PromptModel(engine="scripted", script=script),
            [Tool("Docs", search, "useful for when you need to know something about Retinue", effects="read")],
        )
        print(agent.run(QUESTION).answer)

        indexing = Pipeline(inputs=["file_paths"])  # the same, put together by hand, for some files
        for component in (FileConverter(), DocumentSplitter(500), DocumentWriter(store)):
            indexing.add_node(component)
        indexing.run(file_paths=[DOCS.parent / "README.md"])
        print(f"{len(store)} passages with the README's")

        quoting = Pipeline()
        quoting.add_node(search, "Search")
        quoting.add_node(Reader(PromptNode(PromptModel(engine="scripted", script=["`retinue check`"]))), "Reader")
        for answer in quoting.run(QUESTION)["answers"]:
            print(f"{answer['answer']}  ({answer['document_id']}, {answer['start']} to {answer['end']})")


if __name__ == "__main__":
    main()
