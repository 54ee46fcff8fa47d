"""What an object is, as JSON: a strategy or a model with its settings, to be compared and read."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass
from functools import partial
from importlib.resources import files
from pathlib import PurePath
from typing import Any

from ..strategies.auto import Auto
from ..strategies.react import React

_PACKAGE = "retinue.strategies"


def described(something: Any) -> Any:
    """Return JSON that says what an object is: the type and fields of a dataclass, what an object was made with
    (`given`), and the qualified names of functions and of anything else. Secrets are not removed."""
    if something is None or isinstance(something, bool | int | float | str):
        return something
    if isinstance(something, PurePath):
        return str(something)
    if isinstance(something, Mapping):
        return {str(key): described(one) for key, one in something.items()}
    if isinstance(something, list | tuple):
        return [described(one) for one in something]
    if isinstance(something, Set):
        return sorted(map(str, something))
    if isinstance(something, partial):
        return {"type": "partial", "function": described(something.func), "args": described(something.args)}
    if inspect.isroutine(something) or isinstance(something, type):
        return f"{something.__module__}.{something.__qualname__}"
    return _object(something)


def _object(something: Any) -> dict[str, Any]:
    kind = type(something)
    about: dict[str, Any] = {"type": f"{kind.__module__}.{kind.__qualname__}"}
    if isinstance(given := getattr(something, "given", None), Mapping):
        return about | {"settings": {key: described(one) for key, one in given.items() if one is not None}}
    if isinstance(name := getattr(something, "name", None), str):
        about["name"] = name
    if is_dataclass(something):
        about |= {one.name: described(getattr(something, one.name)) for one in fields(something)}
    if isinstance(something, Auto):
        about["otherwise"] = described(React())
    return about | _template(kind)


def _template(kind: type) -> dict[str, str]:
    """Return the built-in prompt of a strategy, which stands beside its module."""
    package, _, module = kind.__module__.rpartition(".")
    if package != _PACKAGE or not (file := files(_PACKAGE).joinpath(f"{module}.txt")).is_file():
        return {}
    return {"template": file.read_text(encoding="utf-8")}
