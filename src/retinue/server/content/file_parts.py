"""The files in the content of a message, in the forms of all APIs: images, PDFs and sounds.

A part that a model is going to be shown has its file's id, media type, detail and name under `shown`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...core.values import File

Shown = Mapping["FileSource", File]
IMAGES = ("image_url", "input_image", "image_file")
DOCUMENTS = ("file", "input_file", "input_audio")  # one with text is inlined instead
_NESTED = ("image_url", "image_file", "file", "input_audio")  # whose values are in an object of that name
_SHOWN = "shown"
_DETAILS = ("low", "high")


class FileSource(NamedTuple):
    """Where a file comes from: a data or http(s) URL, or an upload; the detail in which an image is to be seen, and the
    name of a document. `is_image`: whether it is said to be an image."""

    url: str
    file_id: str
    detail: str
    name: str = ""
    is_image: bool = True


def source_of(part: Any) -> FileSource | None:
    """Return the source of the file in a part of a content, or `None` if it is another part. A part without a source
    has an empty one."""
    if not isinstance(part, Mapping) or part.get("type") not in (*IMAGES, *DOCUMENTS):
        return None
    given = part.get(str(part["type"])) if part["type"] in _NESTED else part
    inner: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    url, file_id = inner.get("url") or inner.get("image_url"), inner.get("file_id")
    detail, name, data = inner.get("detail"), inner.get("filename"), inner.get("file_data") or inner.get("data")
    if isinstance(data, str) and part["type"] in DOCUMENTS:
        url = data if data[:5].lower() == "data:" else f"data:;base64,{data}"
    return FileSource(
        url if isinstance(url, str) else "",
        file_id if isinstance(file_id, str) else "",
        str(detail) if detail in _DETAILS else "auto",
        name if isinstance(name, str) else "",
        part["type"] in IMAGES,
    )


def files_in(content: Any) -> Iterator[tuple[int, FileSource]]:
    """Yield the files of a content, with the numbers of their parts."""
    for number, part in enumerate(content if isinstance(content, Sequence) and not isinstance(content, str) else ()):
        if (source := source_of(part)) is not None:
            yield number, source


def show(part: Mapping[str, Any], shown: Shown) -> Mapping[str, Any]:
    """Return a part with a file, marked if the file is `shown`. A client cannot mark one."""
    plain = {name: value for name, value in part.items() if name != _SHOWN}
    file = shown.get(source_of(part) or FileSource("", "", ""))
    return plain if file is None else {**plain, _SHOWN: stored_file(file)}


def stored_file(file: File) -> dict[str, str]:
    """Return the file as it is stored with a turn."""
    named = {"name": file.name} if file.name else {}
    return {"id": file.id, "media_type": file.media_type, "detail": file.detail, **named}


def is_shown(part: Any) -> bool:
    """Whether a part is a file that the model is shown."""
    return source_of(part) is not None and isinstance(part.get(_SHOWN), Mapping)


def shown_in(content: Any) -> list[dict[str, str]]:
    """Return the files of a content that the model is shown, as they are stored with a turn."""
    parts = content if isinstance(content, Sequence) and not isinstance(content, str) else ()
    return [dict(part[_SHOWN]) for part in parts if is_shown(part)]
