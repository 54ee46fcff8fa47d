"""The demo of seed 001: questions about Retinue, answered from its documentation, the web and its issues.

    python examples/technical_docs/demo.py                     # the file's six questions
    python examples/technical_docs/demo.py "How do I add a tool?"
    python examples/technical_docs/demo.py --serve             # in the studio, whose playground suggests them

Without a network: the embedded model, and stand-ins for the web and for GitHub on this machine, in which all is
invented. With SERPER_API_KEY in the environment the real ones are asked; GITHUB_TOKEN is used if it is set.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from stand_ins import stand_ins  # type: ignore[import-not-found] # beside this file

from retinue import Agent, Delta, DocumentStore, Event
from retinue.cli import main as retinue
from retinue.documents import index_folder
from retinue.extend import Called, Finished, Stopped

HERE = Path(__file__).parent
FILE = HERE / "agents.yml"


def indexed() -> None:
    """Index the documentation; only what has changed is read again."""
    (HERE / ".retinue").mkdir(exist_ok=True)
    with DocumentStore(HERE / ".retinue" / "documents.sqlite") as store:
        index_folder(HERE.parents[1] / "docs", store)
        store.delete({"path": "demo.md"})  # which has the questions


@contextmanager
def services() -> Iterator[None]:
    """The real services if there is a key, and else the stand-ins."""
    if os.environ.get("SERPER_API_KEY"):
        yield
        return
    with stand_ins("retinue/retinue") as address:
        os.environ |= {"SEARCH_PARAMS_API_KEY": "none", "SEARCH_PARAMS_BASE_URL": address, "GITHUB_URL": address}
        try:
            yield
        finally:
            for name in ("SEARCH_PARAMS_API_KEY", "SEARCH_PARAMS_BASE_URL", "GITHUB_URL"):
                del os.environ[name]


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


def ask(agent: Agent, questions: Sequence[str]) -> None:
    """Ask, and tell what the agent does."""
    for question in questions:
        began = time.perf_counter()
        print(question, flush=True)
        for said in filter(None, map(told, agent.stream(question))):
            print(said, flush=True)
        print(f"({time.perf_counter() - began:.0f} s)\n", flush=True)


def main(words: Sequence[str]) -> int:
    """Ask the questions, or serve the agent with further options of `retinue serve`."""
    indexed()
    with services():
        if words and words[0] == "--serve":
            with TemporaryDirectory() as folder:  # a new database each time, whose key is told
                return retinue(["serve", str(FILE), "--db", f"{folder}/runs.db", *words[1:]])
        agent: Agent = Agent.load_from_yaml(FILE)
        ask(agent, words or agent.questions)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
