"""What a file for a model is, by its own bytes: an image with its size in pixels, a PDF, or a sound. Nothing that is
said about it is believed."""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import DataError, UsageError
from .events import Event, Judged, Observed
from .values import File, Message

MAX_BYTES = 20_000_000
_MAX_IMAGE = 5_000_000
MAX_PIXELS = 64_000_000
MAX_FILES = 20  # that a model is shown at once
MAX_BYTES_TOGETHER = 20_000_000
_FORMATS = "a PNG, JPEG, GIF or WebP image, a PDF, or a WAV or MP3 sound"
_START_OF_FRAME = frozenset((*range(0xC0, 0xD0),)) - {0xC4, 0xC8, 0xCC}
_WITHOUT_LENGTH = frozenset((0x01, *range(0xD0, 0xD9)))


def read_file(data: bytes, detail: str = "auto", name: str = "") -> File:
    """Return the file that `data` is. Raises `DataError` if models read none such, or it is larger than one may be
    sent."""
    media_type = next((one for magic, at, one in _DOCUMENTS if data.startswith(magic, at)), "")
    if not media_type and data[:1] == b"\xff" and data[1:2] >= b"\xe0" and data[1] & 0x06 == 0x02:
        media_type = "audio/mpeg"  # without a tag: a frame of layer III
    what, most = ("file", MAX_BYTES) if media_type else ("image", _MAX_IMAGE)
    if len(data) > most:
        raise DataError(f"the {what} has {len(data):,} bytes; the most is {most:,}")
    if not media_type:
        media_type, width, height = detect_image_format(data)
        if width * height > MAX_PIXELS:
            raise DataError(f"the image has {width:,} × {height:,} pixels; the most is {MAX_PIXELS:,} in all")
    return File(hashlib.sha256(data).hexdigest(), media_type, detail, data, name)


def detect_image_format(data: bytes) -> tuple[str, int, int]:
    """Return the media type of an image, and its width and height in pixels. Raises `DataError` if `data` is no image
    that models read."""
    for magic, media_type, size in _IMAGES:
        if not data.startswith(magic):
            continue
        try:
            width, height = size(data)
        except (struct.error, IndexError):
            break
        if width and height:
            return media_type, width, height
    raise DataError(f"this is no file that models read; want {_FORMATS}, as a whole")


def decode_data_url(url: str) -> bytes:
    """Return the bytes of a data URL, whatever media type it names. Raises `DataError`."""
    head, comma, rest = url.partition(",")
    if not comma or not head[:5].lower() == "data:" or not head.lower().endswith(";base64"):
        raise DataError("want a data URL such as data:image/png;base64,…")
    if len(rest) * 3 // 4 > MAX_BYTES + 3:
        raise DataError(f"the file has {len(rest) * 3 // 4:,} bytes; the most is {MAX_BYTES:,}")
    try:
        return base64.b64decode(rest, validate=True)
    except (binascii.Error, ValueError) as error:
        raise DataError("the data URL is not base64") from error


def check_together(files: Sequence[File]) -> None:
    """Raise `UsageError` if these are more than a model may be shown at once."""
    if len(files) > MAX_FILES:
        raise UsageError(f"files: there are {len(files)}; the most is {MAX_FILES}")
    if (size := sum(len(one.data) for one in files)) > MAX_BYTES_TOGETHER:
        raise UsageError(f"files: they have {size:,} bytes together; the most is {MAX_BYTES_TOGETHER:,}")


def with_data(files: Iterable[File], data: Mapping[str, bytes]) -> tuple[File, ...]:
    """Return `files` as a log has them with their bytes, which are in `data` by id, as far as they are there."""
    return tuple(replace(one, data=data[one.id]) if not one.data and one.id in data else one for one in files)


def load_message_files(messages: Iterable[Message], data: Mapping[str, bytes]) -> tuple[Message, ...]:
    """Return `messages` with the bytes of their files, as `with_data` does."""
    return tuple(replace(one, files=with_data(one.files, data)) if one.files else one for one in messages)


def load_event_files(event: Event, data: Mapping[str, bytes]) -> Event:
    """Return an event of a stored log with the bytes of the files that a tool returned."""
    if isinstance(event, Observed) and event.observation.files:
        return replace(event, observation=replace(event.observation, files=with_data(event.observation.files, data)))
    if isinstance(event, Judged) and isinstance(event.about, Observed):
        about: Any = load_event_files(event.about, data)
        return replace(event, about=about)
    return event


# ── sizes ────────────────────────────────────────────────────────────────────────────────────────


def _read_webp_size(data: bytes) -> tuple[int, int]:
    match data[12:16] if data[8:12] == b"WEBP" else b"":
        case b"VP8 ":
            width, height = struct.unpack("<HH", data[26:30])
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L":
            (bits,) = struct.unpack("<I", data[21:25])
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            low_width, high_width, low_height, high_height = struct.unpack("<HBHB", data[24:30])
            return (low_width | high_width << 16) + 1, (low_height | high_height << 16) + 1
    return 0, 0


def _read_jpeg_size(data: bytes) -> tuple[int, int]:
    at = 2
    while data[at] == 0xFF:
        kind = data[at + 1]
        if kind == 0xFF or kind in _WITHOUT_LENGTH:  # a fill byte, or a marker by itself
            at += 1 if kind == 0xFF else 2
        elif kind in _START_OF_FRAME:
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        else:
            (length,) = struct.unpack(">H", data[at + 2 : at + 4])
            at += 2 + max(length, 2)
    return 0, 0


_DOCUMENTS = (  # a magic, where it is, and the media type
    (b"%PDF-", 0, "application/pdf"),
    (b"WAVE", 8, "audio/wav"),
    (b"ID3", 0, "audio/mpeg"),
)
_IMAGES: tuple[tuple[bytes, str, Callable[[bytes], tuple[int, int]]], ...] = (
    (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "image/png", lambda data: struct.unpack(">II", data[16:24])),
    (b"\xff\xd8", "image/jpeg", _read_jpeg_size),
    (b"GIF87a", "image/gif", lambda data: struct.unpack("<HH", data[6:10])),
    (b"GIF89a", "image/gif", lambda data: struct.unpack("<HH", data[6:10])),
    (b"RIFF", "image/webp", _read_webp_size),
)
