"""What an image is, by its bytes: formats, sizes, and whatever is no image."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

import pytest
from hypothesis import example, given, strategies as st

from fakes.pictures import data_url, gif, jpeg, png, png_head, webp
from retinue.core.files import MAX_BYTES, MAX_FILES, check_together, decode_data_url, detect_image_format, read_file
from retinue.errors import DataError, UsageError

KINDS: Mapping[str, Callable[[int, int], bytes]] = {
    "image/png": png_head,
    "image/gif": gif,
    "image/jpeg": jpeg,
    "VP8 ": lambda w, h: webp("VP8 ", w, h),
    "VP8L": lambda w, h: webp("VP8L", w, h),
    "VP8X": lambda w, h: webp("VP8X", w, h),
}


@pytest.mark.parametrize("kind", KINDS)
@given(width=st.integers(1, 16_383), height=st.integers(1, 16_383))
def test_the_size_of_each_format(kind: str, width: int, height: int) -> None:
    media_type = kind if "/" in kind else "image/webp"
    assert detect_image_format(KINDS[kind](width, height)) == (media_type, width, height)


@given(st.binary(max_size=60), st.sampled_from([b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8", b"GIF89a", b"RIFF"]))
@example(b"\xff\xff\xff", b"\xff\xd8")
@example(b"<svg/>", b"")
def test_other_bytes_are_an_image_or_a_data_error(data: bytes, magic: bytes) -> None:
    with suppress(DataError):
        assert detect_image_format(magic + data)[1] > 0


@given(st.text(max_size=40), st.sampled_from(["", "data:", "data:image/png;base64,", "data:image/png,"]))
def test_a_data_url_is_bytes_or_a_data_error(text: str, head: str) -> None:
    with suppress(DataError):
        assert isinstance(decode_data_url(head + text), bytes)


def test_what_a_data_url_says_of_its_type_is_not_believed() -> None:
    image = read_file(decode_data_url(data_url(gif(), "image/png")))
    assert image.media_type == "image/gif"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (png() + b"\0" * MAX_BYTES, "the most is 5,000,000"),
        (png_head(100_000, 100_000), "100,000 × 100,000 pixels"),
        (png_head(0, 5), "no file"),
        (b"%PDF-1.4" + bytes(20_000_000), "the most is 20,000,000"),
        (b"", "no file"),
    ],
)
def test_what_no_model_is_sent(data: bytes, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        read_file(data)


def test_how_many_there_may_be() -> None:
    with pytest.raises(UsageError, match="there are 21; the most is 20"):
        check_together([read_file(png())] * (MAX_FILES + 1))
