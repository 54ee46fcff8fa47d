"""`SpeechToText`: the text in a sound file, recognized on this machine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TypedDict

from .._internal.thread_pool import run_in_thread
from .._internal.worker_process import output_of
from ..core.component import Component
from ..documents.file_documents import data_in
from ..errors import DataError, ToolError, UsageError

WORKER = "retinue.components.speech_worker"


class Heard(TypedDict):
    """`results`, the text; empty if no words were recognized."""

    results: str


class SpeechToText(Component):
    """Recognizes English speech in WAV files (16 bits) with pocketsphinx, offline and without a download.

    Its vocabulary is open but its ear is not good. It hears reliably where `phrases` say what can be said.

    Args:
        folder: Where the files are; nothing outside is read.
        phrases: What can be said, in JSGF: `["what is (one | two) plus (one | two)"]`. Words are its dictionary's.
        seconds: Time limit of each file.

    Raises `UsageError` without the extra `audio`.
    """

    effects = "read"

    def __init__(
        self,
        folder: str | Path,
        *,
        phrases: Sequence[str] = (),
        seconds: float = 60.0,
        name: str = "SpeechToText",
    ) -> None:
        need_audio("pocketsphinx", name)
        self.name = name
        phrases = [phrases] if isinstance(phrases, str) else list(phrases)
        self.given = {"folder": folder, "phrases": phrases, "seconds": seconds}  # for export
        self.folder = Path(folder).expanduser()
        self.phrases = tuple(phrases)
        self.seconds = seconds

    async def run_async(self, path: str) -> Heard:
        """Return the text in the file at `path`, relative to the folder.

        Raises `ToolError` for a file that cannot be read or heard.
        """
        settings = json.dumps({"phrases": self.phrases})
        try:
            data = await run_in_thread(partial(data_in, path.strip(), self.folder))
            answer = json.loads(await output_of(WORKER, ("hear", settings), data, self.seconds))
        except DataError as error:
            raise ToolError(str(error)) from error
        except TimeoutError:
            raise ToolError(f"{path}: was not heard to its end within {self.seconds:g} seconds") from None
        except ValueError:
            raise ToolError(f"{path}: cannot be heard; the recognizer ended without a result") from None
        if "error" in answer:
            raise ToolError(f"{path}: {answer['error']}")
        return {"results": answer["text"]}


def need_audio(package: str, name: str) -> None:
    """Raise `UsageError` unless the packages for speech are installed."""
    if find_spec(package) is None or find_spec("numpy") is None:
        raise UsageError(f"{name} needs the extra 'audio': pip install 'retinue[audio]'")
