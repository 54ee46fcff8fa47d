"""What a model can be given of the content of a message: text, and files of text."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from sqlalchemy import Connection

from ..store.tables import contents
from ..store.tenant_view import TenantView
from ..strategies.prompting.injection_guard import neutralize
from .files.routes import file_of
from .wire.api_errors import ApiError
from .wire.validation import invalid_value, missing_parameter, wrong_type

_MOST = 256_000  # characters of a file, as of a message
_MOST_OF_ALL = 1_000_000  # characters of the files of a request
_WORDS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
_FILES = ("file", "input_file")
_IMAGES = ("image_url", "input_image")


class Readable:
    """The contents of a request, with their files as texts, of which there are at most a million characters: the same
    file may be named again and again."""

    def __init__(self, connection: Connection, scope: TenantView) -> None:
        self._connection = connection
        self._scope = scope
        self._left = _MOST_OF_ALL

    def __call__(self, content: Any, where: str) -> Any:
        """`content`, which is at `where` in the request. Raises `ApiError` for what no model here can be given: sounds,
        files that are no text. Of an image the model is told that it is there, and not to be seen."""
        if not isinstance(content, Sequence) or isinstance(content, str):
            return content
        return [self._part(part, f"{where}[{number}]") for number, part in enumerate(content)]

    def kept(self, content: Any) -> Any:
        """`content` that was kept, likewise as far as it can be."""
        if not isinstance(content, Sequence) or isinstance(content, str):
            return content
        parts = []
        for part in content:
            with suppress(ApiError):
                part = self._part(part, "")
            parts.append(part)
        return parts

    def _part(self, part: Mapping[str, Any], where: str) -> Mapping[str, Any]:
        if part.get("type") not in _FILES:
            return _checked(part, where)
        place = f"{where}.file" if part["type"] == "file" else where
        given = part.get("file") if part["type"] == "file" else part
        if not isinstance(given, Mapping):
            raise missing_parameter(f"{where}.file")
        self._take(0, place)
        name, data = _file(self._connection, self._scope, given, place)
        text = _text(data, place)
        self._take(len(text), place)
        text_kind = "input_text" if part["type"] == "input_file" else "text"
        return {"type": text_kind, "text": f'[the file "{neutralize(name)}"]\n{neutralize(text)}\n[its end]'}

    def _take(self, chars: int, where: str) -> None:
        self._left -= chars
        if self._left < 0:
            raise invalid_value(where, f"the files of a request have at most {_MOST_OF_ALL:,} characters together")


def _checked(part: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    kind = part.get("type")
    if kind in _WORDS:
        text = part.get(_WORDS[kind])
        if not isinstance(text, str):
            raise wrong_type(f"{where}.{_WORDS[kind]}", "a string", text)
        return part
    if kind in _IMAGES:
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
    if "\0" in text:
        problem = "only files of text can be given to a model here; others can be searched, in a vector store"
        raise invalid_value(where, problem)
    if len(text) > _MOST:
        raise invalid_value(where, f"the file has {len(text):,} characters; the most is {_MOST:,}")
    return text
