"""Chat completions that are spoken: the answer is a sound with its transcript, and later requests name it by its id."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from ...components.speech import MAX_TEXT
from ...runs import Followed
from ...store.event_log import read_events
from ...store.run_queries import find_own_run
from ...store.run_row import RunRow
from ...store.tenant_view import TenantView
from ..context import Context
from ..http.api_errors import ApiError
from ..http.objects import Object
from ..http.sse import frame
from ..models.audio import AudioOption, speak
from .projection import Chunks, completion

_LASTS = 86_400  # seconds, where runs are kept for ever
_PIECE = 48_000  # bytes of a chunk: a second of pcm16


async def add_sound(context: Context, run: RunRow, answer: Object, how: AudioOption) -> None:
    """Make the completion's message a spoken one. One that calls tools, refuses, or is too long stays as it is."""
    message = answer["choices"][0]["message"]
    text = message["content"] or ""
    if data := await _say(context, run, text, how):
        sound = base64.b64encode(data).decode()
        message |= {"content": None, "audio": {**_head(context, run), "data": sound, "transcript": text.strip()}}


async def _say(context: Context, run: RunRow, text: str, how: AudioOption) -> bytes:
    """Return the sound of a text; nothing of one that is empty or too long."""
    said = text.strip()
    voice = context.server.deployment.voices[run.agent]
    return await speak(context, voice, said, how) if 0 < len(said) <= MAX_TEXT else b""


def _head(context: Context, run: RunRow) -> Object:
    lasts = context.server.options.chat_retention or context.server.options.retention or _LASTS
    return {"id": f"audio_{run.id.partition('_')[2]}", "expires_at": run.created_at + lasts}


class SpokenChunks(Chunks):
    """The event stream of a spoken completion: its deltas are of the transcript, and its end waits for the sound."""

    def __init__(self, context: Context, run: RunRow, how: AudioOption, *, with_usage: bool, reasoning: bool) -> None:
        self._audio = _head(context, run)
        self._transcript = ""
        self._ending: list[str] = []
        self._context = context
        self._how = how
        super().__init__(run, with_usage=with_usage, reasoning=reasoning)

    def chunk(self, delta: Object, finish: str | None = None) -> Object:
        """Return a chunk, with text as a transcript."""
        if more := delta.pop("content", None):
            self._transcript += more
            delta["audio"] = {**self._audio, "transcript": more}
        return super().chunk(delta, finish)

    def frames(self, item: Followed) -> Iterator[str]:
        """Yield the frames of a log entry; those of the end are kept."""
        frames = list(super().frames(item))
        if self.last is None:
            yield from frames
        else:
            self._ending = frames

    async def last_frames(self) -> AsyncIterator[str]:
        """Yield the frames of the sound, and then those of the end."""
        try:
            data = await _say(self._context, self.run, self._transcript, self._how)
        except ApiError as error:
            yield self.error_frame(error)
            return
        for begin in range(0, len(data), _PIECE):
            piece = {"data": base64.b64encode(data[begin : begin + _PIECE]).decode()}
            yield frame(self.chunk({"audio": {**self._audio, **piece}}))
        for text in (*self._ending, self.tail):
            yield text


async def restore_speech(context: Context, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a chat's `messages` with the transcripts of what the assistant said as `audio`. Raises `ApiError` for a
    sound that is gone."""

    def work(connection: Connection, scope: TenantView) -> list[dict[str, Any]]:
        return [_restored(connection, scope, one, f"messages[{at}].audio.id") for at, one in enumerate(messages)]

    return await context.read(work)


def _restored(connection: Connection, scope: TenantView, said: Mapping[str, Any], where: str) -> dict[str, Any]:
    if said.get("role") != "assistant" or not said.get("audio") or said.get("content"):
        return dict(said)
    id_ = str(said["audio"].get("id"))
    run = find_own_run(connection, scope, f"run_{id_.removeprefix('audio_')}")
    if run is None or run.kind != "chat" or run.active:
        raise ApiError(400, f"The audio '{id_[:64]}' is unknown, or has expired.", param=where, code="audio_not_found")
    told = completion(run, read_events(connection, run.id, run.told))
    return {**said, "content": told["choices"][0]["message"]["content"]}
