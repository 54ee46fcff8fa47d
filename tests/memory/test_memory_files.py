"""Memories in files: whole after any crash, and refused with a reason when they are not what they must be."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from fakes.memories import Replying, literal
from retinue import DataError, UsageError
from retinue.memory import ConversationMemory, EntityMemory

WRITER = """
import asyncio, sys
from retinue.memory import ConversationMemory

async def main():
    memory = ConversationMemory(window=100_000, path=sys.argv[1])
    while True:
        await memory.remember(f"question {len(memory.turns)}", "answer " * 500)
        print(len(memory.turns), flush=True)

asyncio.run(main())
"""


def test_a_process_that_is_killed_while_it_writes_loses_no_turn(tmp_path: Path) -> None:
    path, saved = tmp_path / "c.json", 0
    for more in (3, 20, 41):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        for line in writer.stdout:
            if int(line) >= saved + more:
                break
        writer.send_signal(signal.SIGKILL)
        acknowledged = [int(line), *map(int, writer.stdout.read().split())]
        writer.wait()
        writer.stdout.close()
        saved = len(ConversationMemory(path=path).turns)
        assert saved in (acknowledged[-1], acknowledged[-1] + 1)
    assert [turn.question for turn in ConversationMemory(path=path).turns] == [f"question {at}" for at in range(saved)]
    assert path.stat().st_mode & 0o077 == 0


@settings(max_examples=50)
@given(st.lists(st.tuples(st.text(st.characters()), st.text(st.characters())), max_size=5))
def test_any_text_is_there_again(tmp_path_factory: pytest.TempPathFactory, said: list[tuple[str, str]]) -> None:
    path = tmp_path_factory.mktemp("memory") / "c.json"
    memory = ConversationMemory(path=path)
    for question, answer in said:
        asyncio.run(memory.remember(question, answer))
    assert ConversationMemory(path=path).turns == memory.turns
    assert len(memory.turns) == len(said)


@settings(max_examples=50)
@given(
    st.binary(max_size=200)
    | st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.sampled_from(["retinue", "memory", "turns", "entities"]), inner)
        ),
    ).map(lambda value: json.dumps(value).encode())
)
def test_what_is_no_memory_is_refused_and_left_alone(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("memory") / "c.json"
    path.write_bytes(content)
    for kind in (ConversationMemory, lambda path: EntityMemory(Replying(literal), path=path)):
        with pytest.raises(DataError, match="is not a readable memory"):
            kind(path=path)
    assert path.read_bytes() == content


HEAD = {"retinue": 1, "memory": "Conversation"}
TURN = {"question": "q", "answer": "a"}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({}, "it is not a Conversation of version 1"),
        ({**HEAD, "retinue": 2}, "it is not a Conversation of version 1"),
        ({**HEAD, "memory": "Entities"}, "it is not a Conversation of version 1"),
        ({**HEAD, "turns": [TURN, {"question": 1, "answer": "a"}]}, "turns.1.question: Input should be a valid string"),
        ({**HEAD, "turns": [TURN, {"question": "q"}]}, "turns.1.answer: Field required"),
        ({**HEAD, "turns": {}}, "turns: Input should be a valid array"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_a_line(value: Any, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(json.dumps(value))
    with pytest.raises(DataError) as error:
        ConversationMemory(path=path)
    assert str(error.value) == f"{path} is not a readable memory: {problem} (move it away to start a new one)"


def test_a_file_that_was_cut_or_cannot_be_read_or_written_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    memory = ConversationMemory(path=path)
    asyncio.run(memory.remember("q", "a"))
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(DataError, match="is not a readable memory"):
        ConversationMemory(path=path)
    with pytest.raises(DataError, match="Is a directory"):
        ConversationMemory(path=tmp_path)
    (tmp_path / "file").write_text("")
    nowhere = ConversationMemory(path=tmp_path / "file" / "c.json")
    with pytest.raises(UsageError, match="cannot be written"):
        asyncio.run(nowhere.remember("q", "a"))
