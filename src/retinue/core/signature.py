"""Signature of a tool's function: a JSON Schema from the type hints, descriptions from the docstring."""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, get_type_hints

from ..errors import UsageError
from .json_schema import errors_of
from .schema_keywords import TooMuch
from .values import ToolInput

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

_SORTED = json.JSONEncoder(sort_keys=True)
Checked = Callable[[dict[str, Any]], dict[str, Any]]


class InvalidInput(Exception):
    """A tool's input does not fit its schema; the message tells the model where and why."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The input side of a tool.

    `parameters` is a JSON Schema of type `object`. `text_argument` is the argument that receives plain text, if the
    tool takes exactly one string. `checked` converts values by name into arguments, or raises `InvalidInput`.
    """

    parameters: Mapping[str, Any]
    text_argument: str | None
    checked: Checked

    def arguments(self, tool_input: ToolInput) -> dict[str, Any]:
        """Return `tool_input` as checked values by argument name. Raises `InvalidInput`."""
        return self.checked(tool_input if isinstance(tool_input, dict) else self._from_text(tool_input))

    def key(self, arguments: Mapping[str, Any]) -> str:
        """Return a text that is the same for all checked arguments that make the same call.

        Formatting does not matter, nor whether a default is passed or omitted. Raises an `Exception` for values that
        cannot be compared.
        """
        fields = self.parameters.get("properties", {}).items()
        values = {name: field["default"] for name, field in fields if isinstance(field, dict) and "default" in field}
        values |= arguments
        if isinstance(text := values.get(self.text_argument or ""), str):
            values[self.text_argument or ""] = " ".join(text.split())
        return _SORTED.encode({name: _plain(value) for name, value in values.items()})

    def _from_text(self, text: str) -> dict[str, Any]:
        if self.text_argument is not None:
            return {self.text_argument: text}
        if not text.strip() and not self.parameters.get("required"):
            return {}
        try:
            values = json.loads(text)
        except (ValueError, RecursionError):
            values = None
        if not isinstance(values, dict):
            named = list(self.parameters.get("properties", {}))
            if len(named) == 1:  # the text is the only argument: a number, a list, one of several words
                return {named[0]: text if values is None else values}
            names = ", ".join(json.dumps(name) for name in self.parameters.get("properties", {}))
            raise InvalidInput(f"the input must be a JSON object with {names or 'no keys'}, not {text[:80]!r}")
        return values


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a tool; `default` applies if it is not `required`."""

    type: Any
    description: str = ""
    required: bool = True
    default: Any = None


def read_signature(function: Callable[..., Any]) -> Signature:
    """Return the signature of `function`. Raises `UsageError` for parameters that cannot be passed by name."""
    from pydantic import Field

    described = described_parameters(function)
    definitions: dict[str, Any] = {}
    hints = _hints(function)
    for parameter in _parameters(function):
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            raise UsageError(
                f"tool {_name(function)}: a model passes arguments by name, so '{parameter}' is not supported"
            )
        annotation = hints.get(parameter.name, str if parameter.default is parameter.empty else Any)
        default = ... if parameter.default is parameter.empty else parameter.default
        notes: Any = {"description": described[parameter.name]} if described.get(parameter.name) else {}
        definitions[parameter.name] = (annotation, Field(default, **notes))
    return _signature(_name(function), definitions)


def signature_of(tool: str, arguments: Mapping[str, Argument]) -> Signature:
    """Return the signature of a tool from declared arguments instead of a function. Raises `UsageError`."""
    from pydantic import Field

    definitions: dict[str, Any] = {}
    for name, argument in arguments.items():
        notes: Any = {"description": argument.description} if argument.description else {}
        definitions[name] = (argument.type, Field(... if argument.required else argument.default, **notes))
    return _signature(tool, definitions)


def signature_of_schema(schema: Mapping[str, Any]) -> Signature:
    """Return the signature of a tool from a JSON Schema of type `object` without references."""
    errors_in = errors_of(schema)

    def checked(values: dict[str, Any]) -> dict[str, Any]:
        try:
            errors = sorted(errors_in(values), key=lambda error: error.json_path)
        except TooMuch as error:
            raise InvalidInput("it takes too long to hold this against the tool's schema; want less") from error
        problems = [f"{error.json_path[2:] or 'input'}: {error.message:.200}" for error in errors[:5]]
        if problems:
            raise InvalidInput("; ".join(problems))
        return values

    return Signature(schema, _text_argument(schema), checked)


def _signature(tool: str, definitions: dict[str, Any]) -> Signature:
    from pydantic import ConfigDict, PydanticUserError, ValidationError, create_model

    try:
        with warnings.catch_warnings(action="ignore"):  # a parameter may shadow pydantic's `json` or `schema`
            model = create_model(tool, __config__=ConfigDict(extra="forbid"), **definitions)
            parameters = _without_titles(model.model_json_schema())
    except PydanticUserError as error:
        raise UsageError(f"tool {tool}: a model cannot pass its parameters: {error.message}") from error
    except (NameError, ValueError) as error:  # pydantic's own names, and names that begin with "_"
        raise UsageError(f"tool {tool}: {error}") from error
    return Signature(parameters, _text_argument(parameters), partial(_checked_by, model, ValidationError))


def _checked_by(model: type[BaseModel], invalid: type[ValidationError], values: dict[str, Any]) -> dict[str, Any]:
    try:
        checked = model.model_validate(values)
    except invalid as error:
        problems = [f"{'.'.join(map(str, e['loc'])) or 'input'}: {e['msg']}" for e in error.errors()]
        raise InvalidInput("; ".join(problems)) from error
    given = checked.model_fields_set
    return {name: value for name, value in checked.__dict__.items() if name in given}


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as error:
        raise UsageError(f"tool {_name(function)}: its type hints refer to unknown names: {error}") from error
    except TypeError:  # a callable object: use the hints of its __call__
        return get_type_hints(type(function).__call__, include_extras=True)


def _parameters(function: Callable[..., Any]) -> Iterable[inspect.Parameter]:
    try:
        return inspect.signature(function).parameters.values()
    except ValueError as error:
        raise UsageError(f"tool {_name(function)}: it has no readable signature; wrap it in a function") from error


def described_parameters(function: Callable[..., Any]) -> dict[str, str]:
    """Parse the parameters' descriptions from a Google, NumPy or reST docstring."""
    doc = inspect.getdoc(function)
    if not doc:
        return {}
    from docstring_parser import parse

    return {found.arg_name: found.description or "" for found in parse(doc).params}


def summary(function: Callable[..., Any]) -> str:
    """Return the first paragraph of the docstring as one line; of an agent's, its name and its tools instead."""
    agent: Any = getattr(function, "__self__", None)
    if hasattr(agent, "run_spec"):
        tools = ", ".join(tool.name for tool in agent.tools)
        return f"Asks the agent {agent.name}{f', whose tools are: {tools}' if tools else ''}."
    return " ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split())


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _text_argument(parameters: Mapping[str, Any]) -> str | None:
    needed = parameters.get("required", [])
    properties = parameters.get("properties", {})
    names = list(needed) or list(properties)
    if len(names) == 1 and len(properties) == 1:
        (name,) = names
        kind = properties[name].get("type")
        return name if kind == "string" and not {"enum", "const"} & set(properties[name]) else None
    return None


def _plain(value: Any) -> Any:
    """Convert `value` to JSON types so that equal values compare equal."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return int(value) if value.is_integer() else value
        case dict():
            return {str(name): _plain(one) for name, one in value.items()}
        case list() | tuple():
            return [_plain(one) for one in value]
        case set() | frozenset():
            return sorted(_SORTED.encode(_plain(one)) for one in value)
    from pydantic_core import to_jsonable_python

    return _plain(to_jsonable_python(value))


def _without_titles(schema: Any) -> Any:
    """Remove the titles that pydantic gives every field; the model does not need the name twice."""
    if isinstance(schema, dict):
        return {
            key: {name: _without_titles(inner) for name, inner in value.items()}
            if key in ("properties", "$defs")
            else _without_titles(value)
            for key, value in schema.items()
            if key != "title"
        }
    return [_without_titles(inner) for inner in schema] if isinstance(schema, list) else schema
