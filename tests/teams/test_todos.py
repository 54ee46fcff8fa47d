"""The list of what is to do: what the model may write, and the list as the log has it."""

from __future__ import annotations

from typing import Any

import pytest

from retinue import Agent, PromptModel, fork
from retinue.core.events import Observed
from retinue.core.run_result import RunResult
from retinue.core.serialization import from_json, to_json
from retinue.harness import Harness, Todo, fold_todos

ONLY_TODOS = Harness(workspace=False, shell=False, helpers=False)


def item(text: str, status: str = "pending") -> dict[str, str]:
    return {"text": text, "status": status}


def write(*items: Any) -> dict[str, Any]:
    return {"call": {"tool": "write_todos", "input": {"items": list(items)}}}


FIRST = write(item("look"), item("tell"))
SECOND = write(item("look", "completed"), item("tell", "in_progress"))


def agent(*script: Any) -> Agent:
    model = PromptModel(script=script, retries=0)
    return Agent(model, name="top", strategy="tool_calling", harness=ONLY_TODOS)


def run(*script: Any) -> RunResult[str]:
    return agent(*script, {"say": "done"}).run("go")


def texts(done: RunResult[str]) -> list[str]:
    return [event.observation.text for event in done.events if isinstance(event, Observed)]


def test_the_list_is_the_last_one_that_was_written() -> None:
    done = run(FIRST, SECOND)
    assert texts(done)[1] == "The list has 2 items, 1 of them completed:\n[x] look\n[>] tell"
    read = [from_json(to_json(event)) for event in done.events]
    assert fold_todos(read) == (Todo("look", "completed"), Todo("tell", "in_progress"))
    assert fold_todos(()) == ()
    assert fold_todos(run(FIRST, write()).events) == ()


def test_a_list_that_is_refused_changes_nothing() -> None:
    for wrong, said in (
        ([item("x" * 201)], "items[0].text: want 1 to 200 characters, not 201"),
        ([item("look"), item(" ")], "items[1].text: want 1 to 200 characters, not 0"),
        ([item(str(at)) for at in range(51)], "items: there are 51, and the most is 50"),
        ([item("look", "later")], "Input should be 'pending', 'in_progress' or 'completed'"),
    ):
        done = run(FIRST, write(*wrong))
        assert said in texts(done)[1]
        assert fold_todos(done.events) == (Todo("look"), Todo("tell"))


def test_the_same_list_may_be_written_again() -> None:
    done = run(FIRST, FIRST, FIRST, FIRST)
    assert (done.answer, len(texts(done))) == ("done", 4)


@pytest.mark.anyio
async def test_a_fork_has_the_list_of_its_step() -> None:
    done = await agent(FIRST, SECOND, {"say": "done"}).run_async("go")
    forked = await fork(agent({"say": "otherwise"}), done, step=1).finish()
    assert forked.answer == "otherwise"
    assert fold_todos(forked.events) == (Todo("look"), Todo("tell"))
