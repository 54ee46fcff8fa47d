"""`SpeechToText`: the text in a sound file, recognized on this machine."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypedDict

from .._internal.concurrency import run_in_thread
from .._internal.processes import read_output
from ..core.component import Component
from ..documents.file_documents import data_in
from ..errors import DataError, ToolError, UsageError
from ..models import weights

WORKER = "retinue.components.speech_worker"


class Heard(TypedDict):
    """`results`, the text; empty if no words were recognized."""

    results: str


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
        need_audio("faster_whisper" if model else "pocketsphinx", name, "whisper" if model else "audio")
        if model and phrases:
            raise UsageError("phrases are for pocketsphinx, and Whisper needs none: leave out phrases or model")
        self.name = name
        phrases = [phrases] if isinstance(phrases, str) else list(phrases)
        self.folder = Path(folder).expanduser()
        self.phrases = tuple(phrases)
        self.model = model
        self.language = language
        self.seconds = seconds

    async def run_async(self, path: str) -> Heard:
        """Return the text in the file at `path`, relative to the folder.

        Raises `ToolError` for a file that cannot be read or heard.
        """
        try:
            data = await run_in_thread(partial(data_in, path.strip(), self.folder))
        except DataError as error:
            raise ToolError(str(error)) from error
        try:
            return {"results": (await self.transcribe(data)).text}
        except ToolError as error:
            raise ToolError(f"{path}: {error}") from error

    async def transcribe(self, data: bytes, language: str = "", prompt: str = "") -> Transcript:
        """Return what is said in a sound file with these bytes. `prompt` shows Whisper how words are spelled.

        Raises `ToolError` for what cannot be heard, and `UsageError` if the model is not here.
        """
        folder = await run_in_thread(self._model_folder)
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

    def _model_folder(self) -> str:
        if self.model in weights.bundles():
            return str(weights.find(self.model))
        if self.model and not (Path(self.model).expanduser() / "model.bin").is_file():
            raise UsageError(f"model: want whisper-base or a folder with a model.bin, not {self.model!r}")
        return str(Path(self.model).expanduser()) if self.model else ""


def need_audio(package: str, name: str, extra: str = "audio") -> None:
    """Raise `UsageError` unless the packages for speech are installed."""
    if find_spec(package) is None or find_spec("numpy") is None:
        raise UsageError(f"{name} needs the extra '{extra}': pip install 'retinue[{extra}]'")
