"""Signature of a tool's function: a JSON Schema from the type hints, descriptions from the docstring; and the
exceptions that its `not_done` declares, by which it says that a call did not happen."""

from __future__ import annotations

import builtins
import inspect
import json
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from types import NoneType, SimpleNamespace, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin, get_type_hints

from ...errors import ToolError, UsageError
from ..run_context import RunContext
from ..schema.json_schema import TooMuch, make_validator, write_canonical
from ..values import ToolInput

if TYPE_CHECKING:
    from pydantic import BaseModel


_CONTEXT = re.compile(r"([A-Za-z_]\w*\.)*RunContext(\[.*\])?( *\| *None)?")


class InvalidInput(Exception):
    """A tool's input does not fit its schema; the message tells the model where and why."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The input side of a tool. `parameters` is a JSON Schema of type `object`. `text_argument` is the argument that
    receives plain text, if the tool takes exactly one string. `checked` converts values by name into arguments, or
    raises `InvalidInput`. `context` is the parameter that gets the run's context, of which a model knows nothing."""

    parameters: Mapping[str, Any]
    text_argument: str | None
    checked: Callable[[dict[str, Any]], dict[str, Any]]
    context: str = ""

    def arguments(self, tool_input: ToolInput) -> dict[str, Any]:
        """Return `tool_input` as checked values by argument name. Raises `InvalidInput`."""
        if isinstance(tool_input, dict):
            return self.checked(tool_input)
        if self.text_argument is not None:
            return self.checked({self.text_argument: tool_input})
        if not tool_input.strip() and not self.parameters.get("required"):
            return self.checked({})
        try:
            values = json.loads(tool_input)
        except (ValueError, RecursionError):
            values = None
        named = list(self.parameters.get("properties", {}))
        if not isinstance(values, dict) and len(named) == 1:  # of a number, a list, one of several words
            values = {named[0]: tool_input if values is None else values}
        if not isinstance(values, dict):
            names = ", ".join(map(json.dumps, named)) or "no keys"
            raise InvalidInput(f"the input must be a JSON object with {names}, not {tool_input[:80]!r}")
        return self.checked(values)

    def key(self, arguments: Mapping[str, Any]) -> str:
        """Return a text that is the same for all checked arguments that make the same call. Formatting does not matter,
        nor whether a default is passed or omitted. Raises an `Exception` for values that cannot be compared."""
        fields = self.parameters.get("properties", {}).items()
        values = {name: field["default"] for name, field in fields if isinstance(field, dict) and "default" in field}
        values |= arguments
        if isinstance(text := values.get(self.text_argument or ""), str):
            values[self.text_argument or ""] = " ".join(text.split())
        return write_canonical(values)


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a tool. If it is not `required`, the tool is passed `default` without it."""

    type: Any
    description: str = ""
    required: bool = True
    default: Any = None


def read_signature(function: Callable[..., Any]) -> Signature:
    """Return the signature of `function`. Raises `UsageError` for parameters that a model cannot supply."""
    from pydantic.fields import FieldInfo

    described = parse_descriptions(function)
    parameters = list_parameters(function)
    hints = _read_hints(function, parameters)
    arguments: dict[str, Argument] = {}
    passed = set()
    for name, parameter in parameters.items():
        required = parameter.default is parameter.empty
        hint = hints.get(name, str if required and not inspect.isbuiltin(function) else Any)
        field = parameter.default if isinstance(parameter.default, FieldInfo) else None
        description = _read_description(hint, field) or described.get(name, "")
        arguments[name] = Argument(hint, description, required, parameter.default)
        if field is not None or parameter.kind is parameter.POSITIONAL_ONLY:
            passed.add(name)
    return replace(build_signature(_name(function), arguments, passed), context=find_context_parameter(function))


def build_signature(tool: str, arguments: Mapping[str, Argument], passed: Collection[str] | None = None) -> Signature:
    """Return the signature of a tool with these arguments. Raises `UsageError`. `passed`: those whose default is passed
    to the function, which does not know it; by default all. A default may be a `Field` of pydantic."""
    from pydantic import ConfigDict, Field, PydanticUserError, create_model
    from pydantic.fields import FieldInfo

    fields: dict[str, Any] = {}  # under names of our own, for pydantic takes `model_config` or `_city` for its own
    for number, (name, one) in enumerate(arguments.items()):
        told: Any = {"description": one.description} if one.description else {}
        if one.required or not (isinstance(one.default, FieldInfo) and one.default.alias):
            told["alias"] = name
        default = ... if one.required else _prepare_default(one.default)
        fields[f"field_{number}"] = (Annotated[one.type, Field(**told)], default)
    try:
        with warnings.catch_warnings(action="ignore"):  # a default may not be JSON
            model = create_model(tool, __config__=ConfigDict(extra="forbid"), **fields)
            schema = _clean(model.model_json_schema())
    except (PydanticUserError, NameError, TypeError, ValueError) as error:
        why = error.message if isinstance(error, PydanticUserError) else error
        raise UsageError(f"tool {tool}: a model cannot pass its parameters: {why}") from error
    names = dict(zip(fields, arguments, strict=True))
    always = {field for field, name in names.items() if passed is None or name in passed}
    nullable = [name for name, one in arguments.items() if not one.required and one.default is None]
    return Signature(schema, _find_text_argument(schema), partial(_check_values, model, names, always, nullable))


def _prepare_default(default: Any) -> Any:
    """Return a default for pydantic, which copies it and tells the model; one that JSON lacks is neither."""
    from pydantic import Field
    from pydantic.fields import FieldInfo
    from pydantic_core import to_jsonable_python

    if not isinstance(default, FieldInfo | str | int | float | None):
        try:
            to_jsonable_python(deepcopy(default))
        except Exception:  # of the value's own methods, too
            return Field(default_factory=lambda: default)
    return default


def _check_values(
    model: type[BaseModel],
    names: Mapping[str, str],
    passed: Collection[str],
    nullable: Sequence[str],
    values: dict[str, Any],
) -> dict[str, Any]:
    from pydantic import ValidationError

    if absent := [name for name in nullable if name in values and values[name] is None]:
        values = {name: value for name, value in values.items() if name not in absent}
    try:
        try:
            checked = model.model_validate(values)
        except ValidationError as error:
            if (read := _read_texts(values, [str(one["loc"][0]) for one in error.errors() if one["loc"]])) is None:
                raise
            checked = model.model_validate(read)
        given = checked.model_fields_set.union(passed)
        arguments = {names[field]: value for field, value in checked.__dict__.items() if field in given}
        for name in arguments.keys() & values.keys():
            if isinstance(arguments[name], Iterator):  # pydantic checks an `Iterable` while it is read, once
                arguments[name] = list(arguments[name])
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, e['loc'])) or 'input'}: {e['msg']}" for e in error.errors()]
        raise InvalidInput("; ".join(problems)) from error
    return arguments


def build_schema_signature(schema: Mapping[str, Any]) -> Signature:
    """Return the signature of a tool from a JSON Schema of type `object` without references."""
    errors_in = make_validator(schema)

    def checked(values: dict[str, Any]) -> dict[str, Any]:
        try:
            errors = sorted(errors_in(values), key=lambda error: error.json_path)
            read = _read_texts(values, [re.split(r"[.\[]", one.json_path[2:])[0] for one in errors])
            if read is not None and not errors_in(read):
                return read
        except TooMuch as error:
            raise InvalidInput("it takes too long to hold this against the tool's schema; want less") from error
        if errors:
            problems = [f"{error.json_path[2:] or 'input'}: {error.message:.200}" for error in errors[:5]]
            raise InvalidInput("; ".join(problems))
        return values

    return Signature(schema, _find_text_argument(schema), checked)


def _read_texts(values: dict[str, Any], wrong: Iterable[str]) -> dict[str, Any] | None:
    """Return `values` with those of the `wrong` ones as lists or objects that are written as JSON, if there are any."""
    read = dict(values)
    for name in wrong:
        if isinstance(text := values.get(name), str) and text.strip()[:1] in ("[", "{"):
            with suppress(ValueError, RecursionError):
                read[name] = json.loads(text)
    return read if any(read[name] is not values[name] for name in read) else None


def _find_text_argument(parameters: Mapping[str, Any]) -> str | None:
    properties = parameters.get("properties", {})
    if len(properties) != 1 or list(properties) != list(parameters.get("required") or properties):
        return None
    ((name, field),) = properties.items()
    kinds = [one.get("type") for one in field.get("anyOf", [field]) if not {"enum", "const"} & set(one)]
    return name if kinds in (["string"], ["string", "null"]) else None


def _clean(schema: Any) -> Any:
    """Remove the titles that pydantic gives every field, which only repeat the name, and defaults that JSON lacks."""
    if isinstance(schema, list):
        return [_clean(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    cleaned: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            cleaned[key] = {name: _clean(inner) for name, inner in value.items()}
        elif key in ("default", "examples", "enum", "const"):
            with suppress(TypeError, ValueError, RecursionError):
                json.dumps(value, allow_nan=False)  # JSON has no infinity
                cleaned[key] = value
        elif key != "title":
            cleaned[key] = _clean(value)
    return cleaned


# ── what a function says of itself ─────────────────────────────────────────────────────────────────


def list_parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the parameters that a model sets, by name. Raises `UsageError` if it cannot set one."""
    name = _name(function)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise UsageError(f"tool {name}: it has no readable signature; wrap it in a function") from error
    fixed = function.keywords if isinstance(function, partial) else {}
    found: dict[str, inspect.Parameter] = {}
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            raise UsageError(f"tool {name}: a model passes arguments by name, so '{parameter}' is not supported")
        if parameter.kind is parameter.VAR_KEYWORD and "Unpack[" in str(parameter.annotation):
            raise UsageError(f"tool {name}: '{parameter}' hides its arguments from a model; write them as parameters")
        if parameter.kind is not parameter.VAR_KEYWORD and parameter.name not in fixed:
            found[parameter.name] = parameter
    found.pop(find_context_parameter(function), None)
    return found


def find_context_parameter(function: Callable[..., Any]) -> str:
    """Return the name of the parameter that is annotated as a `RunContext`; empty if there is none. Raises `UsageError`
    if there are two."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ""
    fixed = function.keywords if isinstance(function, partial) else {}
    found = [one.name for one in parameters if one.name not in fixed and _takes_context(one, function)]
    if len(found) > 1:
        raise UsageError(f"tool {_name(function)}: {' and '.join(found)} both take the run's context; want one of them")
    return found[0] if found else ""


def _takes_context(parameter: inspect.Parameter, function: Callable[..., Any]) -> bool:
    hint = parameter.annotation
    if isinstance(hint, str):
        if _CONTEXT.fullmatch(hint):  # also where its argument is a type that only type checkers import
            return True
        try:
            hint = _resolve_hints(function, _find_hinted(function, [parameter.name]), {parameter.name: hint})
        except UsageError:  # said when the others are read
            return False
        hint = hint.get(parameter.name)
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    optional = get_origin(hint) in (Union, UnionType) and NoneType in get_args(hint)
    return any(RunContext in (one, get_origin(one)) for one in (get_args(hint) if optional else [hint]))


def _read_hints(function: Callable[..., Any], parameters: Collection[str]) -> dict[str, Any]:
    """Return the type hints of `parameters`; what is returned may be unknown, as under `TYPE_CHECKING`."""
    source = _find_hinted(function, parameters)
    wanted = {name: hint for name, hint in getattr(source, "__annotations__", {}).items() if name in parameters}
    return _resolve_hints(function, source, wanted) if wanted or isinstance(source, type) else {}


def _find_hinted(function: Callable[..., Any], parameters: Collection[str]) -> Any:
    """Return what has the type hints of `parameters`: the function, or the method by which an object is called."""
    source = find_documented_function(function)
    if isinstance(source, type):
        makers: tuple[Any, ...] = (source.__init__, source.__new__)  # type: ignore[misc]
        if hasattr(source, "__signature__") or hasattr(source, "_fields"):  # a model of pydantic, a named tuple
            makers = ()
        hinted = (one for one in makers if getattr(one, "__annotations__", {}).keys() & set(parameters))
        return next(hinted, source)
    return source if hasattr(source, "__annotations__") else type(source).__call__  # a callable object


def _resolve_hints(function: Callable[..., Any], source: Any, wanted: Mapping[str, Any]) -> dict[str, Any]:
    within: Any = inspect.unwrap(getattr(source, "__func__", source))
    local = {**_find_names_around(within), **{str(one): one for one in getattr(within, "__type_params__", ())}}
    try:
        if isinstance(source, type):  # whose hints may be inherited, from other modules
            return get_type_hints(source, None, local, include_extras=True)
        known = getattr(within, "__globals__", {})
        return get_type_hints(SimpleNamespace(__annotations__=wanted), known, local, include_extras=True)
    except NameError as error:
        raise UsageError(f"tool {_name(function)}: its type hints refer to unknown names: {error}") from error
    except (SyntaxError, TypeError) as error:
        raise UsageError(f"tool {_name(function)}: its type hints cannot be read: {error}") from error


def _find_names_around(function: Any) -> Mapping[str, Any]:
    """Return the variables around a function defined in another one that is still running."""
    around, _, _ = getattr(function, "__qualname__", "").rpartition(".<locals>.")
    frame = inspect.currentframe() if around else None
    while frame is not None:
        if frame.f_code.co_qualname == around and frame.f_globals.get("__name__") == function.__module__:
            return dict(frame.f_locals)
        frame = frame.f_back
    return {}


def needs_names_around(function: Any) -> bool:
    """Return whether the hints of a function refer to what is known only while the function around it runs."""
    if not inspect.isfunction(function) or "<locals>" not in function.__qualname__:
        return False
    try:
        get_type_hints(function)
    except Exception:
        return True
    return False


def find_method_owner(function: Any) -> str:
    """Return the name of the class in whose body a function with `self` or `cls` was defined; empty for others."""
    function = inspect.unwrap(function) if inspect.isfunction(function) else None
    if not inspect.isfunction(function):  # or one that stands for a method of a built-in type, as `str.strip`
        return ""
    owner = function.__qualname__.rpartition(".<locals>.")[2].rpartition(".")[0]
    return owner if owner and next(iter(inspect.signature(function).parameters), "") in ("self", "cls") else ""


def find_documented_function(function: Any) -> Any:
    """Return the function whose name, hints and docstring count: of a `partial`, the one that it calls."""
    while isinstance(function, partial):
        function = function.func
    return function


def _name(function: Callable[..., Any]) -> str:
    found = find_documented_function(function)
    return str(getattr(found, "__name__", type(found).__name__))


def summarize_docstring(function: Callable[..., Any]) -> str:
    """Return the first paragraph of the docstring as one line; of an agent's, its name and its tools instead."""
    agent: Any = getattr(function, "__self__", None)
    if hasattr(agent, "run_spec"):
        tools = ", ".join(tool.name for tool in agent.tools)
        return f"Asks the agent {agent.name}{f', whose tools are: {tools}' if tools else ''}."
    return " ".join((inspect.getdoc(find_documented_function(function)) or "").partition("\n\n")[0].split())


def parse_descriptions(function: Callable[..., Any]) -> dict[str, str]:
    """Return the parameters' descriptions from a Google, NumPy or reST docstring."""
    doc = inspect.getdoc(find_documented_function(function))
    if not doc:
        return {}
    from docstring_parser import parse

    return {found.arg_name: found.description or "" for found in parse(doc).params}


def _read_description(hint: Any, field: Any) -> str:
    """Return what a parameter's `field`, or a `Field`, a text or a `Doc` in its annotation, says."""
    for one in (field, *reversed(get_args(hint)[1:] if get_origin(hint) is Annotated else ())):
        said = one if isinstance(one, str) else getattr(one, "description", None) or getattr(one, "documentation", None)
        if isinstance(said, str):
            return said
    return ""


def read_exceptions(said: tuple[type[BaseException], ...] | str) -> tuple[type[BaseException], ...]:
    """Return the exceptions of a tool's `not_done`; built-in ones and `ToolError` may be given by name. Raises
    `ValueError`."""
    given: Any = said if isinstance(said, tuple | str) else (said,)
    if isinstance(given, str):
        names = filter(None, map(str.strip, given.split(",")))
        given = tuple(ToolError if name == "ToolError" else getattr(builtins, name, name) for name in names)
    for one in given:
        if not (isinstance(one, type) and issubclass(one, BaseException)):
            raise ValueError(f"want exceptions, such as (ValueError,) or 'ValueError, KeyError', not {one!r:.80}")
    return tuple(given)
