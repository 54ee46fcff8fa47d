"""The files in the contents of messages, in the forms of all APIs: images, PDFs, sounds and text.

A model is shown images, PDFs and sounds, as far as it reads them: they are loaded and kept for the run, and the part of
the content has the file's id, media type, detail and name under `shown`. A file of text is replaced by its text.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, NamedTuple, Self, get_args

from sqlalchemy import Connection

from ..._internal.concurrency import gather_bounded, run_in_thread
from ...agent import Agent
from ...core.files import MAX_BYTES, MAX_BYTES_TOGETHER, MAX_FILES, read_file, with_data
from ...core.protocols import describe_unreadable, list_readable_kinds
from ...core.values import File, Kind, Message
from ...errors import DataError, ModelError, ToolError, UsageError
from ...limits.shares import TenantShares
from ...net.file_source import fetch_file
from ...net.ssrf_guard import SsrfGuard
from ...store.database import Database
from ...store.run_belongings import data_of_files, keep_files, show_files, sizes_of_files
from ...store.tables import contents
from ...store.tenant_view import TenantView
from ...strategies.prompting.injection_guard import neutralize
from ..context import Context
from ..files.routes import file_of
from ..http.api_errors import ApiError, invalid_value, missing_parameter, wrong_type
from ..http.limits import check_images

Shown = Mapping["FileSource", File]
IMAGES = ("image_url", "input_image", "image_file")
_TEXTUAL = ("file", "input_file")
DOCUMENTS = (*_TEXTUAL, "input_audio")  # one with text is inlined instead
_NESTED = ("image_url", "image_file", "file", "input_audio")  # whose values are in an object of that name
_SHOWN = "shown"
_AT_ONCE = 4
_MOST = 256_000  # characters of a file, as of a message
_MOST_OF_ALL = 1_000_000  # characters of the files of a request
_FILES_AT_ONCE = 100  # named in a request; each is looked up
_WORDS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
_OLD = "(a file, which is not shown to you any more)"


class FileSource(NamedTuple):
    """Where a file comes from: a data or http(s) URL, or an upload; the detail in which an image is to be seen, and the
    name of a document. `is_image`: whether it is said to be an image."""

    url: str
    file_id: str
    detail: str
    name: str = ""
    is_image: bool = True


class Place(NamedTuple):
    """A content, whose it is, and where it is in the request."""

    where: str
    role: str
    content: Any


def parts_of(content: Any) -> Sequence[Any]:
    """Return the parts of a content; none of text."""
    return content if isinstance(content, Sequence) and not isinstance(content, str) else ()


def source_of(part: Any) -> FileSource | None:
    """Return the source of the file in a part of a content, or `None` if it is another part. A part without a source
    has an empty one."""
    if not isinstance(part, Mapping) or part.get("type") not in (*IMAGES, *DOCUMENTS):
        return None
    given = part.get(str(part["type"])) if part["type"] in _NESTED else part
    inner: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    url, file_id = inner.get("url") or inner.get("image_url"), inner.get("file_id")
    detail, name, data = inner.get("detail"), inner.get("filename"), inner.get("file_data") or inner.get("data")
    if isinstance(data, str) and part["type"] in DOCUMENTS:
        url = data if data[:5].lower() == "data:" else f"data:;base64,{data}"
    return FileSource(
        url if isinstance(url, str) else "",
        file_id if isinstance(file_id, str) else "",
        str(detail) if detail in ("low", "high") else "auto",
        name if isinstance(name, str) else "",
        part["type"] in IMAGES,
    )


def files_in(content: Any) -> Iterator[tuple[int, FileSource]]:
    """Yield the files of a content, with the numbers of their parts."""
    for number, part in enumerate(parts_of(content)):
        if (source := source_of(part)) is not None:
            yield number, source


def show(part: Mapping[str, Any], shown: Shown) -> Mapping[str, Any]:
    """Return a part with a file, marked if the file is `shown`. A client cannot mark one."""
    plain = {name: value for name, value in part.items() if name != _SHOWN}
    file = shown.get(source_of(part) or FileSource("", "", ""))
    if file is None:
        return plain
    named = {"name": file.name} if file.name else {}
    return {**plain, _SHOWN: {"id": file.id, "media_type": file.media_type, "detail": file.detail, **named}}


def is_shown(part: Any) -> bool:
    """Whether a part is a file that the model is shown."""
    return source_of(part) is not None and isinstance(part.get(_SHOWN), Mapping)


def shown_in(content: Any) -> list[dict[str, str]]:
    """Return the files of a content that the model is shown, as they are stored with a turn."""
    return [dict(part[_SHOWN]) for part in parts_of(content) if is_shown(part)]


# ── images, PDFs and sounds ──────────────────────────────────────────────────────────────────────────────────────────


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
        except (ApiError, DataError, ToolError, UsageError) as error:
            if not source.is_image:
                return None  # it may be text; otherwise `Readable` says what is wrong
            if isinstance(error, ApiError):
                raise
            raise ApiError(400, f"Invalid image: {error}.", param=where, code="invalid_image") from error
        if not source.is_image:
            return None
        if source.url:
            raise invalid_value(where, "want the URL of an image, such as https://… or data:image/png;base64,…")
        raise missing_parameter(f"{where}.image_url")

    async def load_all(self, places: Mapping[FileSource, str]) -> dict[FileSource, File]:
        """Return the files by their sources. Raises `ApiError` for the first that cannot be had."""
        room = MAX_BYTES_TOGETHER

        async def load_one(named: tuple[FileSource, str]) -> File | None:
            nonlocal room
            file = await self.load(*named)
            room -= 0 if file is None else len(file.data)
            if room < 0:
                most = f"{MAX_BYTES_TOGETHER:,}"
                raise invalid_value(named[1], f"images and other files have at most {most} bytes together")
            return file

        found = zip(places, await gather_bounded(load_one, places.items(), _AT_ONCE), strict=True)
        return {source: file for source, file in found if file is not None}

    async def keep(self, files: Sequence[File], run_id: str | None = None) -> None:
        """Keep the files for a run that is about to begin, or for this one. Raises `ApiError` if the tenant's quota is
        used up."""
        size = sum(len(one.data) for one in files)
        async with self._shares.of_write(self._scope.tenant, size):
            await self._database.write(partial(self._keep, files=files, run_id=run_id))

    async def keep_results(self, files: Sequence[File], run_id: str) -> str:
        """Keep files that a tool of this run returned; return why they cannot be kept, or an empty text."""
        try:
            await self.keep(files, run_id)
        except ApiError as error:
            return str(error.body["error"]["message"])
        return ""

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
    kinds = await _readable_kinds(agent)
    if not kinds and all(source.is_image for source in needed):
        return {}
    async with loader.fetching():
        files = await loader.load_all(needed)
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


async def check_kind(agent: Agent, where: str, kind: Kind = "image") -> None:
    """Raise `ApiError` if the agent's model cannot read a file of this kind, which is at `where`."""
    if kind not in await _readable_kinds(agent):
        code = "unsupported_image" if kind == "image" else "unsupported_file"
        raise ApiError(400, f"Invalid {kind}: {describe_unreadable(agent.model.name, kind)}.", param=where, code=code)


async def _readable_kinds(agent: Agent) -> frozenset[Kind]:
    """Return what the agent's model reads, as far as it can be asked: a run says what is wrong with a model."""
    try:
        return await list_readable_kinds(agent.model)
    except (ModelError, UsageError):
        return frozenset(get_args(Kind))


async def with_shown_parts(
    loader: FileLoader, agent: Agent, run_id: str, said: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Return the messages of a thread with those files marked that the run shows to its model. Raises `UsageError` if
    one cannot be shown that the run is about."""
    places = [Place(f"messages[{at}].content", one["role"], one.get("content")) for at, one in enumerate(said)]
    try:
        shown = await take_in_history(loader, agent, places, run_id)
    except ApiError as error:
        raise UsageError(str(error.body["error"]["message"])) from error
    return [
        {**one, "content": [show(part, shown) if source_of(part) else part for part in one["content"]]}
        if isinstance(one.get("content"), list)
        else one
        for one in said
    ]


async def with_file_data(database: Database, tenant: str, turns: Sequence[Message]) -> list[Message]:
    """Return the turns with the bytes of their files: the newest, as many as a model may be shown. It is told of the
    others. Raises `UsageError` if one of the last turn is gone."""
    ids = list(dict.fromkeys(one.id for turn in reversed(turns) for one in turn.files))
    if not ids:
        return list(turns)
    sizes = await database.read(partial(sizes_of_files, tenant=tenant, ids=ids))
    if gone := [one.id for one in turns[-1].files if one.id not in sizes]:
        raise UsageError(f"The file {gone[0][:12]} of this request was deleted.")
    room, wanted = MAX_BYTES_TOGETHER, list[str]()
    for id_ in [one for one in ids if one in sizes][:MAX_FILES]:
        room -= sizes[id_]
        if room < 0:
            break
        wanted.append(id_)
    data = await database.read(partial(data_of_files, tenant=tenant, ids=wanted))
    return [_filled(turn, data) if turn.files else turn for turn in turns]


def _filled(turn: Message, data: Mapping[str, bytes]) -> Message:
    files = with_data((one for one in turn.files if one.id in data), data)
    notes = [_OLD] * (len(turn.files) - len(files))
    return replace(turn, content="\n".join([*notes, turn.content]), files=files)


# ── files of text ────────────────────────────────────────────────────────────────────────────────────────────────────


class Readable:
    """The contents of one request, with text files replaced by their text.

    A request may name the same file many times, so it has at most 100 files and 1,000,000 characters of them. `shown`
    are the files that the model is going to be shown; of any other image, it is told that there is one.
    """

    def __init__(self, connection: Connection, scope: TenantView, shown: Shown | None = None) -> None:
        self._shown = shown or {}
        self._connection = connection
        self._scope = scope
        self._files = 0
        self._chars = 0

    def __call__(self, content: Any, where: str, *, of_tool: bool = False) -> Any:
        """Return `content`, which is at `where` in the request, with files as text, and its images marked. Raises
        `ApiError` for sounds that the model is not shown, and for files that are neither shown nor text; of those
        that a tool returned, the model is told."""
        if not parts_of(content):
            return content
        return [
            self._kept(part) if of_tool and part.get("type") in DOCUMENTS else self._part(part, f"{where}[{number}]")
            for number, part in enumerate(content)
        ]

    def kept(self, content: Any) -> Any:
        """Return stored `content` with files as text. What cannot be read stays as it is."""
        return [self._kept(part) for part in content] if parts_of(content) else content

    def _kept(self, part: Mapping[str, Any]) -> Mapping[str, Any]:
        with suppress(ApiError):
            return self._part(part, "")
        return part

    def _part(self, part: Mapping[str, Any], where: str) -> Mapping[str, Any]:
        marked = show(part, self._shown)
        if part.get("type") in IMAGES or is_shown(marked):
            return marked
        if part.get("type") not in _TEXTUAL:
            return _checked(part, where)
        place = f"{where}.file" if part["type"] == "file" else where
        given = part.get("file") if part["type"] == "file" else part
        if not isinstance(given, Mapping):
            raise missing_parameter(f"{where}.file")
        self._files += 1
        if self._files > _FILES_AT_ONCE:
            raise invalid_value(place, f"a request names at most {_FILES_AT_ONCE} files")
        name, text = self._read(given, place)
        self._chars += len(text)
        if self._chars > _MOST_OF_ALL:
            raise invalid_value(place, f"the files of a request have at most {_MOST_OF_ALL:,} characters together")
        return {"type": "input_text" if part["type"] == "input_file" else "text", "text": _as_text(name, text)}

    def _read(self, given: Mapping[str, Any], where: str) -> tuple[str, str]:
        """Return a file's name and its text."""
        name, id_, data = given.get("filename") or "", given.get("file_id"), given.get("file_data")
        if isinstance(id_, str):
            row = file_of(self._connection, self._scope, id_, f"{where}.file_id")
            _check_size(row.body["bytes"], where)
            kept = self._scope.find(self._connection, contents, id_)
            return row.body["filename"], _decode(b"" if kept is None else kept.content, where)
        if not isinstance(data, str):
            raise missing_parameter(f"{where}.file_data" if given.get("file_url") is None else f"{where}.file_id")
        head, comma, rest = data.partition(",")
        encoded = rest if comma and head.startswith("data:") else data
        _check_size(len(encoded) * 3 // 4, where)
        try:
            return str(name), _decode(base64.b64decode(encoded, validate=True), where)
        except (binascii.Error, ValueError) as error:
            raise invalid_value(f"{where}.file_data", "want base64, or a data URL of it") from error


async def prepare_files(context: Context, contents: Iterable[Any]) -> None:
    """Read the files that `contents` name, before the transaction that needs their text.

    Neutralizing a million characters takes a quarter of a second, for which all other writes would wait. The
    transaction finds the texts in a cache. It also raises what is wrong with a file.
    """
    named = [
        one
        for one in contents
        if any(isinstance(part, Mapping) and part.get("type") in _TEXTUAL for part in parts_of(one))
    ]

    def work(connection: Connection, scope: TenantView) -> None:
        readable = Readable(connection, scope)
        for content in named:
            readable.kept(content)

    if named:
        async with context.server.shares.large.rested(context.scope.tenant):
            await context.read(work)


@lru_cache(maxsize=32)  # entries of up to 256,000 characters
def _as_text(name: str, text: str) -> str:
    return f'[the file "{neutralize(name)}"]\n{neutralize(text)}\n[its end]'


def _checked(part: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Return a part that is no file. Raises `ApiError` unless it is text."""
    kind = part.get("type")
    if isinstance(kind, str) and kind in _WORDS:
        text = part.get(_WORDS[kind])
        if not isinstance(text, str):
            raise wrong_type(f"{where}.{_WORDS[kind]}", "a string", text)
        return part
    if kind is None:
        raise missing_parameter(f"{where}.type")
    text_kind, file_kind = ("input_text", "input_file") if str(kind).startswith("input_") else ("text", "file")
    message = (
        f"Invalid value: '{str(kind)[:64]}'. Supported values are: '{text_kind}' and '{file_kind}' (of text): models "
        "here are given nothing else."
    )
    raise ApiError(400, message, param=f"{where}.type", code="invalid_value")


def _check_size(size: int, where: str) -> None:
    """Raise `ApiError` for a file of so many bytes that it has too many characters, whatever they are."""
    if size > 4 * _MOST:
        raise invalid_value(where, f"the file has {size:,} bytes; the most is {_MOST:,} characters of text")


def _decode(data: bytes, where: str) -> str:
    """Return the text of a file. Raises `ApiError` if it is none, or too long."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text or text.lstrip().startswith("%PDF-"):  # a PDF may be ASCII
        problem = (
            "want a file of text, or a PDF, an image or a sound (WAV, MP3) for a model that reads them; others can be "
            "searched, in a vector store"
        )
        raise invalid_value(where, problem)
    if len(text) > _MOST:
        raise invalid_value(where, f"the file has {len(text):,} characters; the most is {_MOST:,}")
    return text
