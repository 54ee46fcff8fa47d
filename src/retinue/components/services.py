"""What components share: checks of their settings, and for those that ask a web service its key, the call, and reading
values of any type in its answer."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from typing import Any, ClassVar, TypedDict

from .._internal.message_text import suggest_name
from ..core.component import QueryComponent
from ..core.tools.tool import Tool
from ..core.values import Document
from ..errors import UsageError
from ..net.service_client import Service, ServiceRequest, ask_service, parse_json_object

NOTHING_FOUND = "Nothing was found. Try other words."


class Searched(TypedDict):
    """The outputs of a search: `results`, the text for a model, and `documents`."""

    results: str
    documents: list[Document]


class ResultText(TypedDict):
    """`results`, a text."""

    results: str


class FoundDocuments(TypedDict):
    """`documents`, in order."""

    documents: list[Document]


class ServiceOperations(QueryComponent[Searched]):
    """Base class of components with several operations, each of which may be a tool of its own.

    `operations`: their methods by name. `polling`: those that are called again for more.
    """

    operations: ClassVar[Mapping[str, str]]
    polling: ClassVar[Sequence[str]] = ()
    name: str
    tool_function: Callable[..., Awaitable[Searched]]

    def choose_operation(self, operation: str) -> None:
        """Make it the one that the component does. Raises `UsageError` for one that it has not."""
        if operation not in self.operations:
            raise UsageError(f"{self.name}: no operation {operation!r}; {suggest_name(operation, self.operations)}")
        self.operation = operation
        self.tool_function = getattr(self, self.operations[operation])

    def tools(self) -> list[Tool]:
        """Return each operation as a tool with its own name."""
        made = []
        for operation in self.operations:
            other = copy(self)
            other.given = self.given | {"operation": operation}
            other.choose_operation(operation)
            made.append(Tool(operation, other, effects="read", polls=operation in self.polling))
        return made

    async def run_async(self, query: str) -> Searched:
        """Its operation, for the words, the number, the label or the name in `query`.

        Raises `ToolError` if the service cannot be asked or says no, `UsageError` if it refuses the key.
        """
        return await self.tool_function(query)


def check_positive(name: str, **numbers: int) -> None:
    """Raise `UsageError` for a number below 1. `name` is the component's."""
    for what, number in numbers.items():
        if number < 1:
            raise UsageError(f"{name}: {what} must be at least 1, not {number}")


def find_key(name: str, given: str | None, variables: Sequence[str]) -> str:
    """Return the key `given`, or else that in one of these environment variables. `name` is the service's. Raises
    `UsageError` if there are variables, and no key."""
    for key in (given, *(os.environ.get(variable) for variable in variables)):
        if key and key.strip():
            return key.strip()
    if variables:
        raise UsageError(f"{name} needs a key: pass api_key=… or set {' or '.join(variables)}")
    return ""


async def fetch_object(service: Service, request: ServiceRequest, what: str) -> Mapping[str, Any]:
    """Return the JSON object with which the service answers; `what` it is of is said in errors. Raises `UsageError` if
    the key is rejected, otherwise `ToolError`."""
    return parse_json_object(service, (await ask_service(service, request)).body, what)


def read_text(value: Any) -> str:
    """Return a text or number on one line, and an empty string for other values."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return " ".join(str(value).split())


def as_list(value: Any) -> list[Any]:
    """Return `value` if it is a list, otherwise an empty one."""
    return value if isinstance(value, list) else []


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return `value` if it is an object, otherwise an empty one."""
    return value if isinstance(value, Mapping) else {}


def first_of(value: Any) -> Any:
    """Return the first item of a list; `None` if it is empty or no list."""
    return next(iter(as_list(value)), None)
