"""The parser on 102 recorded transcripts (see tests/data/README.md)."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from retinue import Tool
from retinue.extend import AgentAction
from retinue.strategies.parsing.actions import UnreadableReply
from retinue.strategies.parsing.react_text import parse

LOG = Path(__file__).parents[1] / "data" / "reflexion_base_react_thought_log.txt"
TOOLS = [Tool(name, lambda query: query, "Wikipedia") for name in ("Search", "Lookup")]


def recorded() -> list[str]:
    """The replies as the model gave them: each from after "Thought N:" to before "Observation N:"."""
    text = LOG.read_text(encoding="utf-8")
    return re.findall(r"^Thought \d+:((?:.|\n)*?)(?=^Observation \d+:|^Question:|\Z)", text, re.MULTILINE)


def shown(reply: str) -> tuple[str, str]:
    """The action a reader sees; whole inputs in quotes are meant without them."""
    (action,) = re.findall(r"^Action \d+: (\w+)\[(.*)\]$", reply, re.MULTILINE)
    kind, value = action
    return kind, re.sub(r'^"([^"]*)"$', r"\1", value)


def read(reply: str) -> tuple[str, str]:
    decision = parse(reply, TOOLS).decision
    if isinstance(decision, AgentAction):
        return decision.tool, str(decision.tool_input)
    return "Finish", decision.output


def test_every_recorded_reply_reads_as_the_action_it_shows() -> None:
    replies = recorded()
    assert len(replies) == 369
    assert [read(reply) for reply in replies] == [shown(reply) for reply in replies]
    assert Counter(kind for kind, _ in map(read, replies)) == {"Search": 265, "Lookup": 12, "Finish": 92}


def test_a_recorded_reply_is_read_whole_and_what_is_invented_after_it_is_not() -> None:
    for reply in recorded():
        alone = parse(reply, TOOLS)
        assert reply[: alone.length].strip() == reply.strip()
        followed = parse(f"{reply}Observation 9: made up\nThought 10: so\nAction 10: Finish[made up]\n", TOOLS)
        assert followed.length == alone.length


def test_a_recorded_reply_cut_off_inside_its_action_is_unreadable() -> None:
    unreadable = 0
    for reply in recorded():
        try:
            parse(reply.rstrip().removesuffix("]"), TOOLS)
        except UnreadableReply:
            unreadable += 1
    assert unreadable == 369
