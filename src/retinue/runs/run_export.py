"""A run as one JSON object, to be read elsewhere, and imported there: stored as it is, and never driven."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError
from sqlalchemy import Connection

from ..core.events import Observed, Said, request_usage
from ..core.serialization import dump, load
from ..errors import DataError
from ..store.event_log import Entry, append_entries, read_events
from ..store.run_queries import insert_run, member_runs
from ..store.run_row import RunError, RunRow
from .run_view import states_in

VERSION = 1
MAX_EVENTS = 50_000
MAX_RUNS = 200
_MAX_LEVELS = 10
_NAME = r"^[^\x00]+$"
_LAST = 253_402_300_800  # the year 10000, in Unix seconds: what follows is no date in JavaScript, nor in Python
_Time = Annotated[int, Field(ge=0, lt=_LAST)]
_Count = Annotated[int, Field(ge=0, lt=2**53)]
Withheld = Callable[[RunRow, Entry], Sequence[str]]


class _Exported(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Error(_Exported):
    code: Annotated[str, Field(max_length=256)]
    message: Annotated[str, Field(max_length=10_000)]


class _Tokens(_Exported):
    prompt_tokens: _Count
    completion_tokens: _Count
    cached_tokens: _Count


class _Origin(_Exported):
    run_id: Annotated[str, Field(max_length=64, pattern=_NAME)]
    step: Annotated[int, Field(ge=0, lt=2**31)]


class _Run(_Exported):
    id: Annotated[str, Field(max_length=64, pattern=_NAME)]
    created_at: _Time
    kind: Literal["assistant", "chat", "response", "a2a", "member", "fork", "imported"]
    model: Annotated[str, Field(max_length=1_000, pattern=_NAME)]
    status: Literal["completed", "failed", "cancelled", "expired", "incomplete"]
    started_at: _Time | None
    ended_at: _Time | None
    last_error: _Error | None
    incomplete: Annotated[str, Field(max_length=64)] | None
    usage: _Tokens | None
    call_id: Annotated[str, Field(max_length=64, pattern=_NAME)] | None
    forked_from: _Origin | None
    metadata: Annotated[
        dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]], Field(max_length=16)
    ]


class ExportedLog(_Exported):
    """A run, its events, and the runs of its members."""

    run: _Run
    events: Annotated[list[dict[str, Any]], Field(max_length=MAX_EVENTS)]
    members: Annotated[list[ExportedLog], Field(max_length=MAX_RUNS)]

    def each(self, path: str = "") -> Iterator[tuple[str, ExportedLog]]:
        """Yield this run and those below it, by the paths of their calls."""
        yield path, self
        for member in self.members:
            yield from member.each(f"{path}/{member.run.call_id}".lstrip("/"))


class RunExport(ExportedLog):
    """An exported run with the runs of its members."""

    object: Literal["run.export"]
    version: Literal[1]


def export_run(connection: Connection, run: RunRow, withheld: Withheld = lambda run, entry: ()) -> dict[str, Any]:
    """Return a run as JSON, with those of its members. `withheld` says which fields of an event are left out. Raises
    `DataError` if a log cannot be read."""
    return {"object": "run.export", "version": VERSION, **_exported(connection, run, withheld)}


def _exported(connection: Connection, run: RunRow, withheld: Withheld) -> dict[str, Any]:
    log = read_events(connection, run.id)
    return {
        "run": _run_values(run),
        "events": [_event(entry, withheld(run, entry)) for entry in log if not isinstance(entry.event, Said)],
        "members": [_exported(connection, member, withheld) for member in member_runs(connection, run.id)],
    }


def _run_values(run: RunRow) -> dict[str, Any]:
    origin = run.request.get("imported_from") or {}
    usage = run.usage
    return {
        "id": run.id,
        "created_at": run.created_at,
        "kind": origin.get("kind", run.kind),
        "model": run.agent,
        "status": run.status,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "last_error": None if run.error is None else {"code": run.error.code, "message": run.error.message},
        "incomplete": run.incomplete,
        "usage": usage
        and {
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "cached_tokens": usage.cached_tokens,
        },
        "call_id": run.call_id,
        "forked_from": origin.get("forked_from", run.request.get("forked_from")),
        "metadata": dict(run.metadata),
    }


def _event(entry: Entry, withheld: Sequence[str]) -> dict[str, Any]:
    kind, payload = dump(entry.event)
    data = json.loads(payload)
    for one in states_in(data):
        del one["state"]  # an imported run asks no model, so nobody wants it back
    fields = {name: value for name, value in data.items() if name not in withheld}
    told = {"withheld": sorted(withheld)} if withheld else {}
    return {"seq": entry.seq, "at": entry.at, "kind": kind, **fields, **told}


def parse_export(text: bytes | str) -> RunExport:
    """Parse an exported run. Raises `DataError`, which names the place, for what `export_run` did not write."""
    try:
        given = RunExport.model_validate_json(text)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        place = ".".join(map(str, problem["loc"])) or "the file"
        raise DataError(f"not an exported run: {place}: {problem['msg']}") from error
    _check_size(given)
    return given


def _check_size(given: ExportedLog) -> None:
    runs, events, level = 0, 0, [given]
    for _ in range(_MAX_LEVELS):
        runs += len(level)
        events += sum(len(one.events) for one in level)
        level = [member for one in level for member in one.members]
    if level or runs > MAX_RUNS or events > MAX_EVENTS:
        most = f"{MAX_RUNS} runs in {_MAX_LEVELS} levels, with {MAX_EVENTS:,} events"
        raise DataError(f"the exported run is too large: at most {most} can be imported")


class ImportedRun(NamedTuple):
    """A run to be stored: its row and its log."""

    row: RunRow
    log: Sequence[Entry]


def imported_runs(
    given: RunExport, tenant: str, key_id: str | None = None, user: str | None = None
) -> list[ImportedRun]:
    """Return an exported run, and then those of its members, as the tenant's, under new ids. Raises `DataError` if an
    event is none."""
    return list(_imported(given, RunRow(**_blank(tenant, key_id), user=user)))


def import_runs(connection: Connection, found: Sequence[ImportedRun]) -> RunRow:
    """Store imported runs. Return the first one's row."""
    for row, log in found:
        insert_run(connection, row)
        if log:
            append_entries(connection, row, log)
    return found[0].row


def _blank(tenant: str, key_id: str | None) -> dict[str, Any]:
    """Return the values of a run that nobody drives."""
    never = {"holds": False, "expires_at": None, "thread_id": None, "epoch": 0, "kind": "imported", "stored": True}
    return {"id": "", "tenant": tenant, "key_id": key_id, "created_at": 0, "status": "failed", "request": {}, **never}


def _imported(given: ExportedLog, blank: RunRow) -> Iterator[ImportedRun]:
    run = given.run
    size = sum(len(json.dumps(one)) for one in given.events)
    origin: dict[str, Any] = {"bytes": size, "run_id": run.id, "kind": run.kind}  # quotas find the size where it begins
    if run.forked_from is not None:
        origin["forked_from"] = run.forked_from.model_dump()
    usage = None if run.usage is None else run.usage.model_dump()
    log = events_of(given)
    row = blank._replace(
        id=f"run_{secrets.token_hex(12)}",
        created_at=run.created_at,
        status=run.status,
        agent=run.model,
        call_id=run.call_id if blank.parent_id else None,
        started_at=run.started_at,
        ended_at=run.ended_at,
        error=None if run.last_error is None else RunError(run.last_error.code, run.last_error.message),
        incomplete=run.incomplete,
        metadata=run.metadata,
        request={"model": run.model, "imported_from": origin},
        **(usage or {}),
    )
    yield ImportedRun(row, log)
    for member in given.members:
        yield from _imported(member, blank._replace(parent_id=row.id, root_id=blank.root_id or row.id))


def events_of(given: ExportedLog) -> list[Entry]:
    """Return the entries of a log. Raises `DataError`."""
    found: list[Entry] = []
    for at, one in enumerate(given.events):
        place = f"the run {given.run.id}: events.{at}"
        if isinstance(withheld := one.get("withheld"), list) and withheld:
            raise DataError(
                f"{place}: {', '.join(map(str, withheld))} is withheld here; "
                "export the run with a key that has the scope 'prompts'"
            )
        entry = _entry(one, place)
        if found and entry.seq <= found[-1].seq:
            raise DataError(f"{place}: the number {entry.seq} follows {found[-1].seq}")
        found.append(entry)
    return found


class _Stamp(_Exported):
    seq: Annotated[int, Field(ge=1, lt=2**31)]
    at: Annotated[FiniteFloat, Field(ge=0, lt=_LAST)]
    kind: Annotated[str, Field(max_length=16)]


def _entry(given: Mapping[str, Any], place: str) -> Entry:
    try:
        stamp = _Stamp.model_validate({name: given[name] for name in ("seq", "at", "kind") if name in given})
        fields = {name: value for name, value in given.items() if name not in ("seq", "at", "kind")}
        event = load(stamp.kind, json.dumps(fields), strict=True)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise DataError(f"{place}.{problem['loc'][0]}: {problem['msg']}") from error
    except DataError as error:
        raise DataError(f"{place}: {error}") from error
    used = event.observation.usage if isinstance(event, Observed) else request_usage(event)
    if used is not None and not used.is_possible:
        raise DataError(f"{place}: its usage is not what a model can have used")
    if isinstance(event, Said):
        raise DataError(f"{place}: an exported run has no event of the kind 'said'")
    return Entry(stamp.seq, stamp.at, event)
