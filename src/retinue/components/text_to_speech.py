"""`TextToSpeech`: a text as a sound file, spoken on this machine."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from functools import partial
from pathlib import Path
from typing import TypedDict

from .._internal.concurrency import run_in_thread
from .._internal.processes import read_output
from ..core.component import Component
from ..errors import ToolError, UsageError
from .speech_to_text import WORKER, need_audio

MAX_TEXT = 20_000  # characters
PLAIN = ("wav", "pcm")  # formats that need no encoder
FORMATS = (*PLAIN, "mp3", "opus", "aac", "flac")
VOICE = re.compile(r"[A-Za-z0-9+_-]{1,40}")


class Spoken(TypedDict):
    """`results`, the path of the WAV file, relative to the folder."""

    results: str


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
        need_audio("espeakng_loader", name)
        if not VOICE.fullmatch(voice):
            raise UsageError(f"voice: want the name of a voice, such as en-us, not {voice!r:.60}")
        if not 80 <= words_per_minute <= 450:
            raise UsageError(f"words_per_minute: want 80 to 450, not {words_per_minute}")
        self.name = name
        self.folder = Path(folder).expanduser()
        self.voice = voice
        self.words_per_minute = words_per_minute
        self.seconds = seconds

    async def run_async(self, text: str) -> Spoken:
        """Say `text`, and return the path of the file. Raises `ToolError` if it cannot be said or written."""
        return {"results": await run_in_thread(partial(self._kept, await self.speak(text)))}

    async def speak(self, text: str, form: str = "wav", voice: str = "", speed: float = 1.0) -> bytes:
        """Return a sound file in which `text` is said, in the format `form`: one of `FORMATS`.

        Raises `ToolError` if it cannot be said, and `UsageError` for a format that needs the extra `whisper`.
        """
        if not text.strip() or len(text) > MAX_TEXT:
            raise ToolError(f"want a text of 1 to {MAX_TEXT:,} characters, not {len(text):,}")
        if form not in PLAIN:
            need_audio("av", f"the format {form}", "whisper")
        words_per_minute = min(max(round(self.words_per_minute * speed), 80), 450)
        settings = {"voice": voice or self.voice, "words_per_minute": words_per_minute, "form": form}
        data = text.replace("\0", " ").encode(errors="replace")
        try:
            sound = await read_output(WORKER, ("say", json.dumps(settings)), data, self.seconds)
        except TimeoutError:
            raise ToolError(f"the text was not said within {self.seconds:g} seconds") from None
        if not sound or sound.startswith(b'{"error"'):
            raise ToolError(_problem(sound))
        return sound

    def _kept(self, sound: bytes) -> str:
        """Write a file whole or not at all; return its name."""
        name = f"speech-{hashlib.sha256(sound).hexdigest()[:16]}.wav"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("wb", dir=self.folder, suffix=".part", delete=False) as file:
                file.write(sound)
            Path(file.name).replace(self.folder / name)
        except OSError as error:
            raise ToolError(f"{name} cannot be written: {error.strerror or error}") from error
        return name


def _problem(said: bytes) -> str:
    try:
        return str(json.loads(said)["error"])
    except (ValueError, KeyError):
        return "the text cannot be said; espeak-ng ended without a result"
