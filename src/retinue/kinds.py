"""Whether a value is what a type hint says."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, is_typeddict

if TYPE_CHECKING:
    from pydantic import TypeAdapter


def mismatch(value: Any, hint: Any) -> str:
    """What `value` is and should be, if it does not fit `hint`; empty if it does. Nothing is converted."""
    if hint is Any or hint is object:
        return ""
    if isinstance(hint, type) and not is_typeddict(hint) and not hasattr(hint, "__origin__"):
        try:
            fits = isinstance(value, hint) or (hint is float and isinstance(value, int))
        except TypeError:  # a Protocol that cannot be checked at run time
            return ""
        return "" if fits else f"must be {hint.__name__}, not {shown(value)}"
    try:
        adapter = _adapter(hint)
    except TypeError:  # a hint that cannot be hashed
        return ""
    return "" if adapter is None else _wrong(adapter, value, hint)


def shown(value: Any) -> str:
    """A value for an error message: its type, and the beginning of it."""
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '…'}"


def _wrong(adapter: TypeAdapter[Any], value: Any, hint: Any) -> str:
    from pydantic import ValidationError

    try:
        adapter.validate_python(value, strict=True)
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(str(part) for part in problem["loc"] if isinstance(part, int))
        inner = problem["input"] if place else value
        return f"must be {_name(hint)}, not {shown(inner)}" + (f" (at {place})" if place else "")
    return ""


@cache
def _adapter(hint: Any) -> TypeAdapter[Any] | None:
    from pydantic import ConfigDict, PydanticUserError, TypeAdapter
    from pydantic.errors import PydanticSchemaGenerationError

    try:
        return TypeAdapter(hint, config=ConfigDict(arbitrary_types_allowed=True))
    except PydanticSchemaGenerationError:
        return None
    except PydanticUserError:  # a type with a configuration of its own
        try:
            return TypeAdapter(hint)
        except (PydanticUserError, PydanticSchemaGenerationError):
            return None


def _name(hint: Any) -> str:
    return str(hint).replace("typing.", "").replace("retinue.schema.", "")
