"""Types of options that several commands have: paths, rates, durations and numbers by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


class Parsed(click.ParamType):  # type: ignore[type-arg] # newer versions of click have some
    """What `parse` makes of a text; its `ValueError` is told to the user."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name, self._parse = name, parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value of an option."""
        try:
            return self._parse(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)


def parse_rate(text: str) -> int:
    """Read a number per minute. Raises `ValueError`."""
    said = re.fullmatch(r"(\d{1,12})(/min)?", text)
    if not said or not int(said[1]):
        raise ValueError(f"{text!r} is not a number per minute, such as 100/min")
    return int(said[1])


def _parse_span(text: str) -> int:
    said = re.fullmatch(r"(\d{1,9})([smhdw])", text)
    if not said or not int(said[1]):
        raise ValueError(f"{text!r} is not a duration, such as 90m, 12h, 30d or 8w")
    return int(said[1]) * _SECONDS[said[2]]


def _parse_count(text: str) -> tuple[str, int]:
    name, _, number = text.rpartition("=")
    if not name or not number.isascii() or not number.isdigit() or not 0 < int(number) < 10**9:
        raise ValueError(f"{text!r} is not a name and a number, such as researcher=5")
    return name, int(number)


def _parse_target(text: str) -> Any:
    from ..config.agent_code import Target  # imported here because few commands need it

    return Target.parse(text)


PATH = click.Path(path_type=Path)
AGENTS = Parsed("FILE", _parse_target)  # a `Target`: a file of agents, or Python code
FOLDER = click.Path(exists=True, path_type=Path, file_okay=False)
NEW_FOLDER = click.Path(path_type=Path, file_okay=False)
PER_MINUTE = Parsed("N/min", parse_rate)
COUNTED = Parsed("NAME=N", _parse_count)  # a name and a number
SPAN = Parsed("SPAN", _parse_span)  # in seconds
