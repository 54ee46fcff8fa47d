"""Files with a model's state: found by what they depend on, whole or not at all, few and private."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from retinue.models import prompt_states
from retinue.models.prompt_states import PromptStates, make_folder

TEXT = "The wording of a strategy."
STATES = PromptStates(("engine 1", "model.gguf", 1000))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RETINUE_CACHE", str(tmp_path))
    monkeypatch.delenv("RETINUE_PROMPT_STATES", raising=False)  # as a server's command leaves it
    made = make_folder()
    assert made == tmp_path / "states"
    return made


def keep(text: str = TEXT, content: bytes = b"a state", states: PromptStates = STATES) -> None:
    partial = states.create(text)
    partial.write_bytes(content)
    states.complete(text, partial)


def test_a_state_is_found_again() -> None:
    keep()
    found = STATES.find(TEXT)
    assert found is not None
    assert found.read_bytes() == b"a state"


@pytest.mark.parametrize(
    ("states", "text"),
    [
        (STATES, TEXT + " More."),
        (STATES, ""),
        (PromptStates(("engine 2", "model.gguf", 1000)), TEXT),
        (PromptStates(("engine 1", "model.gguf", 1001)), TEXT),
        (PromptStates(("engine 1", "model.gguf1000")), TEXT),
    ],
)
def test_a_state_of_another_text_engine_or_model_is_not_found(states: PromptStates, text: str) -> None:
    keep()
    assert states.find(text) is None


@pytest.mark.parametrize("damaged", [b"", b"a stat", b"a stbte", b"a state "])
def test_a_damaged_file_is_deleted(folder: Path, damaged: bytes) -> None:
    keep()
    (path,) = folder.iterdir()
    path.write_bytes(damaged)
    assert STATES.find(TEXT) is None
    assert list(folder.iterdir()) == []


def test_a_file_that_is_not_complete_yet_is_not_found(folder: Path) -> None:
    STATES.create(TEXT).write_bytes(b"a st")
    assert STATES.find(TEXT) is None


def test_only_their_user_can_read_them(folder: Path) -> None:
    keep()
    (path,) = folder.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_two_processes_that_keep_the_same_state_leave_one(folder: Path) -> None:
    first, second = STATES.create(TEXT), STATES.create(TEXT)
    for partial in (first, second):
        partial.write_bytes(b"a state")
    for partial in (first, second):
        STATES.complete(TEXT, partial)
    assert len(list(folder.iterdir())) == 1
    assert STATES.find(TEXT) is not None


def test_those_used_last_stay(folder: Path) -> None:
    for number in range(prompt_states.MOST_FILES):
        keep(str(number))
        for path in folder.glob("*.state"):
            os.utime(path, (path.stat().st_mtime - 10,) * 2)
    assert STATES.find("0") is not None  # used again
    keep("one more")
    assert len(list(folder.iterdir())) == prompt_states.MOST_FILES
    assert STATES.find("0") is not None
    assert STATES.find("1") is None


def test_all_of_them_together_are_limited_in_size(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_states, "MOST_BYTES", 100)
    for number in range(5):
        keep(str(number), bytes(40))
        for path in folder.glob("*.state"):
            os.utime(path, (path.stat().st_mtime - 10,) * 2)
    assert [STATES.find(str(number)) is not None for number in range(5)] == [False, False, False, True, True]


def test_what_a_killed_process_left_behind_is_deleted_after_an_hour(folder: Path) -> None:
    left, writing = STATES.create("left"), STATES.create("being written")
    os.utime(left, (left.stat().st_mtime - 4000,) * 2)
    keep()
    assert not left.exists()
    assert writing.exists()


@pytest.mark.parametrize("word", ["off", "0", "no", "OFF"])
def test_they_can_be_switched_off(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    monkeypatch.setenv("RETINUE_PROMPT_STATES", word)
    assert make_folder() is None


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RETINUE_CACHE", str(tmp_path / "file"))
    assert make_folder() is None
