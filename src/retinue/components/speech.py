"""`SpeechToText` and `TextToSpeech`: speech in sound files, recognized and spoken on this machine."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._internal.concurrency import run_in_thread
from .._internal.extras import check_extra
from .._internal.files import replace_file
from .._internal.processes import read_output
from ..core.component import Component
from ..documents.folder_index import read_file_in
from ..errors import DataError, ToolError, UsageError
from ..models import weights
from .services import ResultText

WORKER = "retinue.components.speech_worker"
MAX_TEXT = 20_000  # characters
PLAIN = ("wav", "pcm")  # formats that need no encoder
FORMATS = (*PLAIN, "mp3", "opus", "aac", "flac")
VOICE = re.compile(r"[A-Za-z0-9+_-]{1,40}")


@dataclass(frozen=True, slots=True)
class Transcript:
    """What was heard. Whisper also tells the `language`, the `duration` in seconds, and the `segments` as OpenAI's API
    has them: with `start`, `end` and `text`."""

    text: str
    language: str = ""
    duration: float = 0.0
    segments: Sequence[Mapping[str, Any]] = ()


class SpeechToText(Component):
    """Recognizes speech in sound files, offline.

    Without a `model`, pocketsphinx recognizes English in WAV files (16 bits). Its vocabulary is open but its ear is not
    good. It hears reliably where `phrases` say what can be said. Whisper hears well, in many languages, and also reads
    MP3, FLAC, Ogg, MP4 and WebM.

    Args:
        folder: Where the files are; nothing outside is read.
        phrases: What can be said, in JSGF: `["what is (one | two) plus (one | two)"]`. Words are its dictionary's.
        model: `whisper-base` (fetched once: `retinue models pull whisper-base`), or the path of a folder with a
            Whisper model for CTranslate2.
        language: The language spoken, by its code, such as `de`; Whisper hears which one it is if this is empty.
        seconds: Time limit of each file.

    Raises `UsageError` without the extra `audio`, or with a model without the extra `whisper`.
    """

    effects = "read"

    def __init__(
        self,
        folder: str | Path,
        *,
        phrases: Sequence[str] = (),
        model: str = "",
        language: str = "",
        seconds: float = 60.0,
        name: str = "SpeechToText",
    ) -> None:
        extra, package = ("whisper", "faster_whisper") if model else ("audio", "pocketsphinx")
        check_extra(name, extra, package, "numpy")
        if model and phrases:
            raise UsageError("phrases are for pocketsphinx, and Whisper needs none: leave out phrases or model")
        self.name = name
        self.folder = Path(folder).expanduser()
        self.phrases = (phrases,) if isinstance(phrases, str) else tuple(phrases)
        self.model, self.language, self.seconds = model, language, seconds

    async def run_async(self, path: str) -> ResultText:
        """Return the text in the file at `path`, relative to the folder.

        Raises `ToolError` for a file that cannot be read or heard.
        """
        try:
            data = await run_in_thread(read_file_in, path.strip(), self.folder)
        except DataError as error:
            raise ToolError(str(error)) from error
        try:
            return {"results": (await self.transcribe(data)).text}
        except ToolError as error:
            raise ToolError(f"{path}: {error}") from error

    async def transcribe(self, data: bytes, language: str = "", prompt: str = "") -> Transcript:
        """Return what is said in a sound file with these bytes. `prompt` shows Whisper how words are spelled. Raises
        `ToolError` for what cannot be heard, and `UsageError` if the model is not here."""
        folder = await run_in_thread(self._find_model_folder)
        settings = {"phrases": self.phrases, "model": folder, "language": language or self.language, "prompt": prompt}
        try:
            answer = json.loads(await read_output(WORKER, ("hear", json.dumps(settings)), data, self.seconds))
        except TimeoutError:
            raise ToolError(f"was not heard to its end within {self.seconds:g} seconds") from None
        except ValueError:
            raise ToolError("cannot be heard; the recognizer ended without a result") from None
        if "error" in answer:
            raise ToolError(answer["error"])
        return Transcript(**answer)

    def _find_model_folder(self) -> str:
        if self.model in weights.read_bundles():
            return str(weights.find(self.model))
        if self.model and not (Path(self.model).expanduser() / "model.bin").is_file():
            raise UsageError(f"model: want whisper-base or a folder with a model.bin, not {self.model!r}")
        return str(Path(self.model).expanduser()) if self.model else ""


class TextToSpeech(Component):
    """Says texts with espeak-ng, offline, into WAV files (16 bits, one channel).

    A file is named after its contents, so the same text in the same voice is the same file.

    Args:
        folder: Where the files are written.
        voice: A voice of espeak-ng, such as `en-us`, `en` (British), `de` or `fr`.
        words_per_minute: 80 to 450.
        seconds: Time limit of each text.

    Raises `UsageError` without the extra `audio`, and for settings that cannot be.
    """

    effects = "idempotent"

    def __init__(
        self,
        folder: str | Path,
        *,
        voice: str = "en-us",
        words_per_minute: int = 150,
        seconds: float = 60.0,
        name: str = "TextToSpeech",
    ) -> None:
        check_extra(name, "audio", "espeakng_loader", "numpy")
        if not VOICE.fullmatch(voice):
            raise UsageError(f"voice: want the name of a voice, such as en-us, not {voice!r:.60}")
        if not 80 <= words_per_minute <= 450:
            raise UsageError(f"words_per_minute: want 80 to 450, not {words_per_minute}")
        self.name = name
        self.folder = Path(folder).expanduser()
        self.voice, self.words_per_minute, self.seconds = voice, words_per_minute, seconds

    async def run_async(self, text: str) -> ResultText:
        """Say `text`, and return the path of the file. Raises `ToolError` if it cannot be said or written."""
        sound = await self.speak(text)
        name = f"speech-{hashlib.sha256(sound).hexdigest()[:16]}.wav"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            await run_in_thread(replace_file, self.folder / name, sound)
        except OSError as error:
            raise ToolError(f"{name} cannot be written: {error.strerror or error}") from error
        return {"results": name}

    async def speak(self, text: str, form: str = "wav", voice: str = "", speed: float = 1.0) -> bytes:
        """Return a sound file in which `text` is said, in the format `form`: one of `FORMATS`. Raises `ToolError` if it
        cannot be said, and `UsageError` for a format that needs the extra `whisper`."""
        if not text.strip() or len(text) > MAX_TEXT:
            raise ToolError(f"want a text of 1 to {MAX_TEXT:,} characters, not {len(text):,}")
        if form not in PLAIN:
            check_extra(f"the format {form}", "whisper", "av", "numpy")
        words_per_minute = min(max(round(self.words_per_minute * speed), 80), 450)
        settings = {"voice": voice or self.voice, "words_per_minute": words_per_minute, "form": form}
        data = text.replace("\0", " ").encode(errors="replace")
        try:
            sound = await read_output(WORKER, ("say", json.dumps(settings)), data, self.seconds)
        except TimeoutError:
            raise ToolError(f"the text was not said within {self.seconds:g} seconds") from None
        if not sound:
            raise ToolError("the text cannot be said; espeak-ng ended without a result")
        if sound.startswith(b'{"error"'):
            raise ToolError(json.loads(sound)["error"])
        return sound
