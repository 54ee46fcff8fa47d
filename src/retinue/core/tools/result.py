"""What a tool returned, finished and made text for the model."""

from __future__ import annotations

import asyncio
import inspect
import io
import json
import logging
import time
from collections.abc import (
    AsyncIterator,
    Callable,
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    Sequence,
    ValuesView,
)
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ..._internal.containment import TimedOut, call_contained, describe_error
from ..._internal.foreign_text import make_well_formed
from ..._internal.redaction import redact
from ...errors import DataError, ToolError, UsageError
from ..files import MAX_BYTES_TOGETHER, read_file
from ..run_context import current_run
from ..run_result import RunResult
from ..values import Document, File

logger = logging.getLogger(__name__)
_MAX_FILES = 10  # of a result
_MAX_DATA = 1_000_000  # characters of it as JSON
_WITHIN = 10_000  # items of an iterator within a result
_LISTS = ("to_string", "to_dicts", "to_pylist", "tolist")  # pandas; polars; pyarrow; numpy and arrays


@dataclass(frozen=True, slots=True)
class ToolReturn:
    """What a tool returns that has more than one reader.

    Args:
        text: For the model: a text, or another value as tools return it.
        data: For the application: the `data` of the call's `Observation`, as JSON of at most 1,000,000 characters. No
            model is shown it.
        files: For a model that can read them: bytes, paths of files, `File`s, or images of PIL.

    Raises `UsageError` if `files` has anything else.
    """

    text: Any = ""
    data: Any = None
    files: Sequence[Any] = ()

    def __post_init__(self) -> None:
        for one in [self.files] if isinstance(self.files, str | bytes) else self.files:
            image = type(one).__module__.startswith("PIL.")
            if self.files is one or not (image or isinstance(one, bytes | bytearray | Path | File)):
                raise UsageError(f"files: want a list of bytes, Paths, Files or images, not {one!r:.80}")


def is_unfinished(value: Any) -> bool:
    """Return whether a function's result is still to be computed, on an event loop."""
    return inspect.isawaitable(value) or isinstance(value, AsyncIterator | Future)


async def finish(value: Any, most: int) -> Any:
    """Await `value`, or collect `most` items of it; the others are computed as well, for they may have effects."""
    if isinstance(value, Future):
        return await asyncio.wrap_future(value)
    if inspect.isawaitable(value):
        return await value
    items: list[Any] = []
    async for item in value:
        if len(items) < most:
            items.append(item)
    return items


def exhaust(items: Iterator[Any], most: int, end: float) -> list[Any]:
    """Collect `most` items; the others are computed as well, for they may have effects. Raises `TimedOut` after `end`,
    by the monotonic clock."""
    kept: list[Any] = []
    for item in items:
        if len(kept) < most:
            kept.append(item)
        if time.monotonic() > end:
            raise TimedOut
    return kept


def format_result(value: Any) -> str:
    """Convert what a tool returned to text. If its own methods fail at that, the text says so, for the tool has run.

    Raises `ToolError` for what shows that the tool's work has not been done: a function that nobody called, a context
    manager that nobody entered, a list of coroutines that nobody awaited.
    """
    if inspect.isroutine(value) or isinstance(value, partial | type):
        raise ToolError(f"it returned {getattr(value, '__name__', 'a function')} instead of calling it")
    if isinstance(value, AbstractContextManager | AbstractAsyncContextManager) and hasattr(value, "gen"):
        raise ToolError("it returned a context manager, which nobody enters; return the value instead")
    try:
        return call_contained(as_text, value)
    except ToolError:
        raise
    except Exception as error:
        return f"(a {type(value).__name__} that cannot be shown as text: {describe_error(error)})"


def as_text(value: Any) -> str:
    """Convert a value to text for the model: documents by content, everything else as JSON if it has a form in it."""
    match value:
        case str():
            return make_well_formed(str.__str__(value))
        case None:
            return ""
        case RunResult():
            return str(value)
        case ToolReturn():
            return _take_parts(value)
        case list() | tuple() if value and all(isinstance(item, Document) for item in value):
            return "\n".join(item.content for item in value)
        case bool() | int() | float() | dict() | list() | tuple():
            with suppress(TypeError, ValueError, RecursionError):
                return make_well_formed(json.dumps(value, ensure_ascii=False, default=_make_jsonable))
            plain = _convert_with_pydantic(value)  # for keys that are no texts
            return make_well_formed(plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False))
    plain = _make_jsonable(value)
    return as_text(plain if isinstance(plain, str | bool | int | float | dict | list) else str(plain))


def _take_parts(value: ToolReturn) -> str:
    """Return the text of a result, whose files and data go elsewhere."""
    shown = [one if not isinstance(one, Path) else take_file(one.read_bytes(), one.name) for one in value.files]
    if (call := current_run().call) is not None and value.data is not None:
        written = make_well_formed(json.dumps(_convert_with_pydantic(value.data), ensure_ascii=False))
        if len(written) <= _MAX_DATA:
            call.data = json.loads(redact(written), parse_constant=str)
        else:
            logger.warning("the data that %s returned is not kept: %d characters", call.tool, len(written))
    return "\n".join(filter(None, map(as_text, (value.text, *shown))))


def _make_jsonable(value: Any) -> Any:
    """Return a form of `value` that JSON has, or that contains simpler values; else its text."""
    if type(value).__module__.startswith("PIL.") and hasattr(value, "save"):
        out = io.BytesIO()
        value.save(out, "PNG")
        return take_file(out.getvalue())
    for kinds, form in _FORMS:
        if isinstance(value, kinds):
            return form(value)
    if is_unfinished(value):
        if inspect.iscoroutine(value):
            value.close()
        raise ToolError("it returned something that nobody awaited within its result; await it before")
    for name in _LISTS:
        if callable(method := getattr(type(value), name, None)):
            return method(value)
    if isinstance(value, Sequence | KeysView | ValuesView | ItemsView):
        return list(value)
    return _convert_with_pydantic(value)


def _convert_with_pydantic(value: Any) -> Any:
    """Return `value` as pydantic writes it: models, dataclasses, dates, decimals, enums, paths and the like."""
    from pydantic_core import to_jsonable_python

    try:
        return to_jsonable_python(value, fallback=_describe_object)
    except (TypeError, ValueError, RecursionError):  # such as an object within itself
        return str(value)


def _describe_object(value: Any) -> Any:
    """Return what is public in an object that does not describe itself; otherwise what it says."""
    kind = type(value)
    if hasattr(kind, "__attrs_attrs__"):
        return {field.name: getattr(value, field.name) for field in kind.__attrs_attrs__ if field.repr}
    if all(getattr(kind, name) is getattr(object, name) for name in ("__str__", "__repr__")):
        if isinstance(value, Iterable):
            return list(islice(value, _WITHIN))
        if hasattr(value, "__dict__"):
            return {name: one for name, one in vars(value).items() if not name.startswith("_")}
    if isinstance(value, Mapping | Sequence | Iterator) or any(hasattr(kind, name) for name in _LISTS):
        return _make_jsonable(value)
    return str(value)


def take_file(data: bytes, name: str = "") -> str:
    """Return what stands in a result's text for a file with these bytes, which goes to the model beside the text. What
    it is, its bytes say. One that models cannot read, or that is one too many, is only told of."""
    call = current_run().call
    told = f"{name}, " if name else ""
    try:
        file = read_file(data, name=name)
    except DataError as error:
        return f"({told}{len(data):,} bytes, not shown: {error})"
    told += f"{file.media_type}, {len(data):,} bytes"
    if call is None:
        return f"({told})"
    if len(call.files) >= _MAX_FILES or sum(len(one.data) for one in call.files) + len(data) > MAX_BYTES_TOGETHER:
        return f"({told}, not shown: a result has at most {_MAX_FILES} files and {MAX_BYTES_TOGETHER:,} bytes of them)"
    call.files.append(file)
    return f"({told})"


def _describe_bytes(value: bytes) -> str:
    with suppress(DataError):
        read_file(value)
        return take_file(value)
    with suppress(UnicodeDecodeError):
        return value.decode()
    return f"({len(value):,} bytes)"


def _sort_values(values: Any) -> list[Any]:
    try:
        return sorted(values)
    except TypeError:  # of several kinds
        return sorted(values, key=repr)


_FORMS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (Document, lambda value: value.content),
    (RunResult, str),
    (File, lambda value: take_file(value.data, value.name)),
    ((bytes, bytearray, memoryview), lambda value: _describe_bytes(bytes(value))),
    ((set, frozenset), _sort_values),
    (Mapping, dict),
    (BaseException, describe_error),
    (SimpleNamespace, vars),
    (Iterator, lambda value: list(islice(value, _WITHIN))),
)
