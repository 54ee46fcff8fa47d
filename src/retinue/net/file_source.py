"""Where a file for a model comes from: bytes, a path, a data URL, or an address, which passes the SSRF guard."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from .._internal.concurrency import gather_bounded, run_in_thread
from ..core.files import MAX_BYTES, decode_data_url, read_file
from ..core.values import File
from ..errors import DataError, ToolError, UsageError
from .url_policy import shorten_url

if TYPE_CHECKING:
    from .ssrf_guard import SsrfGuard

FileSource: TypeAlias = File | bytes | str | Path
_AT_ONCE = 4


async def load_files(sources: Iterable[FileSource], guard: SsrfGuard | None = None) -> tuple[File, ...]:
    """Return the files that `sources` name: bytes, paths, data URLs, or http(s) URLs, of public addresses unless
    `guard` allows others. Raises `UsageError` for one that cannot be had, or is none."""
    return tuple(await gather_bounded(partial(_load, guard=guard), sources, _AT_ONCE))


async def fetch_file(url: str, guard: SsrfGuard | None = None, detail: str = "auto") -> File:
    """Return the file at a data URL or an http(s) URL. Raises `DataError` and `ToolError`."""
    if url[:5].lower() == "data:":
        return await run_in_thread(lambda: read_file(decode_data_url(url), detail))
    from .ssrf_guard import SsrfGuard  # with the HTTP client, which few files need

    page = await (guard or SsrfGuard(max_bytes=MAX_BYTES)).get(url)
    return await run_in_thread(partial(read_file, page.data, detail))


async def _load(source: FileSource, *, guard: SsrfGuard | None) -> File:
    if isinstance(source, File):
        return source
    shown = f"{len(source):,} bytes" if isinstance(source, bytes) else str(source)
    try:
        if isinstance(source, bytes):
            return await run_in_thread(partial(read_file, source))
        if isinstance(source, str):
            shown = shorten_url(source)
            if source[:8].lower().startswith(("data:", "http://", "https://")):
                return await fetch_file(source, guard)
        return await run_in_thread(partial(_read_path, Path(source)))
    except OSError as error:
        problem = error.strerror or type(error).__name__
    except (DataError, ToolError) as error:
        problem = str(error)
    raise UsageError(f"files: {shown}: {problem}")


def _read_path(path: Path) -> File:
    with path.open("rb") as file:
        return read_file(file.read(MAX_BYTES + 1))
