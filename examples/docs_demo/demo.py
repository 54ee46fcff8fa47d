"""Asks the agent of `agents.yml` six questions, and tells what it does: the demo of RFC 001, without a network.

    python examples/docs_demo/demo.py
    python examples/docs_demo/demo.py "How do I add a tool?"

The model is the embedded one (`retinue models pull`). The documentation is Retinue's own; the web and GitHub are
stand-ins on this machine, in which all is invented.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from stand_ins import stand_ins

from retinue import Agent, DocumentStore
from retinue.core.events import Called, Delta, Event, Finished, Stopped
from retinue.documents import index_folder

HERE = Path(__file__).parent
QUESTIONS = (
    "Why is a tool not run a second time with the same input?",
    "Which organizations use Retinue?",
    "How can I choose the model for a Raspberry Pi?",
    "How can I make crawl_depth work in Crawler?",
    "Is there an open issue about any of the components in a standard QA pipeline not working?",
    "Can watermarks in a PDF be ignored?",
)


@contextmanager
def docs_agent() -> Iterator[Agent]:
    """The agent, with an index of the documentation as it is now, and with stand-ins for the web and for GitHub."""
    with TemporaryDirectory() as name, stand_ins() as (web, place, github):
        folder = Path(name)
        file = (HERE / "agents.yml").read_text("utf-8")
        fetcher = "type: LinkContentFetcher"  # which fetches nothing from this machine, unless it is told to
        (folder / "agents.yml").write_text(file.replace(fetcher, f"{fetcher}, params: {{allow: [{place!r}]}}"), "utf-8")
        (folder / "issues.py").write_bytes((HERE / "issues.py").read_bytes())
        (folder / ".retinue").mkdir()
        with DocumentStore(folder / ".retinue" / "documents.sqlite") as store:
            index_folder(HERE.parents[1] / "docs", store)
        os.environ |= {"SEARCH_PARAMS_API_KEY": "none", "SEARCH_PARAMS_BASE_URL": web, "GITHUB_URL": github}
        yield Agent.load_from_yaml(folder / "agents.yml")


def told(event: Event | Delta) -> str:
    """What a person is told of an event, as it happens."""
    match event:
        case Called(action=action):
            searched = f": {action.tool_input}" if isinstance(action.tool_input, str) else ""
            return "\n".join(f"  {line}" for line in (action.log, f"> {action.tool}{searched}") if line)
        case Finished(answer=answer):
            return answer
        case Stopped(reason=reason, best=best):
            return f"{best or 'No answer'} ({reason.value})"
    return ""


def main(questions: Sequence[str]) -> None:
    """Ask."""
    with docs_agent() as agent:
        for question in questions:
            began = time.perf_counter()
            print(question)
            for said in filter(None, map(told, agent.stream(question))):
                print(said, flush=True)
            print(f"({time.perf_counter() - began:.0f} s)\n")


if __name__ == "__main__":
    main(sys.argv[1:] or QUESTIONS)
