"""The list of what is to do: a tool by which a model keeps it, and the list as the log has it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from ..core.events import Called, Event, Observed
from ..core.tools.result import ToolReturn
from ..core.tools.tool import Tool
from ..errors import NotDone

MOST = 50  # items
LONGEST = 200  # characters of one
Status = Literal["pending", "in_progress", "completed"]
_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}


@dataclass(frozen=True, slots=True)
class Todo:
    """An item of the list: what is to do, and how far it is."""

    text: str
    status: Status = "pending"


def _keep_list(items: list[Todo]) -> ToolReturn:
    if len(items) > MOST:
        raise NotDone(f"items: there are {len(items)}, and the most is {MOST}; put small ones together")
    todos = [replace(one, text=" ".join(one.text.split())) for one in items]
    for at, one in enumerate(todos):
        if not 0 < len(one.text) <= LONGEST:
            raise NotDone(f"items[{at}].text: want 1 to {LONGEST} characters, not {len(one.text)}")
    lines = [f"{_MARKS[one.status]} {one.text}" for one in todos]
    done = sum(one.status == "completed" for one in todos)
    count = f"{len(todos)} item{'s' * (len(todos) != 1)}"
    head = f"The list has {count}, {done} of them completed:" if todos else "The list is empty."
    return ToolReturn("\n".join([head, *lines]), data={"todos": [asdict(one) for one in todos]})


write_todos = Tool(
    "write_todos",
    _keep_list,
    "Keeps the list of what is to do, which the user sees. Give the whole list each time: it takes the place of the "
    "one before. Use it for work of three steps or more: write the list first, have one item in_progress, and write it "
    "again as soon as an item is completed or the plan changes.",
    effects="read",
    polls=True,
    keeps_last=True,
)


def fold_todos(log: Iterable[Event]) -> tuple[Todo, ...]:
    """Return the list as it stands at the end of a run's log: that of the last valid call."""
    calls: set[str] = set()
    todos: tuple[Todo, ...] = ()
    for event in log:
        match event:
            case Called(action=action) if action.tool == write_todos.name:
                calls.add(action.id)
            case Observed(observation=seen) if seen.call_id in calls and seen.outcome == "result":
                given: Any = seen.data or {}
                todos = tuple(Todo(**one) for one in given.get("todos", ()))
    return todos
