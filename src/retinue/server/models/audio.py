"""Speech over HTTP: `/audio/transcriptions` and `/audio/speech`, and the sound of chat completions.

A served chain that begins with `SpeechToText` hears `input_audio`, and one that ends with `TextToSpeech` speaks. The
run is of what is between: its log has the words, and no sound is kept.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Form, Response, UploadFile
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import Field

from ...components.speech import FORMATS, MAX_TEXT, VOICE, SpeechToText, TextToSpeech, Transcript
from ...errors import ToolError, UsageError
from ..context import Context, ContextDep
from ..http.api_errors import ApiError, invalid_value, missing_parameter, no_model
from ..http.common_schemas import Wire
from ..http.request_body import JsonRoute

router = APIRouter(route_class=JsonRoute)
Format = Literal["mp3", "opus", "aac", "flac", "wav", "pcm"]
_MEDIA_TYPES = {"mp3": "audio/mpeg", "opus": "audio/ogg", "pcm": "audio/pcm"}  # else audio/ and its name
_VOICES = frozenset(  # OpenAI's, for which the component's own voice stands in
    "alloy ash ballad cedar coral echo fable marin nova onyx sage shimmer verse".split()
)
_MAX_SOUNDS = 20  # of a request
_REMEMBERED = 500  # sounds whose words are kept: clients send with each request all that was said


class SpeechCreate(Wire):
    """`POST /audio/speech`."""

    model: str
    input: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
    voice: str | dict[str, Any]
    response_format: Format = "mp3"
    speed: Annotated[float, Field(ge=0.25, le=4.0)] = 1.0
    stream_format: Literal["audio"] = "audio"
    instructions: str | None = None  # no effect on this engine


class TranscriptionCreate(Wire):
    """`POST /audio/transcriptions`. `temperature` has no effect."""

    file: UploadFile
    model: str
    language: Annotated[str, Field(max_length=20)] = ""
    prompt: Annotated[str, Field(max_length=2_000)] = ""
    response_format: Literal["json", "text", "srt", "verbose_json", "vtt"] = "json"
    temperature: str = ""
    stream: Literal["", "false"] = ""


class AudioOption(Wire):
    """How a chat completion sounds."""

    voice: str | dict[str, Any]
    format: Literal["wav", "aac", "mp3", "flac", "opus", "pcm16"]


@router.post("/audio/speech", response_class=Response)
async def create_speech(body: SpeechCreate, context: ContextDep) -> Response:
    """Say a text."""
    voices = context.server.deployment.voices
    if body.model not in voices:
        raise no_model(body.model, voices)
    sound = await speak(context, voices[body.model], body.input, body, speed=body.speed)
    form = body.response_format
    return Response(sound, media_type=_MEDIA_TYPES.get(form, f"audio/{form}"))


@router.post("/audio/transcriptions")
async def create_transcription(body: Annotated[TranscriptionCreate, Form()], context: ContextDep) -> Response:
    """Return the text in a sound file of at most 20 MB."""
    ears, form = context.server.deployment.ears, body.response_format
    if body.model not in ears:
        raise no_model(body.model, ears)
    if form not in ("json", "text") and not ears[body.model].model:
        raise invalid_value("response_format", f"the model '{body.model}' tells no times; want json or text")
    heard = await _hear(context, ears[body.model], await body.file.read(), "file", body.language, body.prompt)
    match form:
        case "json":
            return JSONResponse({"text": heard.text})
        case "text":
            return PlainTextResponse(heard.text + "\n")
        case "verbose_json":
            about = {"task": "transcribe", "language": heard.language, "duration": heard.duration, "text": heard.text}
            return JSONResponse({**about, "segments": list(heard.segments)})
        case _:
            return PlainTextResponse(_subtitles(heard.segments, form))


def _subtitles(segments: Sequence[Mapping[str, Any]], form: str) -> str:
    """Return the segments as SubRip or WebVTT."""
    point = "," if form == "srt" else "."
    blocks = ["WEBVTT"] if form == "vtt" else []
    for number, one in enumerate(segments, start=1):
        times = " --> ".join(_clock(one[name], point) for name in ("start", "end"))
        blocks.append("\n".join([*([str(number)] if form == "srt" else ()), times, one["text"].strip()]))
    return "\n\n".join(blocks) + "\n"


def _clock(seconds: float, point: str) -> str:
    whole, milliseconds = divmod(round(seconds * 1000), 1000)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}{point}{milliseconds:03}"


async def check_sound(context: Context, model: str, modalities: Sequence[str], audio: AudioOption | None) -> None:
    """Raise `ApiError` if a chat completion is to be spoken and cannot be: before its run, which may have effects."""
    for kind in modalities:
        if kind not in ("text", "audio"):
            raise invalid_value("modalities", f"supported values are 'text' and 'audio', not '{kind[:64]}'")
    if "audio" not in modalities:
        return
    voices = context.server.deployment.voices
    if model not in voices:
        speaking = ", ".join(name for name in voices if name in context.server.deployment.agents) or "none"
        message = (
            f"The model '{model}' does not speak: a served chain that ends with TextToSpeech does. On this server "
            f"these do: {speaking}."
        )
        raise ApiError(400, message, param="modalities", code="unsupported_modality")
    if audio is None:
        raise missing_parameter("audio", 'Say how it is to sound: {"voice": …, "format": "wav"}.')
    if not isinstance(audio.voice, str) or audio.voice not in _VOICES or audio.format not in ("wav", "pcm16"):
        await speak(context, voices[model], "a", audio)


async def hear_messages(context: Context, model: str, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a chat's `messages` with the words of each `input_audio` as text, if the agent hears by `SpeechToText`.

    Raises `ApiError` for a sound that cannot be heard, and for one that has no words and is all there is.
    """
    told, ears = [dict(one) for one in messages], context.server.deployment.ears.get(model)
    sounds = [
        (at, number)
        for at, message in enumerate(told if ears is not None else ())
        for number, part in enumerate(message["content"] if isinstance(message.get("content"), list) else ())
        if part.get("type") == "input_audio"
    ]
    for at, number in sounds[_MAX_SOUNDS:]:
        raise invalid_value(
            f"messages[{at}].content[{number}].input_audio", f"a request has at most {_MAX_SOUNDS} sounds"
        )
    for at, number in sounds:
        assert ears is not None
        content = list(told[at]["content"])
        place = f"messages[{at}].content[{number}].input_audio"
        words = await _read_words(context, ears, model, content[number].get("input_audio"), place)
        content[number] = {"type": "text", "text": words}
        told[at]["content"] = content
    for at in dict.fromkeys(at for at, _ in sounds):
        if not any(part.get("type") != "text" or part.get("text") for part in told[at]["content"]):
            raise ApiError(400, "No words were heard.", param=f"messages[{at}].content", code="inaudible_audio")
    return told


async def _read_words(context: Context, ears: SpeechToText, model: str, given: Any, where: str) -> str:
    data = given.get("data") if isinstance(given, Mapping) else None
    if not isinstance(data, str):
        raise missing_parameter(f"{where}.data")
    try:
        sound = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise invalid_value(f"{where}.data", "want base64") from error
    key = (context.scope.tenant, model, hashlib.sha256(sound).hexdigest())
    heard = context.server.heard
    if (words := heard.get(key)) is None:
        words = heard[key] = (await _hear(context, ears, sound, f"{where}.data")).text
        while len(heard) > _REMEMBERED:
            del heard[next(iter(heard))]
    return words


async def _hear(
    context: Context, ears: SpeechToText, sound: bytes, where: str, language: str = "", prompt: str = ""
) -> Transcript:
    async with _at_work(context, where, "invalid_audio"):
        return await ears.transcribe(sound, language, prompt)


async def speak(
    context: Context, voice: TextToSpeech, text: str, how: SpeechCreate | AudioOption, *, speed: float = 1.0
) -> bytes:
    """Return the sound of `text`. Raises `ApiError` if it cannot be said as it was asked for."""
    form = how.response_format if isinstance(how, SpeechCreate) else how.format.removesuffix("16")
    assert form in FORMATS
    named = str(how.voice.get("id", "") if isinstance(how.voice, Mapping) else how.voice)
    if named not in _VOICES and not VOICE.fullmatch(named):
        raise invalid_value("voice", "want the name of a voice, such as alloy, en-us or de")
    async with _at_work(context, "voice", "invalid_value"):
        return await voice.speak(text, form, "" if named in _VOICES else named, speed)


@asynccontextmanager
async def _at_work(context: Context, where: str, code: str) -> AsyncIterator[None]:
    """Wait for a tenant's turn: recognizing and speaking take a core and memory. Raises `ApiError` for what fails."""
    shares = context.server.shares
    async with shares.speech.of(context.scope.tenant):
        try:
            yield
        except ToolError as error:
            raise ApiError(400, f"Invalid '{where}': {error}.", param=where, code=code) from error
        except UsageError as error:  # an extra or a model is not installed
            headers = {"x-should-retry": "false"}
            message = f"This server cannot do that: {error}."
            raise ApiError(503, message, kind="server_error", code="model_not_installed", headers=headers) from error
