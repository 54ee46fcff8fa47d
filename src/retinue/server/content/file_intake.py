"""Takes in the files of a request or a thread: checked, loaded, and kept for the run that shows them to its model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Self, get_args

from sqlalchemy import Connection

from ..._internal.concurrency import gather_bounded, run_in_thread
from ...agent import Agent
from ...core.files import MAX_BYTES, MAX_BYTES_TOGETHER, MAX_FILES, read_file
from ...core.protocols import describe_unreadable, list_readable_kinds
from ...core.values import File, Kind
from ...errors import DataError, ModelError, ToolError, UsageError
from ...limits.shares import TenantShares
from ...net.file_source import fetch_file
from ...net.ssrf_guard import SsrfGuard
from ...store.database import Database
from ...store.run_files import keep_files, show_files
from ...store.tables import contents
from ...store.tenant_view import TenantView
from ..context import Context
from ..files.routes import file_of
from ..http.api_errors import ApiError, invalid_value, missing_parameter
from ..http.limits import check_images
from .file_parts import FileSource, Shown, files_in

_AT_ONCE = 4


class Place(NamedTuple):
    """A content, whose it is, and where it is in the request."""

    where: str
    role: str
    content: Any


class FileLoader:
    """Loads the files of one tenant, and keeps them, in its `shares`. `hosts` are private servers that may be asked
    for them, as `host:port`."""

    def __init__(self, database: Database, scope: TenantView, shares: TenantShares, hosts: Sequence[str] = ()) -> None:
        self._database = database
        self._scope = scope
        self._shares = shares
        self._hosts = tuple(hosts)

    @classmethod
    def of(cls, context: Context) -> Self:
        """The loader of a request."""
        server = context.server
        return cls(server.database, context.scope, server.shares, server.options.image_hosts)

    def fetching(self) -> AbstractAsyncContextManager[None]:
        """The tenant's share of the requests and runs whose files are being loaded."""
        return self._shares.fetching.of(self._scope.tenant)

    async def load(self, source: FileSource, where: str) -> File | None:
        """Return the file; `None` if it is not said to be an image and is none that models read, such as text. Raises
        `ApiError` that names the place `where`."""
        try:
            if source.file_id:
                data = await self._database.read(partial(self._of_file, file_id=source.file_id, where=where))
                return await run_in_thread(partial(read_file, data, source.detail, source.name))
            if source.url[:5].lower() == "data:" or source.url[:8].lower().startswith(("http://", "https://")):
                guard = SsrfGuard(self._hosts, max_bytes=MAX_BYTES)
                return replace(await fetch_file(source.url, guard, source.detail), name=source.name)
        except ApiError:
            if not source.is_image:
                return None  # `Readable` says what is wrong
            raise
        except (DataError, ToolError, UsageError) as error:
            if not source.is_image:
                return None  # it may be text
            raise ApiError(400, f"Invalid image: {error}.", param=where, code="invalid_image") from error
        if not source.is_image:
            return None
        if source.url:
            raise invalid_value(where, "want the URL of an image, such as https://… or data:image/png;base64,…")
        raise missing_parameter(f"{where}.image_url")

    async def keep(self, files: Sequence[File], run_id: str | None = None) -> None:
        """Keep the files for a run that is about to begin, or for this one. Raises `ApiError` if the tenant's quota is
        used up."""
        size = sum(len(one.data) for one in files)
        async with self._shares.of_write(self._scope.tenant, size):
            await self._database.write(partial(self._keep, files=files, run_id=run_id))

    def _of_file(self, connection: Connection, file_id: str, where: str) -> bytes:
        row = file_of(connection, self._scope, file_id, f"{where}.file_id")
        if row.body["bytes"] > MAX_BYTES:
            raise DataError(f"the file has {row.body['bytes']:,} bytes; the most is {MAX_BYTES:,}")
        kept = self._scope.find(connection, contents, file_id)
        return b"" if kept is None else bytes(kept.content)

    def _keep(self, connection: Connection, files: Sequence[File], run_id: str | None) -> None:
        check_images(connection, self._scope, sum(len(one.data) for one in files))
        keep_files(connection, self._scope.tenant, files)
        if run_id is not None:
            show_files(connection, self._scope.tenant, run_id, [one.id for one in files])


async def keep_result_files(loader: FileLoader, run_id: str, files: Sequence[File]) -> str:
    """Keep files that a tool of this run returned; return why they cannot be kept, or an empty text."""
    try:
        await loader.keep(files, run_id)
    except ApiError as error:
        return str(error.body["error"]["message"])
    return ""


async def take_in_files(context: Context, agent: Agent, given: Iterable[Place]) -> Shown:
    """Return the files of a request, as `take_in_history` does: clients send with each request all that was said.
    Raises `ApiError` that names the place of a file that is neither a user's nor a tool's."""
    said = list(given)
    for place in said:
        for number, source in files_in(place.content):
            if place.role not in ("user", "tool") and source.is_image:
                problem = "a model is shown the images of a user's messages and of tools' results only"
                raise invalid_value(f"{place.where}[{number}]", problem)
    return await take_in_history(FileLoader.of(context), agent, said)


async def take_in_history(loader: FileLoader, agent: Agent, said: Sequence[Place], run_id: str | None = None) -> Shown:
    """Return the files of a conversation, loaded and kept, by their sources.

    Those of the user since the model's last answer must be there, and the model must read them; `ApiError` names the
    place of one that it cannot be shown. The newest of the others, of tools among them, are shown as far as they can
    be."""
    since = next((len(said) - at for at, one in enumerate(reversed(said)) if one.role == "assistant"), 0)
    places = [
        (at, source, f"{one.where}[{n}]")
        for at, one in enumerate(said)
        for n, source in (files_in(one.content) if one.role in ("user", "tool") else ())
    ]
    asked = [(source, where) for at, source, where in places if at >= since and said[at].role != "tool"]
    needed = dict(asked)
    others = {source: where for _, source, where in places if source not in needed}
    if not places:
        return {}
    if images := [where for source, where in asked if source.is_image]:
        await check_kind(agent, images[0])
    if len(images) > MAX_FILES:
        raise invalid_value(images[-1], f"a model is shown at most {MAX_FILES} images and other files at once")
    kinds = await _kinds(agent)
    if not kinds and all(source.is_image for source in needed):
        return {}
    async with loader.fetching():
        files = await load_all(loader, needed)
        for source, file in files.items():
            await check_kind(agent, needed[source], file.kind)
        if (count := sum(source in files for source, _ in asked)) > MAX_FILES:
            raise invalid_value(asked[-1][1], f"a model is shown at most {MAX_FILES} files at once, not {count}")
        for source, where in list(others.items())[::-1][: max(0, MAX_FILES - len(needed))] if kinds else ():
            with suppress(ApiError):
                other = await loader.load(source, where)
                files |= {source: other} if other is not None and other.kind in kinds else {}
    await loader.keep(list(files.values()), run_id)
    return files


async def load_all(loader: FileLoader, places: Mapping[FileSource, str]) -> dict[FileSource, File]:
    """Return the files by their sources. Raises `ApiError` for the first that cannot be had."""

    room = MAX_BYTES_TOGETHER

    async def one(named: tuple[FileSource, str]) -> File | None:
        nonlocal room
        file = await loader.load(*named)
        room -= 0 if file is None else len(file.data)
        if room < 0:
            raise invalid_value(named[1], f"images and other files have at most {MAX_BYTES_TOGETHER:,} bytes together")
        return file

    found = zip(places, await gather_bounded(one, places.items(), _AT_ONCE), strict=True)
    return {source: file for source, file in found if file is not None}


async def check_kind(agent: Agent, where: str, kind: Kind = "image") -> None:
    """Raise `ApiError` if the agent's model cannot read a file of this kind, which is at `where`."""
    if kind not in await _kinds(agent):
        code = "unsupported_image" if kind == "image" else "unsupported_file"
        raise ApiError(400, f"Invalid {kind}: {describe_unreadable(agent.model.name, kind)}.", param=where, code=code)


async def _kinds(agent: Agent) -> frozenset[Kind]:
    """Return what the agent's model reads, as far as it can be asked: a run says what is wrong with a model."""
    try:
        return await list_readable_kinds(agent.model)
    except (ModelError, UsageError):
        return frozenset(get_args(Kind))
