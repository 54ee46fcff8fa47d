"""Option types shared by several commands: rates, durations and numbers by name."""

from __future__ import annotations

import re
from typing import Any

import click

_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


class _PerMinute(click.ParamType):  # type: ignore[type-arg] # newer versions of click have some
    name = "N/min"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        said = re.fullmatch(r"(\d{1,12})(/min)?", str(value))
        if not said or not int(said[1]):
            self.fail(f"{value!r} is not a number per minute, such as 100/min", param, ctx)
        return int(said[1])


class _Span(click.ParamType):  # type: ignore[type-arg] # newer versions of click have some
    name = "SPAN"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        said = re.fullmatch(r"(\d{1,9})([smhdw])", str(value))
        if not said or not int(said[1]):
            self.fail(f"{value!r} is not a duration, such as 90m, 12h, 30d or 8w", param, ctx)
        return int(said[1]) * _SECONDS[said[2]]


class _Counted(click.ParamType):  # type: ignore[type-arg] # newer versions of click have some
    name = "NAME=N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        name, _, number = str(value).rpartition("=")
        if not name or not number.isascii() or not number.isdigit() or not 0 < int(number) < 10**9:
            self.fail(f"{value!r} is not a name and a number, such as researcher=5", param, ctx)
        return name, int(number)


PER_MINUTE = _PerMinute()
COUNTED = _Counted()  # a name and a number
SPAN = _Span()  # in seconds
