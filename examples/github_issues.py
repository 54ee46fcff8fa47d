"""Questions about a project, answered from its issues; where there is no answer, a link to a new issue.

    python examples/github_issues.py

runs without a network: the model is a script, and GitHub is the tests' stand-in on this machine. For the real one, give
the agent a model, such as "openai:gpt-5-mini", and leave out base_url; GITHUB_TOKEN is read from the environment:

    Agent("openai:gpt-5-mini", [*GitHubAPI(repository="deepset-ai/haystack").tools(), new_issue])
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))  # where the stand-in is

from fakes.github_server import GitHubServer, issue
from retinue import Agent, PromptModel, Tool
from retinue.components import GitHubAPI, IssueLink

REPOSITORY = "deepset-ai/haystack"
SCRIPT = [
    {"when": "^How can I make", "call": {"tool": "search_issues", "input": {"query": "overwrite_with_env_variables"}}},
    {"when": "^Which bugs", "call": {"tool": "list_issues", "input": {"label": "bug"}}},
    {"when": "#4084", "finish": "Two bugs are open: #4105 in RayPipeline, and #4084, duplicate answers."},
    {"when": "before it is loaded", "finish": "Set the variables on the component before it is loaded (issue #4105)."},
    {"when": "#4105", "call": {"tool": "read_issue", "input": {"issue": 4105}}},
    {"when": "^Can watermarks", "call": {"tool": "search_issues", "input": {"query": "watermark"}}},
    {
        "when": "Nothing was found",
        "call": {"tool": "new_issue", "input": {"title": "Can watermarks be ignored?", "body": "Nothing was found."}},
    },
    {"when": "issues/new", "finish": "I found nothing; you can ask there: see the link."},
]


def main() -> None:
    """Ask three questions."""
    with GitHubServer() as server:
        server.issues[REPOSITORY] = [
            issue(4084, "Duplicate answers are returned", "The reader gives each answer twice.", labels=["bug"]),
            issue(4105, "overwrite_with_env_variables in RayPipeline", "It has no effect.", labels=["bug"]),
        ]
        server.comments[(REPOSITORY, 4105)] = ["It works if they are set on the component before it is loaded."]
        github = GitHubAPI(repository=REPOSITORY, base_url=server.url)
        new_issue = Tool("new_issue", IssueLink(REPOSITORY, labels=["question"]), effects="read")
        agent = Agent(PromptModel(script=SCRIPT), [*github.tools(), new_issue])
        for question in (
            "How can I make overwrite_with_env_variables in RayPipeline work?",
            "Which bugs are open?",
            "Can watermarks in a PDF be ignored?",
        ):
            result = agent.run(question)
            print(question)
            for step in result.steps:
                for action, seen in zip(step.actions, step.observations, strict=True):
                    print(f"  {action.tool}: {seen.text.splitlines()[0][:110]}")
            print(f"  {result.answer}")


if __name__ == "__main__":
    main()
