"""The demo of seed 001: what it answers when the model judges rightly, and what the embedded model makes of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from retinue import Agent
from retinue.core.events import Called, Delta, Event
from retinue.core.prompt import Ask
from retinue.core.protocols import Chunks
from retinue.core.values import Capabilities, Reply

EXAMPLE = Path(__file__).parents[2] / "examples" / "technical_docs"
NAMED = "Retriever"
SAYS = {  # by question: what its answer has
    "Why is a tool not run a second time with the same input?": "the model is given the former result",
    "Which organizations use Retinue?": "harbour office of Norhaven",
    "How can I choose the model for a Raspberry Pi?": "a GGUF file of at most two billion weights",
    "How can I make crawl_depth work in Crawler?": "set respect_robots to false",
    "Is there an open issue about any of the components in a standard QA pipeline not working?": "Reader stops",
    "Can watermarks in a PDF be ignored?": "issues/new?",
}
ONES = dict(zip("abcdef", SAYS, strict=True))


class Judge:
    """A model that judges rightly, and routes questions about issues there."""

    name = "judge"

    def __init__(self) -> None:
        self.question = ""

    async def abilities(self, *, native: bool = False) -> Capabilities:
        """Held to patterns."""
        return Capabilities(constrains=True)

    async def reply(self, request: Ask) -> Chunks:
        """What the last line asks for."""
        text = request.prompt.text
        said = self._said(text.rsplit("\n\n", 1)[-1], text.rsplit("\n", 1)[-1])
        yield Delta(said)
        yield Reply(said)

    def _said(self, last: str, asked: str) -> str:
        wanted = SAYS[self.question]
        match asked:
            case "Where:":
                return "Issues" if "open issue" in last else "Documentation"
            case "Things:":
                return "components in a standard QA"
            case "Search for:":
                return "crawl_depth Crawler" if "crawl" in last else "other words"
            case "Sentence:":
                lines = [one for one in last.splitlines() if wanted in one or "two components" in one]
                return lines[0].partition(".")[0] if lines else "1"
        return "yes" if wanted in last or ("What are" in last and NAMED in last) else "no"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The example's module, with an index of its own, and the stand-ins."""
    folder = tmp_path_factory.mktemp("technical_docs")
    for name in ("agents.yml", "issues.py"):
        (folder / name).write_bytes((EXAMPLE / name).read_bytes())
    sys.path.insert(0, str(EXAMPLE))
    try:
        import demo as module  # type: ignore[import-not-found]

        docs = module.HERE.parents[1] / "docs"
        (folder / ".retinue").mkdir()
        with module.DocumentStore(folder / ".retinue" / "documents.sqlite") as store:
            module.index_folder(docs, store)
            store.delete({"path": "demo.md"})
        module.FILE = folder / "agents.yml"
        with module.services():
            yield module
    finally:
        sys.path.remove(str(EXAMPLE))
        for name in ("demo", "stand_ins"):
            sys.modules.pop(name, None)


def asked(demo: Any, question: str, model: Any = None) -> tuple[str, list[str], list[str]]:
    """The answer, what was searched where, and what a person was told."""
    agent: Agent = Agent.load_from_yaml(demo.FILE)
    if model is not None:
        model.question, agent.model = question, model
    events: list[Event] = [one for one in agent.stream(question) if isinstance(one, Event)]
    calls = [one.action for one in events if isinstance(one, Called)]
    return (
        demo.told(events[-1]),
        [f"{one.tool}: {one.tool_input}" for one in calls],
        [one.log for one in calls if one.log],
    )


@pytest.mark.parametrize("question", [pytest.param(one, id=letter) for letter, one in ONES.items()])
def test_a_model_that_judges_rightly_answers_each_question(demo: Any, question: str) -> None:
    answer, _, _ = asked(demo, question, Judge())
    assert SAYS[question] in answer


def test_it_says_what_it_is_doing(demo: Any) -> None:
    _, calls, told = asked(demo, ONES["b"], Judge())
    assert told[-1] == "Found nothing in Documentation. Will continue with Web."
    assert calls[-1] == f"Web: {ONES['b']}"


def test_what_documentation_names_is_looked_for_in_the_issues(demo: Any) -> None:
    _, calls, told = asked(demo, ONES["e"], Judge())
    assert calls[1:3] == ["Issues: Retriever", "Issues: Reader"]
    assert "Will look in Issues for Retriever, Reader." in told[0]


def test_the_link_is_filled_in_and_tagged(demo: Any) -> None:
    answer, _, _ = asked(demo, ONES["f"], Judge())
    link = urlsplit(answer.rpartition(" ")[2])
    given = parse_qs(link.query)
    assert (link.netloc, link.path) == ("github.com", "/retinue/retinue/issues/new")
    assert (given["title"], given["labels"]) == ([ONES["f"]], ["question"])
    assert "- Documentation: Can watermarks" in given["body"][0]


@pytest.mark.model
@pytest.mark.long
def test_the_embedded_model_answers_three_of_four_and_gives_the_link(demo: Any) -> None:
    right = [question for question in list(SAYS)[:5] if SAYS[question] in asked(demo, question)[0]]
    assert len(right) >= 4, right
    assert "issues/new?" in asked(demo, ONES["f"])[0]
