"""Names of a package that are imported on first use."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from sys import modules
from typing import Any


def lazy_names(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return the `__getattr__`, the `__dir__` and the `__all__` of `package`, whose source is in `file`.

    Its names are written once, for type checkers and for this: `from .module import name as name` under
    `if TYPE_CHECKING:`.
    """
    homes = dict(_list_lazy_names(Path(file).read_text("utf-8")))
    names = sorted(homes)

    def import_name(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name], package), name)
        setattr(modules[package], name, value)
        return value

    return import_name, lambda: sorted({*vars(modules[package]), *names}), names


def _list_lazy_names(source: str) -> Iterator[tuple[str, str]]:
    """Yield the names that a module imports for type checkers, each with its home."""
    blocks = [one for one in ast.parse(source).body if isinstance(one, ast.If)]
    lines = [line for one in blocks if ast.unparse(one.test) == "TYPE_CHECKING" for line in one.body]
    for line in lines:
        if isinstance(line, ast.ImportFrom) and line.level:
            yield from ((one.name, f"{'.' * line.level}{line.module or ''}") for one in line.names)
