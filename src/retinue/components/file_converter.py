"""`FileConverter`: the first step of an indexing pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from ..core.component import Component
from ..core.values import Document
from ..documents.file_documents import document_of
from ..errors import DataError, UsageError


class ConvertedFiles(TypedDict):
    """`documents`, one for each readable file, and `problems`, one line for each other file."""

    documents: list[Document]
    problems: list[str]


class FileConverter(Component):
    """Converts files (HTML, PDF, Markdown, plain text) to documents with `path` and `title` in `meta`.

    With a `folder`, only files in it are read, and paths are relative to it. Use this if a model, or anyone else who
    may not see all files, chooses the paths.
    """

    effects = "read"

    def __init__(self, folder: str | Path | None = None, *, name: str = "FileConverter") -> None:
        self.name = name
        self.folder = None if folder is None else Path(folder).expanduser()

    def run(self, file_paths: Sequence[str | Path] | str) -> ConvertedFiles:
        """Read a file of the folder.

        A path alone, as a model gives it, is read only if there is a `folder`. Raises `UsageError`.
        """
        if isinstance(file_paths, str) and self.folder is None:
            raise UsageError(f"{self.name}: want a list of paths; a single path from a model requires a folder")
        documents, problems = [], []
        for path in [file_paths] if isinstance(file_paths, str) else file_paths:
            try:
                documents.append(document_of(path, self.folder))
            except DataError as error:
                problems.append(str(error))
        return {"documents": documents, "problems": problems}
