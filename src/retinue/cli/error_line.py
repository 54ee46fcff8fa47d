"""How the command tells an error: one line on standard error."""

from __future__ import annotations

import click

from .._internal.redaction import redact


def show_error(message: str) -> int:
    """Print an error, without secrets, and return the exit status for it."""
    click.echo(f"{click.style('retinue:', fg='red', bold=True)} {redact(message)}", err=True)
    return 2
