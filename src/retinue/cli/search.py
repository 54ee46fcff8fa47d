"""`retinue search`: searches a document store."""

from __future__ import annotations

from pathlib import Path

import click

from ..display.terminal import clean
from ..documents import DocumentStore
from ..documents.embedding import MiniLM
from ..documents.folder_index import STORE
from ..documents.retrieval import retrieve
from ..errors import DataError
from ..tools.passages import shorten_to_excerpt


@click.command("search")
@click.argument("store", type=click.Path(path_type=Path, exists=True))
@click.argument("query")
@click.option("--top-k", default=5, show_default=True, type=click.IntRange(1), help="Maximum number of results.")
@click.option("--vectors", is_flag=True, help="Also by meaning, if it was indexed with --vectors.")
def command(store: Path, query: str, top_k: int, *, vectors: bool) -> int:
    """Show the passages of STORE (or of an indexed folder) that best match QUERY. The exit status is 1 if none does."""
    place = store / STORE if store.is_dir() else store
    if not place.is_file():
        raise DataError(f"{store} is not indexed; see `retinue index`")
    with DocumentStore(place) as kept:
        found = (
            retrieve(kept, query, mode="hybrid", top_k=top_k, embedder=MiniLM())
            if vectors
            else kept.keyword(query, top_k)
        )
    for document in found:
        click.echo(f"{click.style(clean(document.id), bold=True)}  {document.score or 0:.2f}")
        click.echo(f"  {clean(shorten_to_excerpt(document.content, query, 300))}")
    return 0 if found else 1
