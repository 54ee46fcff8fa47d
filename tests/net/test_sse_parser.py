"""Reading server-sent events: any line ends, any chunks."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, strategies as st

from retinue.net.http_client import JsonLines, ServerSentEvents

TEXTS = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=12)
DATA = st.lists(TEXTS, min_size=1, max_size=3).map("\n".join)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])


def read(stream: bytes, cuts: list[int] | None = None) -> list[str]:
    reader = ServerSentEvents()
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts or []), len(stream)]
    return [data for begin, end in pairwise(places) for data in reader.feed(stream[begin:end])]


@given(st.lists(DATA, max_size=5), st.data())
def test_events_are_read_the_same_with_any_line_ends_in_any_chunks(events: list[str], draw: st.DataObject) -> None:
    stream = ""
    for event in events:
        end = draw.draw(ENDS)
        stream += "".join(f"data: {line}{end}" for line in event.split("\n")) + end
    cuts = draw.draw(st.lists(st.integers(0, len(stream.encode()))))
    assert read(stream.encode(), cuts) == events


@given(st.binary(max_size=60), st.lists(st.integers(0, 60)))
def test_any_bytes_are_read_the_same_in_any_chunks(stream: bytes, cuts: list[int]) -> None:
    assert read(stream, cuts) == read(stream)


def test_comments_and_other_fields_are_passed_over() -> None:
    assert read(b": keep-alive\n\nevent: message\nid: 7\nretry: 10\ndata: x\n\n") == ["x"]


def test_lines_of_data_are_joined() -> None:
    assert read(b"data: {\ndata: }\n\n") == ["{\n}"]


def test_only_one_blank_after_the_colon_belongs_to_the_format() -> None:
    assert read(b"data:x\n\ndata:  x\n\n") == ["x", " x"]


def test_an_event_without_its_blank_line_is_none() -> None:
    assert read(b"data: whole\n\ndata: cut\n") == ["whole"]


@given(st.lists(TEXTS.filter(str.strip), max_size=5), st.lists(st.integers(0, 99)))
def test_lines_are_read_the_same_in_any_chunks(lines: list[str], cuts: list[int]) -> None:
    stream = "".join(f"{line}\n" for line in lines).encode()
    reader = JsonLines()
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    assert [line for begin, end in pairwise(places) for line in reader.feed(stream[begin:end])] == lines


def test_blank_lines_and_one_without_its_end_are_none() -> None:
    assert list(JsonLines().feed(b"\n1\r\n \n2\n3")) == ["1\r", "2"]
