"""Text extraction from files and pages: HTML, PDF, Word, Excel, PowerPoint, Markdown, CSV, plain text."""

from __future__ import annotations

import datetime
import io
import json
import math
import os
import re
import sys
import time
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import PurePath
from typing import Any
from urllib.parse import urljoin

from .._internal.extras import check_extra
from ..errors import DataError, UsageError

_OFFICE = "application/vnd.openxmlformats-officedocument."
DOCX = f"{_OFFICE}wordprocessingml.document"
XLSX = f"{_OFFICE}spreadsheetml.sheet"
PPTX = f"{_OFFICE}presentationml.presentation"
MAX_UNPACKED = 200_000_000  # bytes
MODULES = {DOCX: "docx", XLSX: "openpyxl", PPTX: "pptx"}
READABLE = "HTML, PDF, Word, Excel, PowerPoint, Markdown or plain text"
MAX_PAGES = 2_000  # of a PDF
MAX_TEXT = 2_000_000  # characters that another process extracts
MAX_MEMORY = 1 << 30  # bytes of address space of the program
MAX_LINKS, MAX_URL = 500, 2_000  # links of a page, and characters of a link
_PDF = "application/pdf"
_HTML = ("text/html", "application/xhtml+xml")
_MARKDOWN = ("text/markdown", "text/x-markdown")
_PLAIN = ("application/json", "application/x-ndjson", "application/xml", "application/yaml", "application/javascript")
_MAIN = "main, article, [role=main]"
_AROUND = ["nav", "header", "footer", "aside", "form", "button", "noscript"]
_ISO_2022 = re.compile(rb"\x1b(?:[$(][@-J]|\$[()*+-/][@-J])")  # where it begins other characters
_BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")
_ENDINGS = {
    ".html": "text/html", ".htm": "text/html", ".xhtml": "text/html", ".pdf": "application/pdf",
    ".md": "text/markdown", ".markdown": "text/markdown", ".txt": "text/plain", ".text": "text/plain",
    ".rst": "text/plain", ".csv": "text/csv", ".tsv": "text/tab-separated-values", ".json": "application/json",
    ".jsonl": "application/x-ndjson", ".log": "text/plain", ".docx": DOCX, ".xlsx": XLSX, ".pptx": PPTX,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Text:
    """Extracted text: paragraphs separated by empty lines; its title, if any; and the links of an HTML page.

    A link is as written, or resolved against the page's `base`, if it has one. Links that the page asks programs not
    to follow (`rel=nofollow`) are left out.
    """

    text: str
    title: str = ""
    links: tuple[str, ...] = ()


def guess_media_type(name: str) -> str | None:
    """Return the media type for a file name; `None` for an unsupported kind."""
    return _ENDINGS.get(PurePath(name).suffix.lower())


def extract_text(data: bytes, media_type: str, charset: str = "", seconds: float = math.inf) -> Text:
    """Extract the text in `data`; `media_type` and `charset` are the server's declarations.

    Both may be wrong: a PDF is recognized whatever its declared type, and valid UTF-8 usually is UTF-8. Of a PDF, only
    the pages that can be read within `seconds` are included. Raises `DataError` for unreadable data, and `UsageError`
    if the required extra is not installed.
    """
    kind = detect_media_type(data, media_type)
    if kind == _PDF:
        read = _read_pdf(data, seconds)
    elif kind in MODULES:
        read = _read_office_file(data, kind)
    elif kind in _HTML:
        read = _read_html(data, charset)
    elif kind in _MARKDOWN:
        text = _decode(data, charset)
        heading = re.search(r"^#{1,2}[ \t]+([^ \t\n#].*)$", text, re.MULTILINE)  # linear time for any text
        read = Text(text, heading[1].rstrip(" \t#") if heading else "")
    else:
        read = Text(_decode(data, charset))
    plain = _BLANK_LINES.sub("\n\n", read.text.replace("\x00", "")).strip()
    return Text(plain, " ".join(read.title.split()), read.links)


def needs_parser(data: bytes, media_type: str) -> bool:
    """Return whether a parser extracts the text, which hostile data can keep busy (see `extract_text_apart`)."""
    return detect_media_type(data, media_type) in (_PDF, *_HTML, *MODULES)


def detect_media_type(data: bytes, media_type: str) -> str:
    """Return the media type that determines how `data` is read. Raises `DataError` for one without text."""
    kind = media_type.partition(";")[0].strip().lower()
    start = data[:1024].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith(b"%pdf-"):
        return _PDF
    if kind in ("", "application/octet-stream"):
        return _HTML[0] if start.startswith((b"<!doctype html", b"<html")) else "text/plain"
    if kind in (_PDF, *_HTML, *MODULES, *_PLAIN) or kind.startswith("text/") or kind.endswith(("+json", "+xml")):
        return kind
    raise DataError(f"{kind} cannot be read (want {READABLE})")


async def extract_text_apart(data: bytes, media_type: str, charset: str = "", seconds: float = 10.0) -> Text:
    """Return `extract_text(data, media_type, charset)` from a process of its own, at most 2,000,000 characters.

    A small page can keep a parser busy for minutes (nested tags, endless attributes, a PDF's streams) and would block
    everything else. The process has limits on time and memory, and an empty environment. It costs some 50 ms a page,
    and pages are read concurrently.

    Of a PDF, it is what can be read in time. Raises `DataError` for data that cannot be read, at all or within
    `seconds`, and `UsageError` as `extract_text` does.
    """
    from .._internal.processes import read_output  # which the process itself does not need

    arguments = (media_type[:100], charset[:100], str(0.7 * seconds), str(MAX_TEXT))
    try:
        answer = json.loads(await read_output(f"{__package__}.text_extraction", arguments, data, seconds))
    except TimeoutError:
        raise DataError(f"its text could not be read within {seconds:g} seconds") from None
    except ValueError:
        raise DataError("its text could not be read: that exceeded the memory limit") from None
    for kind in (DataError, UsageError):
        if kind.__name__ in answer:
            raise kind(answer[kind.__name__])
    return Text(answer["text"], answer["title"], tuple(answer["links"]))


def _read_html(data: bytes, charset: str) -> Text:
    check_extra("HTML", "documents", "resiliparse")
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.html import HTMLTree

    tree = HTMLTree.parse(_decode(data, charset, html=True))
    main = tree.body.query_selector_all(_MAIN) if tree.body is not None else []
    if len(main) == 1:  # the page marks its main content, so no heuristics are needed
        text = extract_plain_text(main[0].html, preserve_formatting=True, skip_elements=_AROUND)
    else:
        text = extract_plain_text(tree, preserve_formatting=True, main_content=True)
    return Text(text or extract_plain_text(tree, preserve_formatting=True), tree.title or "", tuple(_find_links(tree)))


def _find_links(tree: Any) -> Iterator[str]:
    """Yield the first links of a page, without duplicates."""
    base = tree.head.query_selector("base[href]") if tree.head is not None else None
    found = tree.body.query_selector_all("a[href]") if tree.body is not None else []
    followed = (one for one in found if "nofollow" not in (one.getattr("rel", "") or "").lower().split())
    hrefs = dict.fromkeys(one.getattr("href").strip() for one in islice(followed, 10 * MAX_LINKS))
    for href in islice((one for one in hrefs if one and len(one) <= MAX_URL), MAX_LINKS):
        try:
            yield urljoin(base.getattr("href"), href) if base is not None else href
        except ValueError:  # not an address
            continue


def _read_pdf(data: bytes, seconds: float) -> Text:
    check_extra("PDF", "documents", "pypdf")
    from pypdf import PdfReader

    until = time.monotonic() + seconds
    try:
        reader = PdfReader(io.BytesIO(data))
        read = takewhile(lambda _: time.monotonic() < until, islice(reader.pages, MAX_PAGES))
        pages = [page.extract_text() for page in read]
        title = (reader.metadata.title if reader.metadata else None) or ""
    except Exception as error:  # on broken files it raises arbitrary exceptions
        raise DataError(f"this PDF cannot be read: {type(error).__name__}: {error}") from error
    return Text("\n\n".join(pages), title)


def _decode(data: bytes, charset: str, *, html: bool = False) -> str:
    """Decode as UTF-8 if valid, otherwise as declared by the server or the page, otherwise by detection. Raises
    `DataError`."""
    if not _ISO_2022.search(data) and b"\x00" not in data:  # ISO-2022 and UTF-16 can look like ASCII
        with suppress(UnicodeDecodeError):
            return data.decode("utf-8-sig")
    check_extra("text that is not UTF-8", "documents", "resiliparse")
    from resiliparse.parse.encoding import bytes_to_str, detect_encoding, map_encoding_to_html5

    known = map_encoding_to_html5(charset, fallback_utf8=False) if charset else None
    text = bytes_to_str(data, known or detect_encoding(data, from_html_meta=html) or "utf-8", "replace")
    if text[:4_000].count("\x00") > len(text[:4_000]) // 20:
        raise DataError("it is not text, whatever its declared type")
    return text


def _read_office_file(data: bytes, kind: str) -> Text:
    """Return the text in `data`; rows of a table are lines, with ` | ` between cells. Raises `DataError`."""
    check_extra("a file of Word, Excel or PowerPoint", "documents", MODULES[kind])
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            size = sum(one.file_size for one in packed.infolist())
        if size > MAX_UNPACKED:
            raise DataError(f"it unpacks to {size / 1e6:,.0f} MB; the most is {MAX_UNPACKED / 1e6:,.0f}")
        blocks, title = _READERS[kind](io.BytesIO(data))
        return Text("\n\n".join(block for block in blocks if block.strip()), title)
    except DataError:
        raise
    except Exception as error:  # on broken files the readers raise arbitrary exceptions
        raise DataError(f"this file cannot be read: {type(error).__name__}: {error}") from error


def _read_word(file: io.BytesIO) -> tuple[list[str], str]:
    from docx import Document
    from docx.table import Table

    document = Document(file)
    blocks = [
        _format_table([cell.text for cell in row.cells] for row in one.rows) if isinstance(one, Table) else one.text
        for one in document.iter_inner_content()
    ]
    return blocks, document.core_properties.title or ""


def _read_excel(file: io.BytesIO) -> tuple[list[str], str]:
    from openpyxl import load_workbook

    book = load_workbook(file, read_only=True, data_only=True)
    try:
        sheets = [f"{sheet.title}\n{_format_table(sheet.iter_rows(values_only=True))}" for sheet in book.worksheets]
        return sheets, book.properties.title or ""
    finally:
        book.close()


def _read_slides(file: io.BytesIO) -> tuple[list[str], str]:
    from pptx import Presentation

    deck = Presentation(file)
    slides = []
    for slide in deck.slides:
        notes = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
        slides.append("\n".join([*_read_shapes(slide.shapes), *([notes.text] if notes else [])]))
    return slides, deck.core_properties.title or ""


def _read_shapes(shapes: Iterable[Any]) -> Iterator[str]:
    for shape in shapes:
        if shape.has_text_frame:
            yield shape.text_frame.text
        elif getattr(shape, "has_table", False):
            yield _format_table([cell.text for cell in row.cells] for row in shape.table.rows)
        elif hasattr(shape, "shapes"):  # a group
            yield from _read_shapes(shape.shapes)


def _format_table(rows: Iterable[Iterable[Any]]) -> str:
    lines = (" | ".join(_format_cell(cell) for cell in row) for row in rows)
    return "\n".join(line.rstrip(" |") for line in lines if line.strip(" |"))


def _format_cell(value: Any) -> str:
    if isinstance(value, datetime.datetime) and value.time() == datetime.time.min:  # a date, as Excel keeps it
        value = value.date()
    return "" if value is None else " ".join(str(value).split())


_READERS = {DOCX: _read_word, XLSX: _read_excel, PPTX: _read_slides}


def main(media_type: str, charset: str, seconds: str, most: str) -> None:
    """Read data from standard input; write its text, at most `most` characters, and links, or an error, as JSON.

    `extract_text_apart` runs this module as a program. Its imports delay each page, so they are few.
    """
    with suppress(AttributeError, OSError):  # low priority: an answer is more urgent
        os.nice(10)
    with suppress(ImportError):  # not available on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    try:
        found = extract_text(sys.stdin.buffer.read(), media_type, charset, float(seconds))
        answer = {"text": found.text[: int(most)], "title": found.title[:1_000], "links": found.links}
    except (DataError, UsageError) as error:
        answer = {type(error).__name__: str(error)}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
