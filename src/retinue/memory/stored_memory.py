"""What memories with a state have in common: `StoredMemory`, turns and their texts, and what a model is asked for.

They keep their state as JSON, parsed strictly, in a file that is replaced atomically or wherever else a caller puts it;
and they catch up with their turns in the background.
"""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from .._internal.concurrency import run_in_thread
from .._internal.files import replace_file
from .._internal.processes import call_in_forked_child
from .._internal.sync_bridge import run_blocking, start_in_background
from ..core.component import Configurable
from ..core.protocols import Model, ask_once
from ..core.schema.patterns import Constraint, build_json_pattern, seq
from ..errors import DataError, RetinueError, UsageError
from ..strategies.parsing.lenient_json import Truncated, find_values
from ..strategies.prompting.injection_guard import neutralize

logger = logging.getLogger(__name__)
S = TypeVar("S")
VERSION = 1
_MAX_BYTES = 16_000_000
BYTES = 3  # UTF-8 bytes per token: a slight overestimate of tokens for English, accurate for most other scripts
_GAP = " … "


class StoredMemory(Configurable, ABC, Generic[S]):
    """A memory with a state, a dataclass, which catches up with its turns in the background.

    It does so on the process's background loop, which outlives the caller's, one piece of work at a time. An error is
    logged and stops it until the next turn. `label` names in the log what is brought up to date.
    """

    label: str
    _state: S

    def _open(self, kind: type[S], path: str | Path | None) -> None:
        """Begin with the state in the file at `path`, or with a new one. Raises `DataError` for another file."""
        path = None if path is None else Path(path).expanduser()
        if path is None or not path.exists():
            return self._begin(kind(), path)
        try:
            if path.stat().st_size > _MAX_BYTES:
                raise ValueError(f"it is larger than {_MAX_BYTES:,} bytes")
            content = path.read_bytes()
        except (OSError, ValueError) as error:
            raise _make_unreadable_error(path, error) from error
        return self._begin(_parse_state(kind, content, path), path)

    def _begin(self, state: S, path: Path | None) -> None:
        self._state, self._path = state, path
        self._make_locks()
        call_in_forked_child(self._make_locks)

    def _make_locks(self) -> None:
        """Make the locks, and note that no work runs: a forked child's is done by its parent."""
        self._lock = threading.RLock()  # for reading and changing the state and `_running` from any thread
        self._saving = threading.Lock()
        self._running: Future[None] | None = None

    def with_state(self, text: str | None) -> Self:
        """Return a memory like this one with the state that `dump` returned, or a new one, in this process only. Raises
        `DataError`."""
        kind = type(self._state)
        return self._copy(kind() if text is None else _parse_state(kind, text, "the state"))

    def rebase(self, began: str, now: str) -> Self | None:
        """Return a memory with what this one has caught up with since its state was `began`, and the turns that have
        come to it since, in `now`. `None` if another has caught up with the same."""
        state = self._rebase(*(_parse_state(type(self._state), text, "the state") for text in (began, now)))
        return None if state is None else self._copy(state)

    @abstractmethod
    def _rebase(self, before: S, now: S) -> S | None: ...

    def _copy(self, state: S) -> Self:
        other = copy.copy(self)
        other._begin(state, None)
        return other

    def dump(self, indent: int | None = None) -> str:
        """Return the state as JSON, in one line or with so many spaces of indentation."""
        with self._lock:
            given: Any = self._state
            value = {"retinue": VERSION, "memory": type(given).__name__, **asdict(given)}
        return json.dumps(value, indent=indent)

    def save(self) -> None:
        """Write the state, if there is a file. Raises `UsageError`."""
        if self._path is not None:
            with self._saving:
                try:
                    self._path.parent.mkdir(parents=True, exist_ok=True)
                    replace_file(self._path, self.dump(indent=1), private=True)
                except OSError as error:
                    raise UsageError(f"{self._path} cannot be written: {error.strerror}") from error

    async def remember(self, question: str, answer: str) -> None:
        """Add a turn and save. Raises `UsageError` if the file cannot be written."""
        self.note(question, answer)
        await run_in_thread(self.save)
        self._start_if_due()

    @abstractmethod
    def note(self, question: str, answer: str) -> None:
        """Add a turn, without saving."""

    @abstractmethod
    def is_due(self) -> bool:
        """Return whether there is something to catch up with."""

    @abstractmethod
    async def catch_up(self) -> None:
        """Catch up with the turns. Raises `ModelError`."""

    async def settled_async(self) -> None:
        """Wait until all turns are dealt with, or that failed, and save."""
        self._start_if_due()
        if (running := self._running) is not None:
            await asyncio.shield(asyncio.wrap_future(running))
        await run_in_thread(self.save)

    def settled(self) -> None:
        """Run `settled_async` and block."""
        run_blocking(self.settled_async())

    def _start_if_due(self) -> None:
        with self._lock:
            if self._running is None and self.is_due():
                self._running = start_in_background(self._run())

    async def _run(self) -> None:
        try:
            while True:
                with self._lock:
                    if not self.is_due():
                        self._running = None
                        return
                await self.catch_up()
        except BaseException as error:
            with self._lock:
                self._running = None
            if not isinstance(error, Exception):
                raise
            unknown = not isinstance(error, RetinueError)
            logger.warning("%s was not brought up to date: %s", self.label, error, exc_info=unknown)


def _parse_state(kind: type[S], content: str | bytes, place: object) -> S:
    """Return the state that `dump` wrote as `content`; `place` says where that is. Raises `DataError`."""
    from pydantic import TypeAdapter, ValidationError

    try:
        value = json.loads(content)
        if not isinstance(value, dict) or (value.get("retinue"), value.get("memory")) != (VERSION, kind.__name__):
            raise ValueError(f"it is not a {kind.__name__} of version {VERSION}")
        state: S = TypeAdapter(kind).validate_json(content, strict=True)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise _make_unreadable_error(place, f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}") from error
    except (ValueError, RecursionError) as error:
        raise _make_unreadable_error(place, error) from error
    return state


def _make_unreadable_error(place: object, problem: object) -> DataError:
    return DataError(f"{place} is not a readable memory: {problem} (move it away to start a new one)")


# ── texts ─────────────────────────────────────────────────────────────────────────────────────────


def count_tokens(text: str) -> int:
    """Estimate the number of tokens, rather too high than too low."""
    return -(-len(text.encode(errors="replace")) // BYTES)


def cut(text: str, most: int) -> str:
    """Return `text`, or its beginning and end within `most` tokens."""
    if count_tokens(text) <= most:
        return text
    half = max(0, (most * BYTES - len(_GAP.encode())) // 2)
    kept = text.encode(errors="replace")
    return kept[:half].decode(errors="ignore") + _GAP + kept[len(kept) - half :].decode(errors="ignore")


def clean_line(value: Any) -> str:
    """Return a text as stored: on one line, and valid for every file and engine."""
    return " ".join(str(value).encode(errors="replace").decode().split())


# ── turns ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class StoredTurn:
    """A question and its answer."""

    question: str
    answer: str


def make_turn(question: str, answer: str) -> StoredTurn:
    """Return a turn as stored: text that is valid for every file and engine."""
    said, replied = (text.encode(errors="replace").decode().strip() for text in (question, answer))
    return StoredTurn(said, replied)


def count_fitting(turns: Sequence[StoredTurn], most: int, budget: int) -> int:
    """Return how many of the last turns fit: at most `most`, and within `budget` tokens."""
    fit = 0
    for one in reversed(turns[max(0, len(turns) - most) :]):
        budget -= count_tokens(one.question) + count_tokens(one.answer)
        if budget < 0:
            break
        fit += 1
    return fit


def select_newest(turns: Sequence[StoredTurn], budget: int) -> list[StoredTurn]:
    """Return the last turns that fit within `budget` tokens, and the last one in any case."""
    return list(turns[-max(1, count_fitting(turns, len(turns), budget)) :])


def list_not_done(
    before: Sequence[StoredTurn], left: Sequence[StoredTurn], now: Sequence[StoredTurn]
) -> list[StoredTurn]:
    """Return what is left to do of the turns `now`, where of those `before` only `left` were not done."""
    done = list(before[: len(before) - len(left)])
    fallen = next((at for at in range(len(done)) if list(now[: len(done) - at]) == done[at:]), len(done))
    return list(now[len(done) - fallen :])  # the oldest of those done may have been dropped meanwhile


def format_transcript(turns: Iterable[StoredTurn], most: int) -> str:
    """Return the turns as lines of text, each side within `most` tokens; their content cannot imitate a line of its
    own.
    """
    return "".join(
        f"{speaker}: {' '.join(neutralize(cut(text, most)).split())}\n"
        for one in turns
        for speaker, text in (("User", one.question), ("Assistant", one.answer))
        if text
    )


# ── what a model is asked, and what it writes: JSON, constrained if its engine supports it ────────────


def read_prompt(name: str) -> str:
    """Return the text of the prompt in the file `name`.txt, which has `$fields`."""
    return files("retinue.memory").joinpath(f"{name}.txt").read_text(encoding="utf-8").removesuffix("\n")


def build_record_schema(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with exactly these properties."""
    needed = {"required": list(properties), "additionalProperties": False}
    return {"type": "object", "properties": properties} | needed


def build_text_schema(most: int) -> dict[str, Any]:
    """Return the schema of a text with at most `most` characters."""
    return {"type": "string", "minLength": 1, "maxLength": most}


def build_summary_constraint(characters: int) -> Constraint:
    """Return the constraint of `{"summary": "…"}` with so many characters."""
    schema = build_record_schema(summary=build_text_schema(characters))
    return Constraint(seq(" ", build_json_pattern(schema, characters), "\n"), schema)


async def ask_for_values(model: Model, prompt: str, form: Constraint, max_tokens: int) -> list[Any]:
    """Return the complete values in the model's reply to `prompt`; of a truncated value, the complete ones within it.

    Raises `ModelError`.
    """
    reply = await ask_once(model, prompt, max_tokens=max_tokens, constraint=form)
    return [one.value for one in find_values(reply.text) if not isinstance(one.value, Truncated)]


async def ask_for_summary(model: Model, prompt: str, form: Constraint, max_tokens: int) -> str:
    """Return the summary in the model's reply, on one line; empty if there is none. Raises `ModelError`."""
    values = await ask_for_values(model, prompt, form, max_tokens)
    return next((clean_line(one["summary"]) for one in values if isinstance(one, dict) and "summary" in one), "")
