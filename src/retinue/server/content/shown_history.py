"""The files of a run's history and question: found on its thread, and loaded for its model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ...agent import Agent
from ...core.files import MAX_BYTES_TOGETHER, MAX_FILES, with_data
from ...core.values import Message
from ...errors import UsageError
from ...store.database import Database
from ...store.run_files import data_of_files, sizes_of_files
from ..http.api_errors import ApiError
from .file_intake import FileLoader, Place, take_in_history
from .file_parts import show, source_of

_OLD = "(a file, which is not shown to you any more)"


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
