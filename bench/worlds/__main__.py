"""`python -m bench.worlds --split dev --out data/worlds/dev`: the same files each time."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import click

from .collection import write
from .splits import Split


@click.command()
@click.option("--split", type=click.Choice(get_args(Split)), required=True)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True)
def main(split: Split, out: Path) -> None:
    """Write the passages and questions of a split into the folder OUT."""
    write(split, out)


if __name__ == "__main__":
    main()
