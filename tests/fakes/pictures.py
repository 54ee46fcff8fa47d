"""Small pictures in the formats that models read, made without a library."""

from __future__ import annotations

import base64
import struct
import zlib


def png(width: int = 2, height: int = 2, color: bytes = b"\xff\x00\x00") -> bytes:
    """A picture of one color."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    rows = zlib.compress((b"\0" + color * width) * height)
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def png_head(width: int, height: int) -> bytes:
    """The beginning of a PNG that says it is this large."""
    return b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR" + struct.pack(">II", width, height) + b"\x08\x02\0\0\0"


def gif(width: int = 2, height: int = 2) -> bytes:
    """The beginning of a GIF."""
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0\0\0;"


def jpeg(width: int = 2, height: int = 2) -> bytes:
    """The markers of a JPEG up to its size, with a segment and fill bytes before."""
    frame = b"\xff\xc2\0\x0b\x08" + struct.pack(">HH", height, width) + b"\x01\x01\x11\0"
    return b"\xff\xd8\xff\xe0\0\x10JFIF\0" + b"\0" * 9 + b"\xff\xff" + frame + b"\xff\xd9"


def webp(kind: str, width: int = 2, height: int = 2) -> bytes:
    """The beginning of a WebP of this kind (`VP8 `, `VP8L` or `VP8X`)."""
    if kind == "VP8 ":
        body = b"\0" * 6 + struct.pack("<HH", width, height)
    elif kind == "VP8L":
        body = b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14)
    else:
        body = b"\0" * 4 + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return b"RIFF\0\0\0\0WEBP" + kind.encode() + b"\0\0\0\0" + body


def data_url(data: bytes, media_type: str = "image/png") -> str:
    """A data URL of these bytes."""
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"
