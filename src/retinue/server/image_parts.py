"""The images in the content of a message, in the forms of all APIs.

A part that a model is going to be shown has its image's id, media type and detail under `shown`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..core.values import Image

Shown = Mapping["ImageSource", Image]
KINDS = ("image_url", "input_image", "image_file")
_SHOWN = "shown"
_DETAILS = ("low", "high")


class ImageSource(NamedTuple):
    """Where an image comes from: a data or http(s) URL, or a file; and the detail in which it is to be seen."""

    url: str
    file_id: str
    detail: str


def source_of(part: Any) -> ImageSource | None:
    """Return the source of the image in a part of a content, or `None` if it is another part. A part without a source
    has an empty one."""
    if not isinstance(part, Mapping) or part.get("type") not in KINDS:
        return None
    given = part.get(str(part["type"])) if part["type"] in ("image_url", "image_file") else part
    inner: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    url, file_id = inner.get("url") or inner.get("image_url"), inner.get("file_id")
    detail = inner.get("detail")
    return ImageSource(
        url if isinstance(url, str) else "",
        file_id if isinstance(file_id, str) else "",
        str(detail) if detail in _DETAILS else "auto",
    )


def images_in(content: Any) -> Iterator[tuple[int, ImageSource]]:
    """Yield the images of a content, with the numbers of their parts."""
    for number, part in enumerate(content if isinstance(content, Sequence) and not isinstance(content, str) else ()):
        if (source := source_of(part)) is not None:
            yield number, source


def show(part: Mapping[str, Any], shown: Shown) -> Mapping[str, Any]:
    """Return a part with an image, marked if the image is `shown`. A client cannot mark one."""
    plain = {name: value for name, value in part.items() if name != _SHOWN}
    image = shown.get(source_of(part) or ImageSource("", "", ""))
    return plain if image is None else {**plain, _SHOWN: stored_image(image)}


def stored_image(image: Image) -> dict[str, str]:
    """Return the image as it is stored with a turn."""
    return {"id": image.id, "media_type": image.media_type, "detail": image.detail}


def is_shown(part: Any) -> bool:
    """Whether a part is an image that the model is shown."""
    return source_of(part) is not None and isinstance(part.get(_SHOWN), Mapping)


def shown_in(content: Any) -> list[dict[str, str]]:
    """Return the images of a content that the model is shown, as they are stored with a turn."""
    parts = content if isinstance(content, Sequence) and not isinstance(content, str) else ()
    return [dict(part[_SHOWN]) for part in parts if is_shown(part)]
