"""The text in a file or a page: HTML, PDF, Markdown, plain."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import PurePath

from ..errors import DataError, UsageError

MAX_PAGES = 2_000  # of a PDF
_MAIN = "main, article, [role=main]"
_AROUND = ["nav", "header", "footer", "aside", "form", "button", "noscript"]
_BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")
_ENDINGS = {
    ".html": "text/html", ".htm": "text/html", ".xhtml": "text/html", ".pdf": "application/pdf",
    ".md": "text/markdown", ".markdown": "text/markdown", ".txt": "text/plain", ".text": "text/plain",
    ".rst": "text/plain",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Text:
    """What one can read in it: paragraphs with an empty line between them; and its title, if it has one."""

    text: str
    title: str = ""


def media_type_of(name: str) -> str | None:
    """The media type that a file's name tells; `None` for a kind that cannot be read here."""
    return _ENDINGS.get(PurePath(name).suffix.lower())


def text_of(data: bytes, media_type: str, charset: str = "") -> Text:
    """The text in `data`, which is of this media type; `charset` is what its server says, if anything.

    Raises `DataError` for what cannot be read, `UsageError` if the extra that reads it is not installed.
    """
    kind = media_type.partition(";")[0].strip().lower()
    if kind not in _READERS:
        raise DataError(f"{kind or 'this kind of file'} cannot be read (want HTML, PDF, Markdown or plain text)")
    read = _READERS[kind](data, charset)
    return Text(_BLANK_LINES.sub("\n\n", read.text.replace("\x00", "")).strip(), " ".join(read.title.split()))


def _html(data: bytes, charset: str) -> Text:
    _needs("resiliparse", "HTML")
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.html import HTMLTree

    tree = HTMLTree.parse(_decoded(data, charset, html=True))
    main = tree.body.query_selector_all(_MAIN) if tree.body is not None else []
    if len(main) == 1:  # where a page says what its content is, nothing needs to be guessed
        text = extract_plain_text(main[0].html, preserve_formatting=True, skip_elements=_AROUND)
    else:
        text = extract_plain_text(tree, preserve_formatting=True, main_content=True)
    return Text(text or extract_plain_text(tree, preserve_formatting=True), tree.title or "")


def _pdf(data: bytes, _: str) -> Text:
    _needs("pypdf", "PDF")
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    try:
        reader = PdfReader(io.BytesIO(data))
        pages = [page.extract_text() for page in reader.pages[:MAX_PAGES]]
        title = (reader.metadata.title if reader.metadata else None) or ""
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError) as error:
        raise DataError(f"this PDF cannot be read: {type(error).__name__}: {error}") from error
    return Text("\n\n".join(pages), title)


def _markdown(data: bytes, charset: str) -> Text:
    text = _decoded(data, charset)
    heading = re.search(r"^#{1,2}[ \t]+(.+?)[ \t#]*$", text, re.MULTILINE)
    return Text(text, heading.group(1) if heading else "")


def _plain(data: bytes, charset: str) -> Text:
    return Text(_decoded(data, charset))


def _decoded(data: bytes, charset: str, *, html: bool = False) -> str:
    """UTF-8 if it is that; else as its server or the page itself says; else as it looks."""
    if not charset:
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError:
            pass
    _needs("resiliparse", "text that is not UTF-8")
    from resiliparse.parse.encoding import bytes_to_str, detect_encoding

    return bytes_to_str(data, charset or detect_encoding(data, from_html_meta=html) or "utf-8", "replace")


def _needs(module: str, what: str) -> None:
    if find_spec(module) is None:
        raise UsageError(f"{what} needs the extra 'documents': pip install 'retinue[documents]'")


_READERS: Mapping[str, Callable[[bytes, str], Text]] = {
    "text/html": _html,
    "application/xhtml+xml": _html,
    "application/pdf": _pdf,
    "text/markdown": _markdown,
    "text/x-markdown": _markdown,
    "text/plain": _plain,
}
