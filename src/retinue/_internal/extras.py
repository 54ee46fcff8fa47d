"""Optional dependencies: the extras with which Retinue is installed."""

from __future__ import annotations

from importlib.util import find_spec

from ..errors import UsageError


def check_extra(what: str, extra: str, *modules: str) -> None:
    """Raise `UsageError`, which says that `what` needs the extra, unless its `modules` are installed."""
    if any(find_spec(module) is None for module in modules):
        raise UsageError(f"{what} needs the extra '{extra}': pip install 'retinue[{extra}]'")
