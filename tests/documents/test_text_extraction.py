"""Texts out of files and pages, whatever is said of them."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import example, given, settings, strategies as st

from fakes.pages_server import pdf
from retinue import DataError
from retinue.documents.text_extraction import Text, extract_text, extract_text_apart

KINDS = ["text/html", "application/pdf", "text/markdown", "text/plain", "application/json", "", "image/png", "text/"]


@settings(max_examples=300)
@given(
    st.binary(max_size=300), st.sampled_from(KINDS), st.text(max_size=8) | st.sampled_from(["utf-16", "idna", "hex"])
)
@example(b"%PDF-", "", "")
@example(b"\x00", "text/html", "utf-7")
def test_any_bytes_are_read_or_refused(data: bytes, kind: str, charset: str) -> None:
    try:
        found = extract_text(data, kind, charset)
    except DataError:
        return
    assert "\x00" not in found.text
    found.text.encode()


@settings(max_examples=100)
@given(
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=50),
    st.sampled_from(["", "latin-1", "klingon"]),
)
def test_utf_8_is_utf_8_whatever_is_said(text: str, charset: str) -> None:
    assert extract_text(text.encode(), "text/plain", charset).text == text.strip().removeprefix("\ufeff")


@pytest.mark.parametrize("coding", ["utf-8-sig", "utf-16", "iso2022_jp", "shift_jis", "euc_jp"])
def test_codings_that_are_said(coding: str) -> None:
    text = "日本語の文章です。" * 5
    assert extract_text(text.encode(coding), "text/plain", coding.removesuffix("-sig")).text == text


def test_a_page_may_say_its_coding_itself() -> None:
    page = "<meta charset=windows-1251><title>Привет</title><body><p>Как дела сегодня?"
    assert extract_text(page.encode("cp1251"), "text/html") == Text("Как дела сегодня?", "Привет")


def test_a_pdf_is_read_as_far_as_its_time_goes() -> None:
    assert extract_text(pdf("Here."), "") == Text("Here.", "A PDF")
    assert extract_text(pdf("Here."), "", seconds=0) == Text("", "A PDF")


def test_apart_is_the_same() -> None:
    for data, kind in ((pdf("Here."), "application/pdf"), ("Grüße".encode("latin-1"), "text/plain")):
        assert asyncio.run(extract_text_apart(data, kind)) == extract_text(data, kind)
    with pytest.raises(DataError, match="image/png cannot be read"):
        asyncio.run(extract_text_apart(b"", "image/png"))


def test_what_takes_too_long_is_ended() -> None:
    with pytest.raises(DataError, match=r"could not be read within 0\.5 seconds"):
        asyncio.run(extract_text_apart(b"<div>" * 200_000, "text/html", seconds=0.5))


def test_an_escape_character_does_not_make_utf_8_something_else() -> None:
    assert extract_text("Zürich \x1b[1mfett\x1b[0m".encode(), "text/plain").text == "Zürich \x1b[1mfett\x1b[0m"
    assert extract_text("日本".encode("iso2022_jp"), "text/plain").text == "日本"
