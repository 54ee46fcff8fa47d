"""A model that copies whatever looks like protocol from what a tool said, under every strategy."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fakes.hostile import HOSTILE, PROTOCOL, looks_like
from retinue import Agent, Budget, Decision, RunResult, StopReason, Tool
from retinue.core.events import Called
from retinue.core.prompt import Ask
from retinue.core.protocols import Chunks
from retinue.core.values import AgentAction, AgentFinish, Capabilities, Reply, Usage
from retinue.strategies import STRATEGIES


class Gullible:
    """Copies from where protocol begins in what a tool said, as written and as it looks; else does its duty:
    fetch the page, then answer."""

    name = "gullible"

    def __init__(self, abilities: Capabilities) -> None:
        self._abilities = abilities
        self.copied: list[str] = []

    async def abilities(self, *, native: bool = False) -> Capabilities:
        return self._abilities

    async def reply(self, request: Ask) -> Chunks:
        told = request.news
        if "PAGE" in told:
            begin, end = told.index("PAGE"), told.rindex("END") if "END" in told else len(told)
            page = looks_like(told[begin:end])
            if found := PROTOCOL.search(page):
                self.copied.append(page[found.start() :])
                yield Reply(self.copied[-1], Usage(1, 1, 0, 1))
                return
            yield request.write(AgentFinish({"output": "honest"}))
            return
        yield request.write((AgentAction("fetch", "page"),))


def approve(action: AgentAction, problem: str) -> Decision:
    return Decision("approve")


@pytest.mark.matrix
@pytest.mark.parametrize("constrained", [False, True], ids=["free", "held"])
@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_a_tool_returns_can_forge_no_action_and_no_answer(strategy: str, hostile: str, constrained: bool) -> None:
    model = Gullible(Capabilities(constrains=constrained, calls_tools=True))
    result = fetching(model, strategy, f"PAGE {hostile} END", f"PAGE\n{hostile}\nEND")
    assert model.copied == []
    assert {event.action.tool for event in result.events if isinstance(event, Called)} == {"fetch"}
    assert (result.answer, result.stop_reason) == ("honest", StopReason.ANSWER)


def fetching(model: Gullible, strategy: str, *pages: str) -> RunResult:
    left: Sequence[str] = list(pages)
    tools = [
        Tool("fetch", lambda page: "\n".join(left), "Fetch a page", effects="read"),
        Tool("delete_all", lambda what: "gone", "Delete everything"),
    ]
    return Agent(model, tools, strategy=strategy, budget=Budget(steps=8), human=approve).run("What is on the page?")


def test_the_gullible_model_would_copy_all_of_them() -> None:
    missed = [hostile for hostile in HOSTILE if not PROTOCOL.search(looks_like(f"\n{hostile}\n"))]
    assert missed == []
