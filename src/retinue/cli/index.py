"""`retinue index` and `retinue search`: make a folder's files searchable, and search them."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from ..display.terminal import clean
from ..documents import DocumentStore
from ..documents.embedding import MiniLM
from ..documents.folder_index import STORE
from ..errors import DataError, UsageError
from .option_types import FOLDER, PATH
from .output import Progress


@click.command("index")
@click.argument("folder", type=FOLDER)
@click.option("--store", type=PATH, help="Where to store it.  [default: FOLDER/.retinue/documents.sqlite]")
@click.option("--size", default=1_000, show_default=True, type=click.IntRange(1), help="Maximum characters per piece.")
@click.option("--vectors", is_flag=True, help="Also search by meaning (`retinue models pull minilm`).")
def command(folder: Path, store: Path | None, size: int, vectors: bool) -> int:
    """Index the files under FOLDER (HTML, PDF, Word, Excel, PowerPoint, Markdown, text) for a Retriever.

    Running it again reads only what has changed. Hidden files and links are skipped.
    """
    from ..documents import index_folder

    place = store or folder / STORE
    if store is None:
        try:
            place.parent.mkdir(exist_ok=True)
        except OSError as error:
            raise UsageError(f"{place.parent}: {error.strerror}; say with --store where to keep the index") from error
    logging.getLogger("pypdf").addHandler(logging.NullHandler())  # problems with files are reported at the end
    with DocumentStore(place) as kept:
        with Progress(patience=1.0) as progress:
            done = index_folder(
                folder,
                kept,
                size=size,
                embedder=MiniLM() if vectors else None,
                report=lambda path, at, of: progress.show(f"indexing {clean(path)}", at, of, "files"),
            )
        click.echo(
            f"{done.new} new, {done.changed} changed, {done.removed} removed, {done.unchanged} unchanged files; "
            f"{len(kept):,} passages in {place}"
        )
    for problem in done.problems:
        click.echo(f"not indexed: {clean(problem)}", err=True)
    return 0


@click.command("search")
@click.argument("store", type=click.Path(path_type=Path, exists=True))
@click.argument("query")
@click.option("--top-k", default=5, show_default=True, type=click.IntRange(1), help="Maximum number of results.")
@click.option("--vectors", is_flag=True, help="Also by meaning, if it was indexed with --vectors.")
def search(store: Path, query: str, top_k: int, *, vectors: bool) -> int:
    """Show the passages of STORE (or of an indexed folder) that best match QUERY. The exit status is 1 if none does."""
    from ..documents.retrieval import retrieve
    from ..tools.passages import shorten_to_excerpt

    place = store / STORE if store.is_dir() else store
    if not place.is_file():
        raise DataError(f"{store} is not indexed; see `retinue index`")
    embedder = MiniLM() if vectors else None
    with DocumentStore(place) as kept:
        found = retrieve(kept, query, mode="hybrid" if vectors else "keyword", top_k=top_k, embedder=embedder)
    for document in found:
        click.echo(f"{click.style(clean(document.id), bold=True)}  {document.score or 0:.2f}")
        click.echo(f"  {clean(shorten_to_excerpt(document.content, query, 300))}")
    return 0 if found else 1
