"""Questions about a product's technical documentation, for which the documents alone are not enough: seed 001's demo.

    python examples/technical_questions.py
    python examples/technical_questions.py openai:gpt-5-mini

The documents in data/kestrel are indexed; the product's issues are those of the tests' stand-in for GitHub, on this
machine. The model is the embedded one (`retinue models pull embedded`), or the one that is named. For a project of your
own: index its folder of documents, and leave out base_url.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

sys.path.append(str(Path(__file__).parents[1] / "tests"))  # where the stand-in is

from fakes.github_server import GitHubServer, issue
from retinue import Agent, Budget, DocumentStore, RunResult
from retinue.components import GitHubAPI, Retriever
from retinue.documents import index_folder
from retinue.extend import Model

REPOSITORY = "kestrel/kestrel"
QUESTION = "Which nodes does the standard QA pipeline have, and which open bug is about one of these nodes?"


def ask(model: Model | str, question: str = QUESTION, strategy: str = "planexec") -> RunResult:
    """The answer of an agent with two tools: the documents, and the issues. It plans first: a small model that does
    not is content with the issues, and guesses the nodes."""
    with TemporaryDirectory() as folder, GitHubServer() as server, DocumentStore(Path(folder, "kestrel.db")) as store:
        server.issues[REPOSITORY] = [
            issue(31, "Splitter: headings are lost", "The Splitter drops headings.", labels=["bug"]),
            issue(38, "Reader crashes on empty passages", "The Reader stops with an error.", labels=["bug"]),
            issue(40, "Fetcher is slow", "Fixed in version 3.", labels=["bug"], state="closed"),
        ]
        index_folder(Path(__file__).parent / "data" / "kestrel", store)
        agent = Agent(model, strategy=strategy, budget=Budget(steps=8, seconds=600))
        agent.add_tool("Documentation", Retriever(store, top_k=2), "Searches Kestrel's documentation for a few words.")
        github = GitHubAPI(repository=REPOSITORY, base_url=server.url, operation="list_issues")

        async def open_issues(label: Literal["bug", "question"]) -> str:
            """Lists the open issues of Kestrel: what is known not to work, and in which node."""
            return (await github.run_async(label))["results"]

        agent.add_tool("OpenIssues", open_issues)  # a small model can say no label that is not there
        return agent.run(question)


if __name__ == "__main__":
    result = ask(*sys.argv[1:2] or ["local"])
    print(QUESTION)
    for step in result.steps:
        for action, seen in zip(step.actions, step.observations, strict=True):
            print(f"  {action.tool}({action.tool_input}): {' '.join(seen.text.split())[:140]}")
    print(result.answer)
