"""Checks values against type hints."""

from __future__ import annotations

import re
import types
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin, is_typeddict

Misfit = tuple[tuple[Any, ...], Any]  # location within the value, and what was found there


def describe_mismatch(value: Any, hint: Any) -> str:
    """Describe what `value` should be and where it differs; empty if it fits `hint`.

    Nothing is converted. Whatever cannot be checked (a protocol, an iterator's items) fits.
    """
    misfit = _find_misfit(value, hint)
    if misfit is None:
        return ""
    path, found = misfit
    place = f" (at {'.'.join(map(str, path))})" if path else ""
    plain = isinstance(hint, type) and not get_args(hint)
    wanted = hint.__name__ if plain else re.sub(r"(\w+\.)+(<locals>\.)?", "", str(hint))
    return f"must be {wanted}, not {describe_value(found)}{place}"


def describe_value(value: Any) -> str:
    """Describe a value for an error message by its type and beginning."""
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '…'}"


def _find_misfit(value: Any, hint: Any) -> Misfit | None:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _find_misfit(value, inner[0])
    if origin in (Union, types.UnionType):
        misfits = [_find_misfit(value, option) for option in inner]
        return None if None in misfits else max((one for one in misfits if one), key=lambda misfit: len(misfit[0]))
    if origin is None or origin is Literal:
        fits = _is_instance(value, hint) if origin is None else value in inner
        return None if fits else ((), value)
    if not isinstance(origin, type):
        return None
    if not isinstance(value, origin):
        return (), value
    for place, item, wanted in _list_items(value, origin, inner):
        if (misfit := _find_misfit(item, wanted)) is not None:
            return (place, *misfit[0]), misfit[1]
    return None


def _list_items(value: Any, origin: type, inner: tuple[Any, ...]) -> Iterator[tuple[Any, Any, Any]]:
    """Yield the items of a collection: location, value and hint."""
    if issubclass(origin, Mapping):
        for key in value:
            yield key, key, inner[0]
            yield key, value[key], inner[1]
    elif issubclass(origin, tuple) and inner[-1:] != (...,):
        for at, hint in enumerate(inner):
            yield at, value[at] if at < len(value) else None, hint
    elif issubclass(origin, Collection):
        for at, item in enumerate(value):
            yield at, item, inner[0]


def _is_instance(value: Any, hint: Any) -> bool:
    if hint is None or is_typeddict(hint):
        return value is None if hint is None else isinstance(value, dict)
    if not isinstance(hint, type) or hint is object:
        return True
    try:
        return isinstance(value, hint) or (hint is float and isinstance(value, int))
    except TypeError:  # a Protocol that cannot be checked at run time
        return True
