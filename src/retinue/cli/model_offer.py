"""Offers to fetch the embedded model where a person is there to say yes."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import click

from ..display.terminal import is_seen
from ..models import weights
from .progress_line import Progress


def offer_embedded_model() -> None:
    """Fetch the embedded model if it is missing and the person at the terminal agrees.

    Without a terminal, or without the extra `local`, it does nothing: the engine then says what is missing.
    """
    model = weights.EMBEDDED
    if model.path.exists() or find_spec("xllamacpp") is None or not (is_seen(sys.stdin) and is_seen(sys.stderr)):
        return
    click.echo("The embedded model is not here yet. It answers on this machine, without a key.", err=True)
    if click.confirm(f"Fetch it now ({(model.size or 0) / 1e9:.1f} GB, once)?", default=True, err=True):
        with Progress() as progress:
            weights.pull(model, None, progress.show)
