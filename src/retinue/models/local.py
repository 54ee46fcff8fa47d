"""The `local` engine: llama.cpp in this process, with the embedded model or any GGUF file.

xllamacpp runs llama.cpp's own server on threads of this process. Requests go over loopback, as to any other llama.cpp
server, so streaming, stop words, cancellation and prefix caching have one implementation. The port is random and
protected by a key that never leaves the process.

The threads of a reply wait for each other some 400 times a token. So beside a program that keeps one of two cores busy,
two threads are slower than one. A server's threads cannot be changed; so there is a second one, with half the threads,
for the time that other programs keep a core busy. Both map the same weights.
"""

from __future__ import annotations

import asyncio
import math
import os
import secrets
import threading
from dataclasses import dataclass, replace
from functools import lru_cache
from os import times
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

from .._internal.processes import call_in_forked_child
from .._internal.progress import find_progress_listener
from ..core.prompt import Ask, PromptCache
from ..core.protocols import Chunks
from ..core.values import Capabilities, Kind, Reply
from ..errors import ModelRefused, RetinueError, UsageError
from ..net.http_client import HttpClient
from ..net.retry import TimeLimits
from .engine import HttpEngine
from .prompt_states import PromptBeginnings, PromptStates, make_folder
from .settings import Settings
from .vendors import find_vendor
from .weights import find

_STAT = Path("/proc/stat")
_CROWDED, _QUIET = 0.7, 0.3  # cores that others keep busy
_SHORTEST = 0.1  # seconds: the kernel counts hundredths
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_BUSY = (0, 1, 2, 5, 6, 7)  # the times that are neither idle, nor waiting for disks, nor part of the others: proc(5)


def list_own_cores() -> set[int]:
    """Return the cores on which this process may run."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


class CpuLoad:
    """What other programs take of this process's cores, from Linux's `/proc/stat` or a file like it."""

    def __init__(self, stat: Path = _STAT) -> None:
        self._stat = stat
        self._lock = threading.Lock()
        self._last, self._crowded = self._take_sample(), False

    def is_crowded(self) -> bool:
        """Return whether others have kept a core busy since the last call, and note the time.

        Less than a tenth of a second after the last call, and in between the limits, it returns the same as then. Never
        where the system does not tell.
        """
        with self._lock:
            now, others = self._take_sample()
            if (passed := now - self._last[0]) >= _SHORTEST:
                busy = (others - self._last[1]) / passed
                self._crowded, self._last = busy > (_QUIET if self._crowded else _CROWDED), (now, others)
            return self._crowded

    def _take_sample(self) -> tuple[float, float]:
        """Return the time, and the seconds of CPU that other programs have had until then."""
        own, ticks = times(), 0
        try:
            cores = {f"cpu{number}" for number in list_own_cores()}
            for line in self._stat.read_text("ascii").splitlines():
                name, *spent = line.split() or ("",)
                if name in cores:
                    ticks += sum(int(spent[at]) for at in _BUSY if at < len(spent))
        except (OSError, ValueError):  # no Linux, or another format: more than nothing is never known
            return monotonic(), math.nan
        return monotonic(), ticks / _TICKS - own.user - own.system


_KEY = secrets.token_urlsafe(32)
_loading = SimpleNamespace(turn=threading.Lock())
call_in_forked_child(lambda: setattr(_loading, "turn", threading.Lock()))
_LOADED: set[tuple[Path, int]] = set()
_LOAD = CpuLoad()
_THREADS = "RETINUE_THREADS"  # in the environment: always so many
_PIECE = 1 << 23
_CACHE = 1024  # MiB of memory for what was read of earlier prompts: some 35,000 tokens
_MOST_THREADS = 512  # llama.cpp's own limit
# How often a thread that waits for the others looks before it sleeps. The default, milliseconds, keeps the core from
# the very thread that it waits for when another program is busy: a reply then took five times as long.
_SPIN, _SPINS = "GOMP_SPINCOUNT", "1000"
_LIMITS = TimeLimits(idle=1800.0, total=7200.0)  # a slow machine takes minutes for a long prompt


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A llama.cpp server in this process, which lives as long as it is referenced. `client` manages its state."""

    server: Any
    client: HttpClient
    beginnings: PromptBeginnings


class LocalEngine:
    """A GGUF model in this process. It is loaded on first use and shared by agents with the same file."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        try:
            self._path = find(settings.model)
        except RetinueError:
            load_engine()  # what else is missing is said before a gigabyte is fetched
            raise
        # by process and threads; servers live while referenced
        self._served: dict[tuple[int, int], tuple[RunningServer, HttpEngine]] = {}
        self._read_by: PromptCache[int] = PromptCache()  # the threads of the server that knows a prompt

    @property
    def name(self) -> str:
        return self._path.stem

    async def abilities(self, *, native: bool = False) -> Capabilities:
        """Load the model, so that its errors surface before a run begins."""
        return await (await self._get_engine()).abilities(native=native)

    async def sees(self) -> frozenset[Kind]:
        return await (await self._get_engine()).sees()

    async def reply(self, request: Ask) -> Chunks:
        """Stream the reply; the last item is the complete `Reply`. Raises `ModelError`.

        The server is the one whose cache holds a prefix of the prompt, else the one that suits the current load.
        """
        known, _ = self._read_by.extend(request.prompt)
        count = known or _count_threads()
        self._read_by.keep(request.prompt, count)
        server, engine = await self._load(count)
        read = 0
        if self._settings.api != "chat":
            read = await server.beginnings.prepare(server.client, request)
        async for chunk in engine.reply(request):
            if isinstance(chunk, Reply) and read:  # of the cached tokens, so many were read for this very request
                cached = max(0, chunk.usage.cached_tokens - read)
                chunk = replace(chunk, usage=replace(chunk.usage, cached_tokens=cached))
            yield chunk
        _LOAD.is_crowded()  # so that the next reply learns what was between the two

    async def close(self) -> None:
        """Close the running event loop's connections to the model, which stays loaded."""
        for server, engine in tuple(self._served.values()):  # another thread's run may load one meanwhile
            await engine.close()
            await server.client.close()

    async def _get_engine(self) -> HttpEngine:
        here = [engine for (process, _), (_, engine) in self._served.items() if process == os.getpid()]
        return here[0] if here else (await self._load(_count_threads()))[1]

    async def _load(self, count: int) -> tuple[RunningServer, HttpEngine]:
        key = os.getpid(), count  # a forked child has none of the threads of its parent's servers
        if key not in self._served:
            server = await asyncio.to_thread(_load_server, self._path, self._settings.context, count)
            engine = HttpEngine(
                replace(
                    self._settings,
                    model=self._path.stem,
                    base_url=server.client.base_url,
                    api_key=_KEY,
                    temperature=0.0 if self._settings.temperature is None else self._settings.temperature,
                    options={"cache_prompt": True, "seed": 1} | dict(self._settings.options),
                    limits=self._settings.limits or _LIMITS,
                ),
                find_vendor("llamacpp"),
            )
            self._served.setdefault(key, (server, engine))
        return self._served[key]


def _count_threads() -> int:
    """Return how many threads a new prompt gets: one for each core, or half of them beside busy programs."""
    if fixed := os.environ.get(_THREADS, "").strip():
        if not (fixed.isdecimal() and 1 <= int(fixed) <= _MOST_THREADS):
            raise UsageError(f"{_THREADS}={fixed!r}: want a number of threads, from 1 to {_MOST_THREADS}")
        return int(fixed)
    cores = len(list_own_cores())
    return (cores + 1) // 2 if _LOAD.is_crowded() else cores


def _load_server(path: Path, context: int, threads: int) -> RunningServer:
    with _loading.turn:  # concurrent callers wait for the load instead of repeating it
        if (progress := find_progress_listener()) is not None and (path, context) not in _LOADED:
            # The file is read into the page cache with progress, since loading itself reports none.
            size, done, buffer = path.stat().st_size, 0, bytearray(_PIECE)
            with path.open("rb", buffering=0) as file:
                while read := file.readinto(buffer):
                    done += read
                    progress("reading the model", done, size)
            progress("loading the model (some seconds)", 0, 0)
        server = _start_server(path, context, threads, os.getpid())
        _LOADED.add((path, context))
        return server


@lru_cache(maxsize=4)
def _start_server(path: Path, context: int, threads: int, _process: int) -> RunningServer:
    """Return this process's llama.cpp server for the model at `path`, with a window of `context` tokens."""
    xllamacpp = load_engine()
    states = make_folder()
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.n_ctx = context
    parameters.n_parallel = 1
    parameters.verbosity = -1
    parameters.no_extra_bufts = True  # repacked weights take memory for a second copy, and load more slowly
    parameters.api_keys = [_KEY]
    parameters.ui = False
    parameters.endpoint_slots = False
    parameters.cache_ram_mib = _CACHE
    parameters.slot_save_path = f"{states}{os.sep}" if states else ""
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
    try:
        server = xllamacpp.Server(parameters)
    except Exception as error:
        raise ModelRefused(f"{path} cannot be loaded: {error} (is it a complete GGUF file?)") from error
    file = path.resolve().stat()
    depends = xllamacpp.__version__, path.name, file.st_size, file.st_mtime_ns, context
    client = HttpClient(server.listening_address, _KEY, _LIMITS)
    return RunningServer(server, client, PromptBeginnings(PromptStates(depends)))


def load_engine() -> Any:
    """Return llama.cpp's module. Raises `UsageError` if it is not installed, or the system lacks a library that it
    needs."""
    chosen = os.environ.get(_SPIN)
    os.environ.setdefault(_SPIN, _SPINS)  # read by libgomp as it is loaded
    try:
        import xllamacpp
    except ModuleNotFoundError:
        raise UsageError(
            "the embedded model needs the extra 'local': pip install 'retinue[local]' (or name a server: base_url)"
        ) from None
    except ImportError as error:
        remedy = " (apt install libgomp1, or dnf install libgomp)" if "libgomp" in str(error) else ""
        raise UsageError(f"the embedded model's engine cannot be loaded: {error}{remedy}") from None
    finally:
        if chosen is None:
            del os.environ[_SPIN]
    return xllamacpp
