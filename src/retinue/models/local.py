"""The `local` engine: llama.cpp in this process, with the embedded model or any GGUF file.

xllamacpp runs llama.cpp's own server on threads of this process. Requests go over loopback, as to any other llama.cpp
server, so streaming, stop words, cancellation and prefix caching have one implementation. The port is random and
protected by a key that never leaves the process.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from .._internal.progress import Progress, progress_listener
from ..core.prompt import Ask
from ..core.protocols import Chunks
from ..core.values import Capabilities, Reply
from ..errors import ModelRefused, UsageError
from ..net.http_client import HttpClient
from ..net.time_limits import TimeLimits
from .engine import HttpEngine
from .prompt_beginnings import PromptBeginnings
from .prompt_states import PromptStates, made_folder
from .settings import Settings
from .vendors import VENDORS
from .weights import find

_KEY = secrets.token_urlsafe(32)
_LOADING = threading.Lock()
_LOADED: set[tuple[Path, int]] = set()
_PIECE = 1 << 23
_CACHE = 1024  # MiB of memory for what was read of earlier prompts: some 35,000 tokens
# How often a thread that waits for the others looks before it sleeps. The default, milliseconds, keeps the core from
# the very thread that it waits for when another program is busy: a reply then took five times as long.
_SPIN, _SPINS = "GOMP_SPINCOUNT", "1000"
_LIMITS = TimeLimits(idle=1800.0, total=7200.0)  # a slow machine takes minutes for a long prompt


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A llama.cpp server in this process, which lives as long as it is referenced. `client` manages its state."""

    server: Any
    address: str
    client: HttpClient
    beginnings: PromptBeginnings


class LocalEngine:
    """A GGUF model in this process. It is loaded on first use and shared by agents with the same file."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._path = find(settings.model)
        self._engine: HttpEngine | None = None
        self._server: RunningServer | None = None  # lives as long as it is referenced

    @property
    def name(self) -> str:
        """The model's name."""
        return self._path.stem

    async def abilities(self, *, native: bool = False) -> Capabilities:
        """Load the model, so that its errors surface before a run begins."""
        return await (await self._loaded()).abilities(native=native)

    async def sees(self) -> bool:
        """Return whether the model can be sent images. Loads it."""
        return await (await self._loaded()).sees()

    async def reply(self, request: Ask) -> Chunks:
        """Stream the reply; the last item is the complete `Reply`. Raises `ModelError`."""
        engine, read = await self._loaded(), 0
        if self._settings.api != "chat":
            assert self._server is not None  # it is loaded
            read = await self._server.beginnings.prepare(self._server.client, request)
        async for chunk in engine.reply(request):
            yield _counted(chunk, read) if isinstance(chunk, Reply) and read else chunk

    async def close(self) -> None:
        """Close the running event loop's connections to the model, which stays loaded."""
        if self._engine is not None:
            assert self._server is not None
            await self._engine.close()
            await self._server.client.close()

    async def _loaded(self) -> HttpEngine:
        if self._engine is None:
            server = self._server = await asyncio.to_thread(_shared_server, self._path, self._settings.context)
            self._engine = HttpEngine(
                replace(
                    self._settings,
                    model=self._path.stem,
                    base_url=server.address,
                    api_key=_KEY,
                    options={"cache_prompt": True, "seed": 1} | dict(self._settings.options),
                    limits=self._settings.limits or _LIMITS,
                ),
                VENDORS["llamacpp"].format,
            )
        return self._engine


def _counted(reply: Reply, read: int) -> Reply:
    """Return `reply` without the `read` tokens, which were read for it, among the cached ones."""
    cached = max(0, reply.usage.cached_tokens - read)
    return replace(reply, usage=replace(reply.usage, cached_tokens=cached))


def _shared_server(path: Path, context: int) -> RunningServer:
    with _LOADING:  # concurrent callers wait for the load instead of repeating it
        if (progress := progress_listener()) is not None and (path, context) not in _LOADED:
            _read(path, progress)
        server = _server(path, context)
        _LOADED.add((path, context))
        return server


def _read(path: Path, progress: Progress) -> None:
    """Read the file into the page cache with progress, since loading itself reports none."""
    size, done = path.stat().st_size, 0
    buffer = bytearray(_PIECE)
    with path.open("rb", buffering=0) as file:
        while read := file.readinto(buffer):
            done += read
            progress("reading the model", done, size)
    progress("loading the model (some seconds)", 0, 0)


@lru_cache(maxsize=2)
def _server(path: Path, context: int) -> RunningServer:
    """Return a running llama.cpp server for the model at `path` with a context window of `context` tokens."""
    xllamacpp = _xllamacpp()
    states = made_folder()
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
    for threads in (parameters.cpuparams, parameters.cpuparams_batch):
        threads.n_threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        server = xllamacpp.Server(parameters)
    except Exception as error:
        raise ModelRefused(f"{path} cannot be loaded: {error} (is it a complete GGUF file?)") from error
    file = path.resolve().stat()
    depends = xllamacpp.__version__, path.name, file.st_size, file.st_mtime_ns, context
    address = server.listening_address
    return RunningServer(server, address, HttpClient(address, _KEY, _LIMITS), PromptBeginnings(PromptStates(depends)))


def _xllamacpp() -> Any:
    """Import the engine. Raises `UsageError` if it is not installed."""
    chosen = os.environ.get(_SPIN)
    os.environ.setdefault(_SPIN, _SPINS)  # read by libgomp as it is loaded
    try:
        import xllamacpp
    except ImportError:
        raise UsageError(
            "the embedded model needs the extra 'local': pip install 'retinue[local]' (or name a server: base_url)"
        ) from None
    finally:
        if chosen is None:
            del os.environ[_SPIN]
    return xllamacpp
