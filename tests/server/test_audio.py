"""Speech over HTTP through the SDK: a WAV in and a WAV out of a served chain, and texts and sounds by themselves."""

from __future__ import annotations

import base64
import io
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from fakes.served import Served, serving
from retinue.components import SpeechToText, TextToSpeech
from retinue.errors import DataError
from retinue.models.weights import read_bundles
from retinue.server.agents.deployment import Deployment

NUMBER = "(one | two | three | four | five)"
PHRASES = [f"what is {NUMBER} plus {NUMBER}", f"the answer is {NUMBER}", "and once more"]
FILE = f"""\
retinue: 1
components:
  - {{name: ears, type: SpeechToText, params: {{folder: sounds, phrases: {PHRASES!r}}}}}
  - {{name: voice, type: TextToSpeech, params: {{folder: sounds}}}}
agents:
  - name: answerer
    params:
      script:
        - {{when: "what is two plus three", say: "The answer is five."}}
        - {{when: "and once more", say: "The answer is four."}}
        - {{when: "", say: "The answer is one."}}
  - {{name: text only, params: {{script: [{{when: "", say: "Done."}}], exposed: true}}}}
chains:
  - {{name: audio, steps: [ears, answerer, voice]}}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("audio")
    (folder / "sounds").mkdir()
    with serving(folder, FILE) as one:
        yield one


@pytest.fixture(scope="module")
def sdk(server: Served) -> Iterator[openai.OpenAI]:
    with server.client() as client:
        yield client


@pytest.fixture(scope="module")
def question(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A WAV file in base64."""
    return say(tmp_path_factory.mktemp("said"), "What is two plus three?")


def say(folder: Path, text: str) -> str:
    return base64.b64encode((folder / TextToSpeech(folder).run(text)["results"]).read_bytes()).decode()


def words(folder: Path, sound: bytes) -> str:
    (folder / "heard.wav").write_bytes(sound)
    text: str = SpeechToText(folder, phrases=PHRASES).run("heard.wav")["results"]
    return text


def as_wav(samples: bytes, rate: int = 24_000) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples)
    return out.getvalue()


def asked(data: str) -> Any:
    return {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}]}


def test_a_wav_in_and_a_wav_out(sdk: openai.OpenAI, question: str, tmp_path: Path) -> None:
    sound: Any = {"model": "audio", "modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": "wav"}}
    first = sdk.chat.completions.create(messages=[asked(question)], **sound)
    said = first.choices[0].message
    assert said.audio is not None
    assert (said.content, said.audio.transcript) == (None, "The answer is five.")
    assert words(tmp_path, base64.b64decode(said.audio.data)) == "the answer is five"
    assert said.audio.expires_at > first.created
    more = [
        asked(question),
        {"role": "assistant", "audio": {"id": said.audio.id}},
        asked(say(tmp_path, "And once more")),
    ]
    second = sdk.chat.completions.create(messages=more, **sound).choices[0].message
    assert second.audio is not None
    assert second.audio.transcript == "The answer is four."
    more[1]["audio"]["id"] = "audio_000000000000000000000000"
    with pytest.raises(openai.BadRequestError, match="unknown, or has expired") as refused:
        sdk.chat.completions.create(messages=more, **sound)
    assert refused.value.param == "messages[1].audio.id"
    plain = sdk.chat.completions.create(model="audio", messages=[asked(question)])
    assert plain.choices[0].message.content == "The answer is five."


@pytest.mark.full
def test_a_spoken_answer_is_streamed(sdk: openai.OpenAI, question: str, tmp_path: Path) -> None:
    how: Any = {"model": "audio", "modalities": ["text", "audio"], "audio": {"voice": "en-us", "format": "pcm16"}}
    transcript, samples, finishes = "", b"", []
    stream: Any = sdk.chat.completions.create(messages=[asked(question)], stream=True, **how)
    for chunk in stream:
        delta = chunk.choices[0].delta.to_dict()
        assert not delta.get("content")
        transcript += delta.get("audio", {}).get("transcript", "")
        samples += base64.b64decode(delta.get("audio", {}).get("data", ""))
        finishes.append(chunk.choices[0].finish_reason)
    assert (transcript, finishes[-1], set(finishes[:-1])) == ("The answer is five.", "stop", {None})
    assert words(tmp_path, as_wav(samples)) == "the answer is five"


@pytest.mark.full
def test_texts_and_sounds_by_themselves(sdk: openai.OpenAI, question: str, tmp_path: Path) -> None:
    said = sdk.audio.speech.create(model="voice", voice="alloy", input="The answer is two.", response_format="wav")
    assert said.response.headers["content-type"] == "audio/wav"
    assert words(tmp_path, said.content) == "the answer is two"
    samples = sdk.audio.speech.create(
        model="audio", voice="en-us", input="The answer is two.", response_format="pcm", speed=0.9
    )
    assert words(tmp_path, as_wav(samples.content)) == "the answer is two"
    for model in ("ears", "audio"):
        heard = sdk.audio.transcriptions.create(model=model, file=("q.wav", base64.b64decode(question)))
        assert heard.text == "what is two plus three"
    text: Any = sdk.audio.transcriptions.create(
        model="ears", file=("q.wav", base64.b64decode(question)), response_format="text"
    )
    assert text.strip() == "what is two plus three"


def test_what_cannot_be_heard_or_said_is_refused_with_its_place(sdk: openai.OpenAI, question: str) -> None:
    silence = base64.b64encode(as_wav(bytes(32_000), 16_000)).decode()
    spoken: Any = {"modalities": ["text", "audio"], "messages": [{"role": "user", "content": "Hello"}]}
    how = {"voice": "alloy", "format": "wav"}
    chat: list[tuple[dict[str, Any], str, str]] = [
        (
            {"model": "audio", "messages": [asked("UklGRg==")]},
            "messages[0].content[0].input_audio.data",
            "not a WAV file",
        ),
        ({"model": "audio", "messages": [asked("?")]}, "messages[0].content[0].input_audio.data", "base64"),
        ({"model": "audio", "messages": [asked(silence)]}, "messages[0].content", "No words were heard"),
        ({"model": "text only", "audio": how, **spoken}, "modalities", "these do: audio"),
        ({"model": "audio", **spoken}, "audio", "how it is to sound"),
        ({"model": "audio", **spoken, "modalities": ["video"]}, "modalities", "'text' and 'audio'"),
        ({"model": "audio", **spoken, "audio": {**how, "voice": "../x"}}, "voice", "want the name of a voice"),
        ({"model": "audio", **spoken, "audio": {**how, "voice": "nobody"}}, "voice", "has no voice 'nobody'"),
        ({"model": "text only", "messages": [asked(question)]}, "messages[0].content[0]", "not known to hear sounds"),
    ]
    for given, param, message in chat:
        with pytest.raises(openai.BadRequestError, match=message) as refused:
            sdk.chat.completions.create(**given)
        assert refused.value.param == param, given
    with pytest.raises(openai.BadRequestError, match="tells no times"):
        sdk.audio.transcriptions.create(model="ears", file=("q.wav", b"RIFF"), response_format="verbose_json")
    with pytest.raises(openai.BadRequestError, match="not a WAV file"):
        sdk.audio.transcriptions.create(model="ears", file=("q.wav", b"#EXTM3U"))
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        sdk.audio.transcriptions.create(model="text only", file=("q.wav", b"RIFF"))
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        sdk.audio.speech.create(model="ears", voice="alloy", input="Hello")


def test_speech_within_a_chain_is_not_served(tmp_path: Path) -> None:
    path = tmp_path / "agents.yml"
    (tmp_path / "sounds").mkdir()
    for steps in ("[answerer, ears, answerer]", "[answerer, voice, ears]", "[ears, voice]"):
        path.write_text(FILE.replace("[ears, answerer, voice]", steps))
        with pytest.raises(DataError, match="audio cannot be served"):
            Deployment.load(path)
    path.write_text(
        FILE.replace("[ears, answerer, voice]}", "[ears, answerer, voice]}\n  - {name: outer, steps: [audio]}")
    )
    with pytest.raises(DataError, match="outer cannot be served"):
        Deployment.load(path)


@pytest.mark.long
@pytest.mark.skipif(
    not read_bundles()["whisper-base"].is_here, reason="needs whisper-base: retinue models pull whisper-base"
)
def test_whisper_hears_what_nobody_listed(tmp_path: Path) -> None:
    text = FILE.replace(f"phrases: {PHRASES!r}", "model: whisper-base").replace("what is two plus three", "weather")
    (tmp_path / "sounds").mkdir()
    with serving(tmp_path, text) as server, server.client() as client:
        how: Any = {"model": "audio", "modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": "mp3"}}
        data = say(tmp_path, "Good evening, how is the weather today?")
        spoken = client.chat.completions.create(messages=[asked(data)], **how).choices[0].message.audio
        assert spoken is not None
        assert spoken.transcript == "The answer is five."
        for name in ("mp3", "opus", "aac"):
            said = client.audio.speech.create(model="voice", voice="alloy", input="Good morning.", response_format=name)
            heard: Any = client.audio.transcriptions.create(
                model="ears", file=(f"a.{name}", said.content), response_format="verbose_json"
            )
            assert heard.text.lower().startswith("good morning"), name
            assert (heard.language, heard.segments[0].start) == ("en", 0.0)
        file = ("a.mp3", base64.b64decode(spoken.data))
        for form, begin in (("srt", "1\n00:00:00,000 --> 00:00:0"), ("vtt", "WEBVTT\n\n00:00:00.000 --> 00:00:0")):
            told: Any = client.audio.transcriptions.create(model="ears", file=file, response_format=form)  # type: ignore[call-overload]
            assert told.startswith(begin)
        playlist = b"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile:///etc/passwd\n"
        with pytest.raises(openai.BadRequestError, match="no sound file"):
            client.audio.transcriptions.create(model="ears", file=("a.mp3", playlist))
