"""The demo of seed 001: questions about Retinue's own documentation (docs/demo.md).

    python examples/technical_docs/demo.py
    python examples/technical_docs/demo.py "Which organizations use Retinue?"
    python examples/technical_docs/demo.py --serve

The last one serves it: the studio's playground suggests the four questions.

Offline, two stand-ins on this machine answer for GitHub and the search engine, with invented issues and pages. With
SERPER_API_KEY and DEMO_REPOSITORY in the environment, the real ones are asked; GITHUB_TOKEN is used if it is set.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from research import Research  # type: ignore[import-not-found]
from stand_ins import stand_ins  # type: ignore[import-not-found]

from retinue import Agent, DocumentStore, Tool
from retinue.cli.run_output import run_and_show
from retinue.components.embedding_models import embedder
from retinue.config.yaml_files import load
from retinue.documents import index_folder

FOLDER = Path(__file__).parent
DOCS = FOLDER.parents[1] / "docs"
REPOSITORY = "retinue-demo/retinue"
QUESTIONS = (
    "How do I search documents by meaning?",
    "Which organizations use Retinue?",
    "How can I make CRAWLER_PARAMS_PAGES take effect?",
    "Is there an open issue about any of the components of a standard question answering pipeline not working?",
)
UNANSWERABLE = "Can Retinue print a run as a crossword puzzle?"


def say(update: str) -> str:
    """Tells the user what is done next."""
    return "told"


def indexed(*, vectors: bool = True) -> None:
    """Index the documentation; only what has changed is read again."""
    with DocumentStore(FOLDER / "index.sqlite") as store:
        index_folder(DOCS, store, embedder=embedder("minilm", "demo") if vectors else None)


@contextmanager
def services() -> Iterator[None]:
    """The real services if there is a key and a repository, and else the stand-ins."""
    keys = ("SERPER_API_KEY", "SERPERDEV_API_KEY")
    if os.environ.get("DEMO_REPOSITORY") and any(os.environ.get(key) for key in keys):
        yield
        return
    with stand_ins(REPOSITORY) as address:
        given = {f"{name}_PARAMS_BASE_URL": address for name in ("WEB", "ISSUES")}
        given |= {"WEB_PARAMS_API_KEY": "none", "ISSUES_PARAMS_TOKEN": "none", "DEMO_REPOSITORY": REPOSITORY}
        before = {name: os.environ.get(name) for name in given}
        os.environ.update(given)
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})


def demo_agent() -> Agent:
    """The file's agent, with the demo's strategy and a tool that says what it is doing."""
    agent: Agent = load(FOLDER / "agents.yml", "agents", None)
    agent.add_tool(Tool("say", say, effects="read", polls=True))
    agent.strategy, agent.instructions = Research(), ""
    return agent


def main(questions: tuple[str, ...]) -> int:
    """Answer the questions, and show each run as a tree."""
    indexed()
    failed = 0
    with services():
        agent = demo_agent()
        for question in questions:
            print(f"\n{question}")
            failed |= run_and_show(agent.start(question))
    return failed


def serve_it() -> int:
    """Serve the agent until Ctrl-C, with a studio."""
    from retinue.server.context import Options
    from retinue.server.deployment import Deployment
    from retinue.server.process import Serving, serve

    indexed()
    with services(), TemporaryDirectory() as folder:
        how = Serving(f"sqlite:///{folder}/runs.sqlite", Options())
        deployment = Deployment({"technical questions": demo_agent()})
        asyncio.run(serve(deployment, how, lambda at: print(f"Open {at}/studio", flush=True), _show_key))
    return 0


def _show_key(key: str) -> None:
    print(f"the key to sign in with: {key}", flush=True)


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(serve_it() if given == ["--serve"] else main(tuple(given) or (*QUESTIONS, UNANSWERABLE)))
