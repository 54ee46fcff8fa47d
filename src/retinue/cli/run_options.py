"""Options of the commands that show runs: how much of them, and what is logged meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import click

from .._internal.log_lines import TextLines
from ..core.log_context import ContextFilter

Command = TypeVar("Command", bound=Callable[..., Any])
_LEVELS = ("debug", "info", "warning", "error")
JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print the events as JSON lines and nothing else.")
VERBOSE_OPTION = click.option("-v", "--verbose", is_flag=True, help="Show prompts and replies word for word.")


def log_option(command: Command) -> Command:
    """Add `--log-level`."""
    return click.option(
        "--log-level",
        type=click.Choice(_LEVELS),
        envvar="RETINUE_LOG",
        show_envvar=True,
        expose_value=False,
        callback=_set_level,
        help="Log to standard error, with run and step ids.",
    )(command)


def _set_level(context: click.Context, option: click.Parameter, level: str | None) -> None:
    """Log from this level on. Without one, warnings are shown as messages."""
    if level is None:
        return
    handler = _AboveTheTree()
    handler.setFormatter(TextLines())
    handler.addFilter(ContextFilter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("retinue").setLevel(level.upper())


class _AboveTheTree(logging.Handler):
    """Writes records to standard error, where they do not disturb what shows a run."""

    def emit(self, record: logging.LogRecord) -> None:
        from ..display.run_display import write_aside

        try:
            write_aside(f"{self.format(record)}\n")
        except Exception:
            self.handleError(record)
