"""Texts out of files, and their pieces."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import example, given, settings, strategies as st

from retinue import DataError, Document
from retinue.documents.splitter import split_document
from retinue.documents.text_extraction import Text, extract_text, guess_media_type

KINDS = ["text/html", "application/pdf", "text/markdown", "text/plain"]
PROSE = st.text(alphabet=st.sampled_from("ab .!?\n\t。é💡"), max_size=200) | st.text(max_size=60)


@settings(max_examples=300)
@given(PROSE, st.integers(1, 40))
@example("a. " * 20 + "b" * 50 + ". End.", 10)
def test_pieces_are_small_and_nothing_but_blank_space_is_lost(text: str, size: int) -> None:
    pieces = split_document([Document(text, "d", {"title": "T"})], size)
    assert all(0 < len(piece.content) <= size for piece in pieces)
    assert "".join("".join(piece.content for piece in pieces).split()) == "".join(text.split())
    assert [(piece.id, piece.meta) for piece in pieces] == [
        (f"d#{part}", {"title": "T", "part": part}) for part in range(len(pieces))
    ]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("One.\n\nTwo.\n \nThree is longer.", ["One.\n\nTwo.", "Three is longer."]),
        ("A sentence. Another one! And a third?", ["A sentence.", "Another one!", "And a third?"]),
        ("word" * 5 + ". Next.", ["wordwordwordword", "word. Next."]),
    ],
)
def test_pieces_end_where_a_reader_would_pause(text: str, pieces: list[str]) -> None:
    assert [piece.content for piece in split_document([Document(text)], 16)] == pieces


@settings(max_examples=200)
@given(
    st.binary(max_size=300) | st.text(max_size=100).map(str.encode),
    st.sampled_from(KINDS),
    st.sampled_from(["", "utf-16"]),
)
@example(b"%PDF-1.4\n1 0 obj\n<< /Type /Catalog >>\nendobj\ntrailer << /Root 1 0 R >>\n%%EOF", "application/pdf", "")
@example(b"<html><body>" + b"<div>" * 2_000, "text/html", "")
@example(b"\xff\xfe\x00", "text/plain", "")
def test_any_bytes_are_a_text_or_an_error(data: bytes, kind: str, charset: str) -> None:
    with contextlib.suppress(DataError):
        assert isinstance(extract_text(data, kind, charset), Text)


def test_a_files_name_says_what_it_is() -> None:
    names = ["a.HTML", "b.pdf", "c.md", "d.txt", "e.exe", "f", ".md"]
    kinds = [guess_media_type(name) for name in names]
    assert kinds == ["text/html", "application/pdf", "text/markdown", "text/plain", None, None, None]
