"""The text of office files: Word (DOCX), Excel (XLSX) and PowerPoint (PPTX) documents, which are ZIP files of XML."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Iterator
from datetime import datetime, time
from typing import Any

from ..errors import DataError

_OFFICE = "application/vnd.openxmlformats-officedocument."
DOCX = f"{_OFFICE}wordprocessingml.document"
XLSX = f"{_OFFICE}spreadsheetml.sheet"
PPTX = f"{_OFFICE}presentationml.presentation"
MAX_UNPACKED = 200_000_000  # bytes


def office_text(data: bytes, kind: str) -> tuple[str, str]:
    """Return the text and the title in `data`; rows of a table are lines, with ` | ` between cells. Raises
    `DataError`."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            size = sum(one.file_size for one in packed.infolist())
        if size > MAX_UNPACKED:
            raise DataError(f"it unpacks to {size / 1e6:,.0f} MB; the most is {MAX_UNPACKED / 1e6:,.0f}")
        blocks, title = _READERS[kind](io.BytesIO(data))
        return "\n\n".join(block for block in blocks if block.strip()), title
    except DataError:
        raise
    except Exception as error:  # on broken files the readers raise arbitrary exceptions
        raise DataError(f"this file cannot be read: {type(error).__name__}: {error}") from error


def _word(file: io.BytesIO) -> tuple[list[str], str]:
    from docx import Document
    from docx.table import Table

    document = Document(file)
    blocks = [
        _rows([cell.text for cell in row.cells] for row in one.rows) if isinstance(one, Table) else one.text
        for one in document.iter_inner_content()
    ]
    return blocks, document.core_properties.title or ""


def _excel(file: io.BytesIO) -> tuple[list[str], str]:
    from openpyxl import load_workbook

    book = load_workbook(file, read_only=True, data_only=True)
    try:
        sheets = [f"{sheet.title}\n{_rows(sheet.iter_rows(values_only=True))}" for sheet in book.worksheets]
        return sheets, book.properties.title or ""
    finally:
        book.close()


def _slides(file: io.BytesIO) -> tuple[list[str], str]:
    from pptx import Presentation

    deck = Presentation(file)
    slides = []
    for slide in deck.slides:
        notes = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
        slides.append("\n".join([*_shape_texts(slide.shapes), *([notes.text] if notes else [])]))
    return slides, deck.core_properties.title or ""


def _shape_texts(shapes: Iterable[Any]) -> Iterator[str]:
    for shape in shapes:
        if shape.has_text_frame:
            yield shape.text_frame.text
        elif getattr(shape, "has_table", False):
            yield _rows([cell.text for cell in row.cells] for row in shape.table.rows)
        elif hasattr(shape, "shapes"):  # a group
            yield from _shape_texts(shape.shapes)


def _rows(rows: Iterable[Iterable[Any]]) -> str:
    lines = (" | ".join(_cell_text(cell) for cell in row) for row in rows)
    return "\n".join(line.rstrip(" |") for line in lines if line.strip(" |"))


def _cell_text(value: Any) -> str:
    if isinstance(value, datetime) and value.time() == time.min:  # a date, as Excel keeps it
        value = value.date()
    return "" if value is None else " ".join(str(value).split())


_READERS = {DOCX: _word, XLSX: _excel, PPTX: _slides}
MODULES = {DOCX: "docx", XLSX: "openpyxl", PPTX: "pptx"}
