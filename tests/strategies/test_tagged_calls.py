"""Calls between tags, and as OPEA's lines: read under every strategy that reads text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from fakes.said import Said
from retinue import Agent, Budget, Tool, tool
from retinue.extend import AgentAction, AgentFinish
from retinue.strategies import self_ask
from retinue.strategies.parsing.actions import UnreadableReply
from retinue.strategies.parsing.json_reply import read_reply
from retinue.strategies.parsing.lenient_json import Truncated
from retinue.strategies.parsing.react_text import parse
from retinue.strategies.parsing.tagged_calls import find_calls


@tool(effects="read")
def search_knowledge_base(query: str) -> str:
    """Search knowledge base for a given query. Returns text related to the query."""
    return f"a text on {query}"


@tool(effects="read")
def get_billboard_rank_date(rank: int, date: str) -> str:
    """The song that had this rank."""
    return f"number {rank} of {date}"


@tool(effects="read")
def get_current_date() -> str:
    """Today."""
    return "2024-11-05"


TOOLS: tuple[Tool, ...] = (search_knowledge_base, get_billboard_rank_date, get_current_date)
RANK = ("get_billboard_rank_date", {"rank": 1, "date": "2024-01-01"})
SEARCH = ("search_knowledge_base", {"query": "Thriller"})
RANK_JSON = '{"tool": "get_billboard_rank_date", "args": {"rank": 1, "date": "2024-01-01"}}'
SEARCH_JSON = '{"tool": "search_knowledge_base", "args": {"query": "Thriller"}}'
NAMED = '{"name": "search_knowledge_base", "arguments": {"query": "Thriller"}}'
READ: dict[str, tuple[str, list[tuple[str, Any]]]] = {
    "OPEA": (f"TOOL CALL: {SEARCH_JSON}", [SEARCH]),
    "OPEA, several": (f"TOOL CALL: {SEARCH_JSON}\nTOOL CALL: {RANK_JSON}\n", [SEARCH, RANK]),
    "OPEA, after a thought": (f"I need the song.\nTOOL CALL: {SEARCH_JSON}\n", [SEARCH]),
    "OPEA, with its role": (f"assistant\n\nTOOL CALL: {SEARCH_JSON}", [SEARCH]),
    "OPEA, bold": (f"**Tool Call:** {SEARCH_JSON}", [SEARCH]),
    "OPEA, over lines": (f"TOOL CALL:\n{SEARCH_JSON.replace(', ', ',' + chr(10))}", [SEARCH]),
    "OPEA, and an answer made up": (f'TOOL CALL: {SEARCH_JSON}\nFINAL ANSWER: {{"answer": "x"}}', [SEARCH]),
    "tagged": (f"<tool_call>\n{NAMED}\n</tool_call>", [SEARCH]),
    "tagged, several": (
        f"Now.\n<tool_call>{NAMED}</tool_call>\n<tool_call>{RANK_JSON}</tool_call>",
        [SEARCH, RANK],
    ),
    "tagged, not closed": (f"<tool_call>{NAMED}", [SEARCH]),
    "a function": ('<function=search_knowledge_base>{"query": "Thriller"}</function>', [SEARCH]),
    "a function with parameters": (
        "<tool_call>\n<function=get_billboard_rank_date>\n<parameter=rank>\n1\n</parameter>\n"
        "<parameter=date>\n2024-01-01\n</parameter>\n</function>\n</tool_call>",
        [("get_billboard_rank_date", {"rank": "1", "date": "2024-01-01"})],
    ),
    "a function of nothing": ("<function=get_current_date></function>", [("get_current_date", {})]),
    "LangChain's": (
        "<tool>search_knowledge_base</tool><tool_input>Thriller</tool_input>",
        [("search_knowledge_base", "Thriller")],
    ),
    "LangChain's, at its stop word": (
        "<tool>search_knowledge_base</tool>\n<tool_input>Thriller",
        [("search_knowledge_base", "Thriller")],
    ),
}


def named(actions: Any) -> list[tuple[str, Any]]:
    """The actions; a text that a tool takes alone stands for itself."""
    pairs = [(one.tool, one.tool_input) for one in actions]
    return [
        (name, {"query": given} if name == SEARCH[0] and isinstance(given, str) else given) for name, given in pairs
    ]


@pytest.mark.parametrize(("text", "expected"), READ.values(), ids=READ)
def test_every_reader_understands_them(text: str, expected: list[tuple[str, Any]]) -> None:
    expected = named([AgentAction(*one) for one in expected])
    assert named(read_reply(text, TOOLS).actions) == expected
    asked = self_ask.parse_self_ask(text, TOOLS).decision
    assert named(asked) == expected
    decision, length = parse(text, TOOLS)
    assert named([decision]) == expected[:1], "of several, the first"
    assert "made up" not in text[:length]


@pytest.mark.parametrize("strategy", ["react", "react_json", "self_ask"])
def test_opeas_transcript_runs(strategy: str) -> None:
    replies = [f"TOOL CALL: {SEARCH_JSON}\n", f"TOOL CALL: {RANK_JSON}\n", 'FINAL ANSWER: {"answer": "Thriller, 1982"}']
    if strategy == "self_ask":
        replies[-1] = "So the final answer is: Thriller, 1982"
    result = Agent(Said(replies), TOOLS, strategy=strategy, budget=Budget(5)).run("Which song?")
    assert result.answer == "Thriller, 1982"
    assert [seen.text for seen in result.evidence] == ["a text on Thriller", "number 1 of 2024-01-01"]


def test_opeas_final_answer_is_what_stands_in_it() -> None:
    for text, answer in (
        ('FINAL ANSWER: {"answer": "Paris"}', "Paris"),
        ('**FINAL ANSWER:** {"answer": 4}', "4"),
        ('FINAL ANSWER: {"city": "Paris"}', '{"city": "Paris"}'),
        ("FINAL ANSWER: {Paris}", "{Paris}"),
        ('Final Answer: {"answer": "x"}', '{"answer": "x"}'),
    ):
        decision = parse(text, TOOLS).decision
        assert isinstance(decision, AgentFinish)
        assert decision.output == answer


@pytest.mark.parametrize(
    "text",
    [
        f"TOOL CALL: {SEARCH_JSON[:-4]}",
        f"<tool_call>{NAMED[:-4]}",
        '<function=search_knowledge_base>{"query": "Thr',
        "<function=search_knowledge_base><parameter=query>Thr",
        "<tool_call>search</tool_call>",
        'TOOL CALL: {"id": 3}',
        f"Question: x\nTOOL CALL: {SEARCH_JSON}",
    ],
)
def test_what_is_cut_or_no_call_is_unreadable(text: str) -> None:
    readers = (
        (parse, self_ask.parse_self_ask)
        if text.startswith("Question")
        else (parse, read_reply, self_ask.parse_self_ask)
    )
    for reader in readers:
        with pytest.raises(UnreadableReply):
            reader(text, TOOLS)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (f'{{"answer": "write TOOL CALL: {{…}} or <tool_call>{{x}}</tool_call>"}}\nTOOL CALL: {SEARCH_JSON}', None),
        (f"Final Answer: it writes <tool_call>{NAMED}</tool_call>", f"it writes <tool_call>{NAMED}</tool_call>"),
    ],
)
def test_a_decision_that_comes_first_counts(text: str, answer: str | None) -> None:
    decision = parse(text, TOOLS).decision
    assert isinstance(decision, AgentFinish)
    assert decision.output == (answer or "write TOOL CALL: {…} or <tool_call>{x}</tool_call>")
    if answer is None:
        assert read_reply(text, TOOLS).answer
    asked = self_ask.parse_self_ask(f"Follow up: what is <tool_call>{NAMED}</tool_call>?", TOOLS).decision
    assert named(asked) == [(SEARCH[0], {"query": f"what is <tool_call>{NAMED}</tool_call>?"})]


PIECES = (
    'TOOL CALL: <tool_call> </tool_call> <function=f> <parameter=p> </parameter> </function> <tool>f</tool> {" " : } { '
)
TEXTS = st.lists(
    st.sampled_from([*PIECES.split(" "), " ", "\n", "<tool_input>", '"a": 1', NAMED]) | st.text(max_size=3)
)


@settings(max_examples=300)
@given(TEXTS.map("".join))
def test_calls_of_any_text_stand_in_their_order_within_it(text: str) -> None:
    end = 0
    for call in find_calls(text):
        assert end <= call.begin < call.end <= len(text)
        assert isinstance(call.value, Truncated | dict)
        end = call.end


@pytest.mark.parametrize(
    "piece", ["<tool_call>{", '<tool_call>{"a":', "<function=f><parameter=p>", "TOOL CALL: {\n", "<tool>"]
)
def test_long_runs_of_beginnings_are_read_at_once(piece: str) -> None:
    assert len(list(find_calls(piece * 20_000))) <= 1  # one that follows each to the end takes hours
