"""Speech both ways, for real: what is said into a file is heard from it again."""

from __future__ import annotations

import io
import wave
from pathlib import Path
from runpy import run_path

import pytest

from retinue import Agent, Chain, PromptModel, ToolError, UsageError, tool
from retinue.components import SpeechToText, TextToSpeech
from retinue.testing import Case, ComponentSubject, component_cases
from retinue.tools import calculator

NUMBERS = "zero one two three four five six seven eight nine ten".split()
NUMBER = f"({' | '.join(NUMBERS)})"
PHRASES = [f"what is {NUMBER} (plus | times) {NUMBER}", f"the answer is {NUMBER}"]


def say(folder: Path, text: str) -> str:
    path: str = TextToSpeech(folder).run(text)["results"]
    return path


def hear(folder: Path, path: str) -> str:
    text: str = SpeechToText(folder, phrases=PHRASES).run(path)["results"]
    return text


@tool(effects="read")
def compute(question: str) -> str:
    """Compute a question in words."""
    *_, left, sign, right = question.split()
    one, other = NUMBERS.index(left), NUMBERS.index(right)
    return NUMBERS[one + other if sign == "plus" else one * other]


@pytest.mark.full
def test_a_spoken_question_is_answered_in_speech(tmp_path: Path) -> None:
    script = [
        {"when": "what is two plus three", "call": {"tool": "compute", "input": "what is two plus three"}, "times": 1},
        {"when": "^five", "finish": "The answer is five."},
    ]
    agent = Agent(PromptModel(script=script), [compute], strategy="react")
    chain = Chain([SpeechToText(tmp_path, phrases=PHRASES), agent, TextToSpeech(tmp_path)], name="audio")
    result = chain.run(say(tmp_path, "What is two plus three?"))
    assert result.error == ""
    with wave.open(str(tmp_path / result.answer)) as file:
        assert (file.getnchannels(), file.getsampwidth()) == (1, 2)
        assert file.getnframes() > file.getframerate() / 2
    assert hear(tmp_path, result.answer) == "the answer is five"


@pytest.mark.full
def test_the_example_speaks_its_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = run_path(str(Path(__file__).parents[2] / "examples" / "audio_chain.py"))
    script = [{"when": "plus", "call": {"tool": "Calculator", "input": "2 + 3"}, "times": 1}, {"finish": "5"}]
    answer = example["main"](tmp_path, Agent(PromptModel(script=script), [calculator]))
    assert capsys.readouterr().out.startswith("heard: what is two plus three\nsaid: 5\n")
    heard = Chain([SpeechToText(tmp_path, phrases=example["PHRASES"])]).run(answer)
    assert heard.answer == "five"


def test_the_same_text_is_the_same_file(tmp_path: Path) -> None:
    assert say(tmp_path, "hello") == say(tmp_path, "hello")
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.full
@pytest.mark.parametrize("case", component_cases(), ids=str)
def test_they_keep_to_the_contract(case: Case[ComponentSubject], tmp_path: Path) -> None:
    case.run(ComponentSubject(lambda: TextToSpeech(tmp_path), [{"text": "hello"}], [{"text": ""}], yaml=False))


def tone(rate: int, channels: int, width: int, frames: int = 2_000) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(b"\x00" * frames * channels * width)
    return out.getvalue()


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "not a WAV file"),
        (b"RIFF\x00\x00\x00\x00WAVE", "not a WAV file"),
        (tone(16_000, 1, 1), "want 16 bits and at least 4,000 samples a second, not 8 bits and 16,000"),
        (tone(2_000, 1, 2), "not 16 bits and 2,000"),
        (None, "there is no such file"),
    ],
)
def test_what_cannot_be_heard_is_told(tmp_path: Path, data: bytes | None, problem: str) -> None:
    if data is not None:
        (tmp_path / "a.wav").write_bytes(data)
    with pytest.raises(ToolError, match=problem):
        hear(tmp_path, "a.wav")


@pytest.mark.full
def test_silence_has_no_words_in_it(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(tone(44_100, 2, 2))
    (tmp_path / "b.wav").write_bytes(tone(16_000, 1, 2, 0))
    assert (hear(tmp_path, "a.wav"), hear(tmp_path, "b.wav")) == ("", "")


def test_nothing_outside_the_folder_is_heard(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "a.wav").write_bytes(tone(16_000, 1, 2))
    with pytest.raises(ToolError, match="leads out of the folder"):
        hear(tmp_path / "inside", "../a.wav")


def test_settings_that_cannot_be_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="espeak-ng has no voice 'nobody'"):
        TextToSpeech(tmp_path, voice="nobody").run("hello")
    with pytest.raises(UsageError, match="want the name of a voice"):
        TextToSpeech(tmp_path, voice="../x")
    with pytest.raises(UsageError, match="words_per_minute: want 80 to 450"):
        TextToSpeech(tmp_path, words_per_minute=7)
    with pytest.raises(ToolError, match="want a text of 1 to 20,000 characters"):
        say(tmp_path, " ")
    (tmp_path / "a.wav").write_bytes(tone(16_000, 1, 2))
    with pytest.raises(ToolError, match="phrases of known words"):
        SpeechToText(tmp_path, phrases=["what is ("]).run("a.wav")


@pytest.mark.full
@pytest.mark.parametrize("loudest", [0, 40])
def test_nothing_is_heard_in_silence(loudest: int, tmp_path: Path) -> None:
    with wave.open(str(tmp_path / "silence.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes(b"".join((loudest * (at % 2)).to_bytes(2, "little") for at in range(32_000)))
    assert SpeechToText(tmp_path).run("silence.wav")["results"] == ""
