"""Takes in the images of a request or a thread: checked, loaded, and kept for the run that shows them to its model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import Any, NamedTuple, Self

from sqlalchemy import Connection

from .._internal.concurrency import gather_bounded
from .._internal.thread_pool import run_in_thread
from ..agent import Agent
from ..core.image_format import MAX_BYTES, MAX_BYTES_TOGETHER, MAX_IMAGES, read_image
from ..core.protocols import blind, can_see
from ..core.values import Image
from ..errors import DataError, ModelError, ToolError, UsageError
from ..net.image_source import fetch_image
from ..net.ssrf_guard import SsrfGuard
from ..store.advisory_lock import COUNTING, lock_until_end
from ..store.database import Database
from ..store.images import keep_images, show_images
from ..store.storage_use import bytes_used
from ..store.tables import contents, images as images_kept
from ..store.tenant_view import TenantView
from .context import Context
from .files.routes import file_of
from .image_parts import ImageSource, Shown, images_in
from .middleware.quota_limits import check_bytes, reached
from .tenant_shares import TenantShares
from .wire.api_errors import ApiError
from .wire.validation import invalid_value, missing_parameter

_AT_ONCE = 4


class Place(NamedTuple):
    """A content, whose it is, and where it is in the request."""

    where: str
    role: str
    content: Any


class ImageLoader:
    """Loads the images of one tenant, and keeps them, in its `shares`. `hosts` are private servers that may be asked
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
        """The tenant's share of the requests and runs whose images are being loaded."""
        return self._shares.fetching.of(self._scope.tenant)

    async def load(self, source: ImageSource, where: str) -> Image:
        """Return the image. Raises `ApiError` that names the place `where`."""
        try:
            if source.file_id:
                data = await self._database.read(partial(self._of_file, file_id=source.file_id, where=where))
                return await run_in_thread(partial(read_image, data, source.detail))
            if source.url[:5].lower() == "data:" or source.url[:8].lower().startswith(("http://", "https://")):
                guard = SsrfGuard(self._hosts, max_bytes=MAX_BYTES)
                return await fetch_image(source.url, guard, source.detail)
        except (DataError, ToolError, UsageError) as error:
            raise ApiError(400, f"Invalid image: {error}.", param=where, code="invalid_image") from error
        if source.url:
            raise invalid_value(where, "want the URL of an image, such as https://… or data:image/png;base64,…")
        raise missing_parameter(f"{where}.image_url")

    async def keep(self, images: Sequence[Image], run_id: str | None = None) -> None:
        """Keep the images for a run that is about to begin, or for this one. Raises `ApiError` if the tenant's quota is
        used up."""
        size = sum(len(one.data) for one in images)
        async with self._shares.of_write(self._scope.tenant, size):
            await self._database.write(partial(self._keep, images=images, run_id=run_id))

    def _of_file(self, connection: Connection, file_id: str, where: str) -> bytes:
        row = file_of(connection, self._scope, file_id, f"{where}.file_id")
        if row.body["bytes"] > MAX_BYTES:
            raise DataError(f"the file has {row.body['bytes']:,} bytes; the most is {MAX_BYTES:,}")
        kept = self._scope.find(connection, contents, file_id)
        return b"" if kept is None else bytes(kept.content)

    def _keep(self, connection: Connection, images: Sequence[Image], run_id: str | None) -> None:
        quota, more = self._scope.quota, sum(len(one.data) for one in images)
        if quota is not None:
            lock_until_end(connection, COUNTING)
        if quota is not None and bytes_used(connection, self._scope.tenant, images_kept) + more > quota.bytes:
            raise reached("bytes of images", quota.bytes)
        check_bytes(connection, self._scope, more)
        keep_images(connection, self._scope.tenant, images)
        if run_id is not None:
            show_images(connection, self._scope.tenant, run_id, [one.id for one in images])


async def take_in_images(context: Context, agent: Agent, given: Iterable[Place]) -> Shown:
    """Return the images of a request, as `take_in_history` does: clients send with each request all that was said.
    Raises `ApiError` that names the place of an image that is not a user's. Those in tools' results are not shown."""
    said = [place for place in given if place.role != "tool"]
    for place in said:
        for number, _ in images_in(place.content):
            if place.role != "user":
                raise invalid_value(f"{place.where}[{number}]", "a model is shown the images of a user's messages only")
    return await take_in_history(ImageLoader.of(context), agent, said)


async def take_in_history(loader: ImageLoader, agent: Agent, said: Sequence[Place], run_id: str | None = None) -> Shown:
    """Return the images of a conversation, loaded and kept, by their sources.

    Those since the model's last answer must be there, and the model must see them; `ApiError` names the place of one
    that it cannot be shown. The newest of the earlier ones are shown as far as they can be."""
    since = next((len(said) - at for at, one in enumerate(reversed(said)) if one.role == "assistant"), 0)
    places = [(at, source, f"{one.where}[{n}]") for at, one in enumerate(said) for n, source in images_in(one.content)]
    needed = {source: where for at, source, where in places if at >= since}
    before = {source: where for at, source, where in places if at < since and source not in needed}
    if not places:
        return {}
    if needed:
        await check_sight(agent, next(iter(needed.values())))
        if sum(at >= since for at, _, _ in places) > MAX_IMAGES:
            raise invalid_value(places[-1][2], f"a model is shown at most {MAX_IMAGES} images at once")
    elif not await _sees(agent):
        return {}
    async with loader.fetching():
        images = await load_all(loader, needed)
        for source, where in list(before.items())[::-1][: max(0, MAX_IMAGES - len(needed))]:
            with suppress(ApiError):
                images[source] = await loader.load(source, where)
    await loader.keep(list(images.values()), run_id)
    return images


async def load_all(loader: ImageLoader, places: Mapping[ImageSource, str]) -> dict[ImageSource, Image]:
    """Return the images by their sources. Raises `ApiError` for the first that cannot be had."""

    room = MAX_BYTES_TOGETHER

    async def one(named: tuple[ImageSource, str]) -> Image:
        nonlocal room
        image = await loader.load(*named)
        room -= len(image.data)
        if room < 0:
            raise invalid_value(named[1], f"the images have at most {MAX_BYTES_TOGETHER:,} bytes together")
        return image

    return dict(zip(places, await gather_bounded(one, places.items(), _AT_ONCE), strict=True))


async def check_sight(agent: Agent, where: str) -> None:
    """Raise `ApiError` if the agent's model cannot see the image at `where`."""
    if not await _sees(agent):
        raise ApiError(400, f"Invalid image: {blind(agent.model.name)}.", param=where, code="unsupported_image")


async def _sees(agent: Agent) -> bool:
    """Return whether the agent's model sees, as far as it can be asked: a run says what is wrong with a model."""
    try:
        return await can_see(agent.model)
    except (ModelError, UsageError):
        return True
