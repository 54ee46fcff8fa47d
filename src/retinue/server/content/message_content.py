"""What a model can be given of the content of a message: text, and files of text."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection

from ...store.tables import contents
from ...store.tenant_view import TenantView
from ...strategies.prompting.injection_guard import neutralize
from ..context import Context
from ..files.routes import file_of
from ..http.api_errors import ApiError, invalid_value, missing_parameter, wrong_type
from .file_parts import DOCUMENTS, IMAGES, Shown, is_shown, show

_MOST = 256_000  # characters of a file, as of a message
_MOST_OF_ALL = 1_000_000  # characters of the files of a request
_FILES_AT_ONCE = 100  # named in a request; each is looked up
_WORDS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
_FILES = ("file", "input_file")


class Readable:
    """The contents of one request, with text files replaced by their text.

    A request may name the same file many times, so it has at most 100 files and 1,000,000 characters of them. `shown`
    are the files that the model is going to be shown; of any other image, it is told that there is one.
    """

    def __init__(self, connection: Connection, scope: TenantView, shown: Shown | None = None) -> None:
        self._shown = shown or {}
        self._connection = connection
        self._scope = scope
        self._files = 0
        self._chars = 0

    def __call__(self, content: Any, where: str, *, of_tool: bool = False) -> Any:
        """Return `content`, which is at `where` in the request, with files as text, and its images marked. Raises
        `ApiError` for sounds that the model is not shown, and for files that are neither shown nor text; of those
        that a tool returned, the model is told."""
        if not _parts(content):
            return content
        return [
            self._kept(part) if of_tool and part.get("type") in DOCUMENTS else self._part(part, f"{where}[{number}]")
            for number, part in enumerate(content)
        ]

    def kept(self, content: Any) -> Any:
        """Return stored `content` with files as text. What cannot be read stays as it is."""
        return [self._kept(part) for part in content] if _parts(content) else content

    def _kept(self, part: Mapping[str, Any]) -> Mapping[str, Any]:
        with suppress(ApiError):
            return self._part(part, "")
        return part

    def _part(self, part: Mapping[str, Any], where: str) -> Mapping[str, Any]:
        marked = show(part, self._shown)
        if part.get("type") in IMAGES or is_shown(marked):
            return marked
        if part.get("type") not in _FILES:
            return _checked(part, where)
        place = f"{where}.file" if part["type"] == "file" else where
        given = part.get("file") if part["type"] == "file" else part
        if not isinstance(given, Mapping):
            raise missing_parameter(f"{where}.file")
        self._files += 1
        if self._files > _FILES_AT_ONCE:
            raise invalid_value(place, f"a request names at most {_FILES_AT_ONCE} files")
        name, data = _file(self._connection, self._scope, given, place)
        text = _text(data, place)
        self._chars += len(text)
        if self._chars > _MOST_OF_ALL:
            raise invalid_value(place, f"the files of a request have at most {_MOST_OF_ALL:,} characters together")
        return {"type": "input_text" if part["type"] == "input_file" else "text", "text": _as_text(name, text)}


async def prepare_files(context: Context, contents: Iterable[Any]) -> None:
    """Read the files that `contents` name, before the transaction that needs their text.

    Neutralizing a million characters takes a quarter of a second, for which all other writes would wait. The
    transaction finds the texts in a cache. It also raises what is wrong with a file.
    """
    named = [content for content in contents if _names_files(content)]

    def work(connection: Connection, scope: TenantView) -> None:
        readable = Readable(connection, scope)
        for content in named:
            readable.kept(content)

    if named:
        async with context.server.shares.large.rested(context.scope.tenant):
            await context.read(work)


def _names_files(content: Any) -> bool:
    return _parts(content) and any(isinstance(part, Mapping) and part.get("type") in _FILES for part in content)


@lru_cache(maxsize=32)  # entries of up to 256,000 characters
def _as_text(name: str, text: str) -> str:
    return f'[the file "{neutralize(name)}"]\n{neutralize(text)}\n[its end]'


def _parts(content: Any) -> bool:
    return isinstance(content, Sequence) and not isinstance(content, str)


def _checked(part: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    kind = part.get("type")
    if isinstance(kind, str) and kind in _WORDS:
        text = part.get(_WORDS[kind])
        if not isinstance(text, str):
            raise wrong_type(f"{where}.{_WORDS[kind]}", "a string", text)
        return part
    if kind is None:
        raise missing_parameter(f"{where}.type")
    text_kind, file_kind = ("input_text", "input_file") if str(kind).startswith("input_") else ("text", "file")
    message = (
        f"Invalid value: '{str(kind)[:64]}'. Supported values are: '{text_kind}' and '{file_kind}' (of text): models "
        "here are given nothing else."
    )
    raise ApiError(400, message, param=f"{where}.type", code="invalid_value")


def _file(connection: Connection, scope: TenantView, given: Mapping[str, Any], where: str) -> tuple[str, bytes]:
    """A file's name, and what is in it."""
    name, id_, data = given.get("filename") or "", given.get("file_id"), given.get("file_data")
    if isinstance(id_, str):
        row = file_of(connection, scope, id_, f"{where}.file_id")
        _check_size(row.body["bytes"], where)
        kept = scope.find(connection, contents, id_)
        return row.body["filename"], b"" if kept is None else kept.content
    if not isinstance(data, str):
        raise missing_parameter(f"{where}.file_data" if given.get("file_url") is None else f"{where}.file_id")
    head, comma, rest = data.partition(",")
    encoded = rest if comma and head.startswith("data:") else data
    _check_size(len(encoded) * 3 // 4, where)
    try:
        return str(name), base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise invalid_value(f"{where}.file_data", "want base64, or a data URL of it") from error


def _check_size(size: int, where: str) -> None:
    """Raises `ApiError` for a file of so many bytes that it has too many characters, whatever they are."""
    if size > 4 * _MOST:
        raise invalid_value(where, f"the file has {size:,} bytes; the most is {_MOST:,} characters of text")


def _text(data: bytes, where: str) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text or text.lstrip().startswith("%PDF-"):  # a PDF may be ASCII
        problem = (
            "want a file of text, or a PDF, an image or a sound (WAV, MP3) for a model that reads them; others can be "
            "searched, in a vector store"
        )
        raise invalid_value(where, problem)
    if len(text) > _MOST:
        raise invalid_value(where, f"the file has {len(text):,} characters; the most is {_MOST:,}")
    return text
