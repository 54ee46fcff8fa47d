"""Questions about Retinue, answered from its documentation, the web and its issues: the demo of RFC 001.

python examples/docs_demo/ask.py                    # six questions, the embedded model, stand-ins on this machine
python examples/docs_demo/ask.py --real             # the web and GitHub, with SERPER_API_KEY and GITHUB_TOKEN
python examples/docs_demo/ask.py "How do I add a tool?" --model openai:gpt-5-mini
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

from retinue import (
    Agent,
    Budget,
    DocumentStore,
    GitHubAPI,
    IssueLink,
    LinkContentFetcher,
    Retriever,
    SearchEngine,
    Tool,
)
from retinue import WebRetriever, tool
from retinue.core.protocols import Model
from retinue.documents import index_folder
from stand_ins import REPOSITORY, stand_ins

DOCS = Path(__file__).parents[2] / "docs"
QUESTIONS = (
    "Why is a tool not run a second time with the same input?",
    "Which organizations use Retinue?",
    "How can I choose the model for a Raspberry Pi?",
    "How can I make crawl_depth work in Crawler?",
    "Is there an open issue about any of the components in a standard QA pipeline not working?",
    "Can watermarks in a PDF be ignored?",
)
WHERE = "https://github.com"


@contextmanager
def docs_agent(model: Model | str, pages: str = "", github: str = "") -> Iterator[Agent]:
    """An agent over the documentation, the web at `pages` and the issues at `github`; the real ones by default."""
    with TemporaryDirectory() as folder, DocumentStore(Path(folder, "docs.db")) as store:
        index_folder(DOCS, store)
        agent = Agent(model, strategy="corrective", budget=Budget(steps=20, seconds=600), name="docs")
        agent.add_tool("Documentation", Retriever(store, top_k=4), "how Retinue works and how it is used")
        engine = SearchEngine(
            "serper", os.environ.get("SERPER_API_KEY", "none"), **({"base_url": pages} if pages else {})
        )
        allowed = [pages.removeprefix("http://")] if pages else []
        fetcher = LinkContentFetcher(allow=allowed)
        retriever = WebRetriever(engine, mode="document", top_k=3, fetcher=fetcher)
        agent.add_tool("Web", retriever, "who uses Retinue, and what people write about it")
        agent.add_tool("Issues", issues_at(github))
        agent.add_tool("NewIssue", IssueLink(REPOSITORY, labels=["question"]), "a link to a new issue")
        yield agent


def issues_at(base_url: str) -> Tool:
    """The open issues, each with what people say of it."""
    github = GitHubAPI(repository=REPOSITORY, top_k=3, **({"base_url": base_url} if base_url else {}))

    @tool(name="Issues", effects="read")
    async def issues(words: str) -> str:
        """what is known not to work, open issues and bugs

        Args:
            words: Words that are in the issue.
        """
        found = (await github.search_issues(words, state="open"))["documents"]
        texts = [(await github.read_issue(one.meta["number"]))["results"] for one in found]
        return "\n".join(" ".join(text.split()) for text in texts) or "nothing"

    return issues


def main() -> None:
    """Ask."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", nargs="*", default=QUESTIONS)
    parser.add_argument("--model", default="local")
    parser.add_argument("--real", action="store_true", help="ask the web and GitHub")
    given = parser.parse_args()
    with (
        nullcontext(("", "")) if given.real else stand_ins() as (pages, github),
        docs_agent(given.model, pages, github) as agent,
    ):
        for question in given.questions:
            print(question)
            result = agent.run(question)
            for step in result.steps:
                for action, seen in zip(step.actions, step.observations, strict=True):
                    print(
                        f"  {action.log.strip()}\n  {action.tool}({action.tool_input}): {' '.join(seen.text.split())[:140]}"
                    )
            print(result.answer, "\n")


if __name__ == "__main__":
    main()
