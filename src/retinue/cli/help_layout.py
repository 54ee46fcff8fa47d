"""The layout of `--help`: in a narrow terminal, nothing is wider than it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable

import click

_USUAL = 50  # columns, below which click's own layout does not go
_LEAST = 24


class HelpLayout(click.HelpFormatter):
    """Click's layout, for narrow terminals too."""

    def __init__(self, indent_increment: int = 2, width: int | None = None, max_width: int | None = None) -> None:
        columns = shutil.get_terminal_size().columns - 2
        narrow = max(columns, _LEAST) if columns < _USUAL else None
        super().__init__(indent_increment, width or narrow, max_width)

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write names and what they mean side by side; a name that is too long has a line of its own."""
        super().write_dl(list(rows), col_max if self.width >= _USUAL else self.width // 4, col_spacing)


class HelpContext(click.Context):
    """A command's context, with this layout."""

    formatter_class = HelpLayout
