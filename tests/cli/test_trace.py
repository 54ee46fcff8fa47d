"""What a person sees of a run: from Python as from the command line."""

from __future__ import annotations

import asyncio
import io
import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest
from hypothesis import given, strategies as st

from cli.test_ask import ACTION, ANSWER, environment
from fakes.openai_server import OpenAIServer
from fakes.said import Said
from retinue import Agent, PromptModel, UsageError
from retinue._internal.progress import progress_to
from retinue.core.events import Delta, Event
from retinue.core.protocols import Retry
from retinue.core.values import AgentAction, Capabilities, Reply, Usage
from retinue.display.run_display import StatusLines
from retinue.display.terminal import Measure, Paragraph, clean, count_cells
from retinue.tools import calculator

COST = Usage(100, 20, 60, 1)
SEEN = """\
agent · react · said · Calculator
Question: What is 47^0.23?
├─ step 1
│  I need to calculate.
│  ├─ Calculator("47^0.23")
│  │  → 2.4242784855673896 · N s
│  ╰─ model N s (first word after N s) · 100 tokens in (60 cached), 20 out
├─ step 2
│  I now know the final answer
╰─ Answer: 2.42
   model N s (first word after N s) · 100 tokens in (60 cached), 20 out
   2 replies, 1 tool step, N s, 200 tokens in (120 cached), 40 out
"""


def plainly(trace: str) -> str:
    """A trace without what differs from run to run."""
    return re.sub(r"\d+\.\d s", "N s", trace)


@pytest.mark.parametrize("sizes", [(), (1,), (7, 2)])
def test_a_step_is_thought_action_observation_and_costs_and_the_answer_stands_there_once(
    sizes: tuple[int, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    said = Said([Reply(ACTION, COST), Reply(ANSWER, COST)], sizes=sizes)
    agent = Agent(said, [calculator], trace=True)
    assert agent.run("What is 47^0.23?").answer == "2.42"
    shown = capsys.readouterr()
    assert (plainly(shown.err), shown.out) == (SEEN, "")


@pytest.mark.parametrize(
    ("strategy", "replies"),
    [
        (
            "react_json",
            [
                '{"actions": [{"action": "Calculator", "arguments": {"expression": "2^3"}}], '
                '"scratchpad": {"thought": "I \\"calculate\\""}}',
                '{"scratchpad": {"thought": "done"}, "answer": "It is 8"}',
            ],
        ),
        ("self_ask", [" Yes.\nFollow up: 2^3\n", "So the final answer is: It is 8"]),
        ("tool_calling", [Reply("", calls=(AgentAction("Calculator", {"expression": "2^3"}),)), "It is 8"]),
    ],
)
def test_other_strategies_replies_are_shown_in_the_same_words(
    strategy: str, replies: list[str | Reply], capsys: pytest.CaptureFixture[str]
) -> None:
    said = Said(replies, Capabilities(calls_tools=True), sizes=[3])
    Agent(said, [calculator], strategy=strategy, trace=True).run("2^3?")
    shown = capsys.readouterr().err
    assert re.search(r"^│  ├─ Calculator\(.*2\^3", shown, re.MULTILINE)
    assert re.search(r"^│  │  → 8 · ", shown, re.MULTILINE)
    assert shown.count("It is 8") == 1
    assert "{" not in shown.replace("${", "")
    if strategy == "react_json":
        assert '│  I "calculate"\n' in shown


def test_an_answer_that_was_taken_back_is_shown_anew(capsys: pytest.CaptureFixture[str]) -> None:
    said = Said(
        [Reply("Thought: a\nFinal Answer: It is nine"), Retry("cut", 0.0), "Thought: b\nFinal Answer: 8"], sizes=[4]
    )
    Agent(said, [calculator], trace=True).run("2^3?")
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if "Answer: " in line] == ["╰─ Answer: It is nine", "╰─ Answer: 8"]
    assert any("cut; asking again" in line for line in lines)


def test_what_a_place_cannot_encode_and_a_place_that_is_gone_end_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="cp1252")
    monkeypatch.setattr(sys, "stderr", narrow)
    assert Agent(Said([" I\nFinal Answer: 漢 \ud800"]), [calculator], trace=True).run("?").answer
    narrow.seek(0)
    assert "`- Answer: ? ?\n" in narrow.read()  # and the branches are drawn with what it can encode
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    assert Agent(Said([ANSWER]), [calculator], trace=True).run("?").answer == "2.42"


def test_a_listener_hears_of_all_events_and_nothing_is_shown_then(capsys: pytest.CaptureFixture[str]) -> None:
    inner = Agent(Said([" x\nFinal Answer: inner"]), [calculator], name="inner", trace=True)
    agent = Agent(Said([" I ask\nAction: inner\nAction Input: q\n", ANSWER]), [inner], trace=True)
    run, heard = agent.start("?"), list[tuple[str, Event | Delta]]()
    run.listener = lambda path, event: heard.append((path, event))
    result = asyncio.run(run.finish())
    assert tuple(event for path, event in heard if not path and not isinstance(event, Delta)) == result.events
    (call,) = result.children
    assert (
        tuple(event for path, event in heard if path == call and not isinstance(event, Delta)) == result.children[call]
    )
    assert capsys.readouterr() == ("", "")


PROGRAM = """\
import sys
sys.path.insert(0, "tests")
from fakes.said import Said
from retinue import Agent
from retinue.tools import calculator
inner = Agent(Said([" x\\nFinal Answer: inner words"]), [calculator], name="inner")
agent = Agent(Said([" I ask\\nAction: inner\\nAction Input: q\\n", " ok\\nFinal Answer: \\x1b[2Jdone"]), [inner]MORE)
print(agent.run("why?").answer)
"""


@pytest.mark.parametrize(("more", "shown"), [("", False), (", trace=True", True)])
def test_a_run_is_shown_if_that_is_asked_for_and_agents_that_are_its_tools_in_it(more: str, shown: bool) -> None:
    seen = at_a_terminal([sys.executable, "-c", PROGRAM.replace("MORE", more)])
    assert ("Question: why?" in seen) is shown
    plain = re.sub(r"\x1b\[[0-9;]*m", "", seen)
    assert ('├─ inner("q")' in plain) is shown
    assert ("│  │  inner · react · said" in plain) is shown
    assert ("│  │  ╰─ Answer: inner words" in plain) is shown
    assert plain.count("step 1") == 2 * shown
    assert ("\x1b[1;36m" in seen) is shown
    assert "\x1b[2J" not in seen.replace("\x1b[2Jdone\r\n", "", 1)  # what the program itself prints


def test_no_line_of_a_trace_is_wider_than_the_terminal(server: OpenAIServer) -> None:
    long = "word " * 60
    server.replies += [f" {long}\nAction: Calculator\nAction Input: 2^3\n", f" x\nFinal Answer: {long}{'z' * 200}"]
    words = [sys.executable, "-m", "retinue", "ask", long, "--base-url", server.url]
    seen = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", at_a_terminal(words))
    lines = [part for line in seen.split("\r\n") for part in line.split("\r")]
    assert max(map(count_cells, lines)) <= 80
    assert "   word word" in seen


def at_a_terminal(words: list[str]) -> str:
    """All that a program writes to a terminal of 80 columns."""
    with terminal() as (master, slave):
        process = subprocess.Popen(
            words, stdin=slave, stdout=slave, stderr=slave, env=environment(COLUMNS="80", TERM="xterm"),
            cwd=Path(__file__).parents[2],
        )  # fmt: skip
        slave.close()
        seen = b""
        try:
            while piece := os.read(master, 65_536):
                seen += piece
        except OSError:  # Linux's way of saying that nobody has it open any more
            pass
        assert process.wait(timeout=30) == 0, seen.decode()
    return seen.decode()


class terminal:
    def __enter__(self) -> tuple[int, TextIO]:
        self._master, slave = pty.openpty()
        self._slave = os.fdopen(slave, "w", encoding="utf-8")
        return self._master, self._slave

    def __exit__(self, *_: object) -> None:
        self._slave.close()
        os.close(self._master)


def test_a_line_that_says_what_goes_on_is_there_at_once_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    with terminal() as (master, slave):
        with StatusLines(slave) as status:
            status.show_progress("loading it", 500, 1000)
            assert "loading it 0 s" in os.read(master, 1000).decode()
        assert os.read(master, 1000).decode().endswith("\r\x1b[K\r")


def test_a_measure_says_how_much_how_fast_and_how_long_it_will_take() -> None:
    measure, clock = Measure(), iter([0.0, 10.0, 20.0, 20.0])
    told = [
        measure.write_bar(what, done, 100_000_000, now=next(clock))
        for what, done in (("fetching part 1", 20_000_000), ("fetching part 2", 50_000_000), ("fetching", 100_000_000))
    ]
    assert told == [
        "████░░░░░░░░░░░░░░░░  20% of 100 MB",
        "██████████░░░░░░░░░░  50% of 100 MB, 3.0 MB/s, 17 s left",
        "████████████████████ 100% of 100 MB, 4.0 MB/s",
    ]
    assert measure.write_bar("verifying", 7, 70, "files", now=next(clock)) == "██░░░░░░░░░░░░░░░░░░  10% of 70 files"


def test_of_runs_at_the_same_time_each_is_shown_whole(capsys: pytest.CaptureFixture[str]) -> None:
    both = threading.Barrier(2)

    def meet(query: str) -> str:
        both.wait(timeout=20)
        return "met"

    action = " m\nAction: meet\nAction Input: x\n"
    agents = [Agent(Said([action, f" y\nFinal Answer: {one}"]), [meet], trace=True) for one in ("one", "two")]
    threads = [threading.Thread(target=agent.run, args=[f"{at}?"]) for at, agent in enumerate(agents)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    blocks = capsys.readouterr().err.split("agent · react · said · meet\n")[1:]
    assert sorted(re.findall(r"(?:Question|Answer): (.*)\n", block) for block in blocks) == [
        ["0?", "one"],
        ["1?", "two"],
    ]


@given(st.text("ab \n漢é", max_size=200), st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(12, 40))
def test_however_a_text_comes_it_is_broken_between_its_words_into_lines_that_fit(
    text: str, sizes: list[int], width: int
) -> None:
    whole = Paragraph(width)
    at_once = whole.add(text) + whole.end()
    pieces = Paragraph(width)
    written = "".join(map(pieces.add, _cut(text, sizes))) + pieces.end()
    assert written == at_once
    assert all(count_cells(line) <= width for line in written.split("\n"))
    assert "".join(written.split()) == "".join(text.split())
    unbroken = Paragraph(0, rest="")
    assert "".join(map(unbroken.add, _cut(text, sizes))) + unbroken.end() == f"{text}\n"


def _cut(text: str, sizes: list[int]) -> Iterator[str]:
    at = turn = 0
    while at < len(text):
        size = sizes[turn % len(sizes)]
        yield text[at : at + size]
        at, turn = at + size, turn + 1


@pytest.mark.parametrize("width", [0, 40])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_an_escape_sequence_that_comes_in_pieces_is_taken_out_whole(size: int, width: int) -> None:
    pieces = Paragraph(width, rest="")
    text = "a \x1b[31mb\x1b]0;pwned by me\x07c\x1b]0;t\x1b\\d\x1b["  # the last one never ends
    assert "".join(map(pieces.add, _cut(text, [size]))) + pieces.end() == "a bcd[\n"


def test_what_turns_the_direction_of_writing_or_moves_the_cursor_is_taken_out() -> None:
    assert clean("a\x1b[2Jb\x1b]0;t\x07c\r\u202ed\ne\tf") == "abcd\ne\tf"


@pytest.mark.anyio
@pytest.mark.model
async def test_loading_the_model_is_told_before_it_is_loaded() -> None:
    said: list[str] = []
    with progress_to(lambda what, done, size: said.append(what)):
        try:
            model = PromptModel("local", context=1024)
        except UsageError:
            pytest.skip("no weights")
        await model.abilities()
    assert said[0].startswith("reading ")
    assert said[-1].startswith("loading ")
