"""`retinue index`: makes a folder searchable for agents."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from ..display.terminal import clean
from ..documents import DocumentStore, index_folder
from ..documents.embedding import MiniLM
from ..documents.folder_index import STORE
from ..errors import UsageError
from .progress_line import Progress


@click.command("index")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--store", type=click.Path(path_type=Path), help="Where to store it.  [default: FOLDER/.retinue/documents.sqlite]"
)
@click.option("--size", default=1_000, show_default=True, type=click.IntRange(1), help="Maximum characters per piece.")
@click.option("--vectors", is_flag=True, help="Also search by meaning (`retinue models pull minilm`).")
def command(folder: Path, store: Path | None, size: int, vectors: bool) -> int:
    """Index the files under FOLDER (HTML, PDF, Word, Excel, PowerPoint, Markdown, text) for a Retriever.

    Running it again reads only what has changed. Hidden files and links are skipped.
    """
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
