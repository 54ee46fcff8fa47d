"""The state that the roles of a graph share: typed fields, each with a reducer that combines old and new values.

Values are JSON. A state is a plain mapping; nothing here changes one in place, so it can be folded from a log.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from .._internal.message_text import suggest_name
from .._internal.type_check import describe_mismatch
from ..errors import UsageError

Values = Mapping[str, Any]
Reducer = str | Callable[[Any, Any], Any]
UNSET: Any = ...
QUESTION, HISTORY, ERRORS, VISITS = "question", "history", "errors", "visits"
TYPES: Mapping[str, Any] = {"any": Any} | {kind.__name__: kind for kind in (str, int, float, bool, list, dict)}


class StateError(Exception):
    """A value does not fit its field, or is not set; the message names the field, and says what would fit."""


@dataclass(frozen=True, slots=True)
class StateField:
    """A field of the state.

    Args:
        type: A type, or its name: `any`, `str`, `int`, `float`, `bool`, `list` or `dict`.
        reducer: How a role's value joins what is there: `replace`; `append` (as one more item of a list); `add` (`+`:
            numbers, texts, lists); `merge` (the keys of a mapping); or a function of the old and the new value. Such a
            function must depend on nothing else, because a run that is resumed calls it again.
        default: The value at the beginning, of the field's type. Without one the field is unset, except that `append`
            begins with an empty list and `merge` with an empty mapping.

    Raises `UsageError` for an unknown type or reducer, and a default of another type.
    """

    type: Any = Any
    reducer: Reducer = "replace"
    default: Any = UNSET

    def __post_init__(self) -> None:
        if isinstance(self.type, str):
            if self.type not in TYPES:
                raise UsageError(f"no type {self.type!r}; {suggest_name(self.type, TYPES)}")
            object.__setattr__(self, "type", TYPES[self.type])
        if not callable(self.reducer) and self.reducer not in REDUCERS:
            raise UsageError(f"no reducer {self.reducer!r}; {suggest_name(str(self.reducer), REDUCERS)}")
        wanted = _NATURAL.get(self.reducer) if isinstance(self.reducer, str) else None
        if wanted is not None and self.type is Any:
            object.__setattr__(self, "type", wanted)
        if wanted is not None and wanted not in (self.type, getattr(self.type, "__origin__", None)):
            raise UsageError(f"the reducer {self.reducer} needs a {wanted.__name__}, not {name_type(self.type)}")
        if self.default is not UNSET and (problem := describe_mismatch(self.default, self.type)):
            raise UsageError(f"its default {problem}")

    @property
    def initial(self) -> Any:
        """The value at the beginning, or `UNSET`."""
        if self.default is UNSET and isinstance(self.reducer, str) and self.reducer in _NATURAL:
            return _NATURAL[self.reducer]()
        return self.default


REDUCERS: Mapping[str, Callable[[Any, Any], Any]] = {
    "replace": lambda old, new: new,
    "append": lambda old, new: [*old, new],
    "add": lambda old, new: old + new,
    "merge": lambda old, new: {**old, **new},
}
_NATURAL: Mapping[str, type] = {"append": list, "merge": dict}
OWN: Mapping[str, StateField] = {
    QUESTION: StateField(str),
    HISTORY: StateField(list),
    ERRORS: StateField(dict, "merge"),
    VISITS: StateField(dict, "merge"),
}
"""The fields that every state has: the question; the earlier conversation as `{"role", "content"}`; by role, why it
failed last; by role, how often it ran."""


def write_field(values: Values, fields: Mapping[str, StateField], name: str, value: Any) -> dict[str, Any]:
    """Return the state after `value` was written to the field `name`. Raises `StateError`."""
    field = fields[name]
    item = _NATURAL.get(str(field.reducer)) is list
    (inner,) = get_args(field.type) or (Any,) if item else (field.type,)
    if problem := describe_mismatch(value, inner):
        raise StateError(f"the field {name!r} {problem}")
    if name not in values:
        return {**values, name: value}
    reduce = field.reducer if callable(field.reducer) else REDUCERS[field.reducer]
    try:
        new = reduce(values[name], value)
    except Exception as error:  # a reducer may be anybody's
        raise StateError(f"the reducer of the field {name!r} failed: {error!r:.200}") from error
    problem = describe_mismatch(new, field.type)
    try:
        json.dumps(new, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        problem = problem or f"must be JSON: {error}"
    if problem:
        raise StateError(f"the field {name!r} {problem}")
    return {**values, name: new}


def replace_field(values: Values, fields: Mapping[str, StateField], name: str, value: Any) -> dict[str, Any]:
    """Return the state after a person gave the field `name` another value. Raises `StateError`."""
    new = read_value(value, fields[name]) if isinstance(value, str) else value
    if problem := describe_mismatch(new, fields[name].type):
        raise StateError(f"the field {name!r} {problem}")
    return {**values, name: new}


def read_value(text: str, field: StateField) -> Any:
    """Return the value that a role's text means for a field: the text itself, or JSON where the field wants it."""
    if field.type in (str, Any) or field.reducer == "append":
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def as_words(value: Any) -> str:
    """Return a value as a model reads it: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def name_type(type_: Any) -> str:
    """Return a type as it is written."""
    return getattr(type_, "__name__", str(type_))
