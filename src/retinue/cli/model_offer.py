"""Offers to fetch the embedded model where a person is there to say yes."""

from __future__ import annotations

import sys

import click

from ..display.terminal import is_seen
from ..models import weights
from .progress_line import Progress


def offer_embedded_model() -> None:
    """Fetch the embedded model if it is missing and the person at the terminal agrees.

    Without a terminal it does nothing: the engine then says what is missing. Raises `UsageError` if the engine cannot
    be loaded, for which there is no use in a model.
    """
    model = weights.EMBEDDED
    if model.path.exists() or not (is_seen(sys.stdin) and is_seen(sys.stderr)):
        return
    from ..models.local import load_engine  # for this question alone

    load_engine()
    click.echo("The embedded model is not here yet. It answers on this machine, without a key.", err=True)
    if click.confirm(f"Fetch it now ({(model.size or 0) / 1e9:.1f} GB, once)?", default=True, err=True):
        with Progress() as progress:
            weights.pull(model, None, progress.show)
