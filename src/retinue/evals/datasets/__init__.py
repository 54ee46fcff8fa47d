"""Datasets by their formats: Retinue's own, and published ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from ..questions import Dataset
from .published import open_bfcl, open_fever, open_hotpotqa
from .question_file import open_folder

FORMATS: Mapping[str, Callable[[Path], Dataset]] = {
    "bfcl": open_bfcl,
    "fever": open_fever,
    "hotpotqa": open_hotpotqa,
}


def open_dataset(said: str) -> Dataset:
    """Return the dataset that `PATH` (Retinue's own format) or `FORMAT:PATH` names. Raises `DataError`."""
    name, colon, rest = said.partition(":")
    if colon and name in FORMATS:
        return FORMATS[name](Path(rest).expanduser())
    return open_folder(Path(said).expanduser())
