"""Whatever a model writes as arguments, and whatever a server sends as events, is read."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from retinue.models.vendors import cohere, ollama
from retinue.models.wire_format import PartialReply, Wire, merge_options, read_arguments
from retinue.models.wires import chat, messages

VALUES = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5)


@given(st.dictionaries(st.text(), VALUES))
def test_an_object_is_read_as_values(given: dict[str, object]) -> None:
    assert read_arguments(json.dumps(given)) == given


@given(st.text())
def test_anything_else_is_the_text_as_it_is(text: str) -> None:
    assert read_arguments(text) in ({}, text)


def test_nesting_without_end_is_a_text() -> None:
    text = '{"a":' * 100_000
    assert read_arguments(text) == text


def test_pieces_without_an_index_belong_to_the_call_before() -> None:
    arriving = PartialReply()
    pieces = [{"id": "1", "function": {"name": "a", "arguments": ""}}, {"function": {"arguments": '{"x": 1}'}}]
    pieces += [{"id": "2", "function": {"name": "b", "arguments": {"y": 2}}}]
    for piece in pieces:
        chat.CHAT.read_body({"choices": [{"delta": {"tool_calls": [piece]}}]}, arriving)
    assert [(call.tool, call.tool_input, call.id) for call in arriving.list_actions()] == [
        ("a", {"x": 1}, "1"),
        ("b", {"y": 2}, "2"),
    ]


def test_equal_calls_that_come_together_are_two() -> None:
    arriving = PartialReply()
    piece = {"index": 0, "function": {"name": "a", "arguments": {"x": 1}}}
    chat.CHAT.read_body({"choices": [{"delta": {"tool_calls": [piece, piece]}}]}, arriving)
    assert [call.tool_input for call in arriving.list_actions()] == [{"x": 1}, {"x": 1}]


NAMES = "choices delta message content tool_calls function arguments index type text usage tokens done".split()
ODD = st.recursive(VALUES, lambda inner: st.dictionaries(st.sampled_from(NAMES), inner, max_size=4), max_leaves=9)
KINDS = [None, "message", "message_start", "content_block_start", "content_block_delta", "message_delta"]
KINDS += ["content-delta", "tool-plan-delta", "tool-call-start", "tool-call-delta", "message-end"]


@pytest.mark.parametrize(
    "wire", [chat.CHAT, chat.COMPLETIONS, messages.MESSAGES, cohere.VENDOR.chat, ollama.VENDOR.chat]
)
@given(st.sampled_from(KINDS), ODD)
def test_no_event_is_too_odd_to_be_read(wire: Wire, kind: str | None, odd: object) -> None:
    arriving = PartialReply()
    wire.read_body({"type": kind} | {name: odd for name in NAMES if name != "type"}, arriving)
    wire.read_body({"type": kind, "choices": [{"delta": odd}], "message": odd, "delta": {"message": odd}}, arriving)
    assert isinstance(arriving.list_actions(), tuple)


def test_lists_in_options_are_added_to_what_is_there() -> None:
    parameters = {"tools": [{"name": "mine"}], "text": {"verbosity": "low"}, "include": ["a"]}
    options = {"tools": [{"type": "web_search"}], "text": {"format": "f"}, "include": ["b"], "betas": ["c"]}
    merged = merge_options(parameters, options, ("tools", "betas"))
    assert merged["tools"] == [{"name": "mine"}, {"type": "web_search"}]
    assert (merged["betas"], merged["include"]) == (["c"], ["b"])
    assert merged["text"] == {"verbosity": "low", "format": "f"}
