"""Hosted tools, available to every agent if the server enables them: `file_search` and `code_interpreter`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Connection

from ...components.sandbox import CodeInterpreter
from ...core.tools.tool import ExampleCall, Tool, ToolExample
from ...errors import ToolError, UsageError
from ...runs.thread_messages import FILE_SEARCH, mark
from ...store.tables import contents
from ...store.tenant_view import TenantView
from ...tools.passages import stem_words
from ..agents.overrides import CODE_INTERPRETER, HOSTED
from ..content.threads import Resources
from ..files.routes import file_of
from ..files.schemas import Filter
from ..files.search import Result, VectorSearch, search, validate_filter
from ..files.stores import store_of
from ..http.api_errors import ApiError

_MOST = 20  # default number of passages of a search
_TOLD = 7_500  # characters shown to the model, below the limit of a tool's result
_EXCERPT = 1_500  # characters per passage
_PATIENCE = 30.0  # seconds that a search waits for files being indexed
_FILES = 5_000_000  # bytes of files passed to a program
_HOW = "After what you take from a passage, write its `cite` as it is."
_FILTER: TypeAdapter[Filter] = TypeAdapter(Filter)
_PROGRAMS = (
    "Runs Python in a sandbox and gives what it prints, and the value of its last expression. Every program begins "
    "with nothing. There are modules such as math, json, csv, re, datetime, random, itertools and collections; no "
    "packages, no network, no open()."
)
_EXAMPLES = (  # on one line, as is all that `react` lets a model write; without it a small model begins with a fence
    ToolExample(
        "How many seconds are there in 3 weeks and 2 days?",
        (
            ExampleCall(
                "I need to calculate it with a program.", "days = 3 * 7 + 2; print(days * 24 * 60 * 60)", "1987200"
            ),
        ),
        "1987200",
    ),
)


@dataclass(frozen=True, slots=True)
class Hosted:
    """The `enabled` hosted tools, with the search and the code interpreter behind them."""

    enabled: Sequence[str]
    searching: VectorSearch
    interpreter: CodeInterpreter | None = None

    @classmethod
    def of(cls, enabled: Sequence[str], searching: VectorSearch) -> Hosted:
        """Set up the enabled tools. Raises `UsageError` if a tool is unknown or its extra is not installed."""
        if unknown := [name for name in enabled if name not in HOSTED]:
            raise UsageError(f"unknown hosted tool {unknown[0]!r}; there are: {', '.join(HOSTED)}")
        return cls(tuple(enabled), searching, CodeInterpreter() if CODE_INTERPRETER in enabled else None)

    async def tools(self, scope: TenantView, wishes: Sequence[Mapping[str, Any]], resources: Resources) -> list[Tool]:
        """Return the hosted tools that a request asks for, in the format of any API. Options are in the tool or under
        its type; they may include `vector_store_ids`, `filters`, and files in a `container`.

        Raises `UsageError` if a tool is not enabled, or if a store or file does not exist.
        """
        by_type = {one["type"]: one for one in wishes if one.get("type") in HOSTED}
        for kind in by_type:
            if kind not in self.enabled:
                raise UsageError(f"Tool '{kind}' is not enabled on this server (see hosted_tools).")
        try:
            return [await self._tool(scope, kind, wish, resources) for kind, wish in by_type.items()]
        except ApiError as error:
            raise UsageError(str(error)) from error

    async def _tool(self, scope: TenantView, kind: str, wish: Mapping[str, Any], resources: Resources) -> Tool:
        options = {**wish, **(wish.get(kind) or {})}
        if kind == FILE_SEARCH:
            stores = [*resources.stores, *(options.get("vector_store_ids") or ())]
            return await self._file_search(scope, list(dict.fromkeys(stores)), options)
        container = options.get("container")
        named = (container.get("file_ids") or ()) if isinstance(container, Mapping) else ()
        return await self._code_interpreter(scope, list(dict.fromkeys([*resources.files, *named])))

    async def _file_search(self, scope: TenantView, stores: Sequence[str], options: Mapping[str, Any]) -> Tool:
        filters, most = options.get("filters"), options.get("max_num_results") or _MOST
        least = (options.get("ranking_options") or {}).get("score_threshold") or 0.0

        async def file_search(query: str) -> str:
            """Searches the files that belong to this conversation for a few telling words; gives passages of them."""
            await self.searching.indexing.settled(stores, _PATIENCE)
            wanted = None if filters is None else validate_filter(_FILTER.validate_python(filters))
            try:
                found = await search(self.searching, scope, stores, query, most, wanted)
            except ApiError as error:
                raise ToolError(str(error)) from error
            return format_passages([one for one in found if one.score >= least], query)

        await self.searching.database.read(lambda connection: [store_of(connection, scope, one) for one in stores])
        return Tool(FILE_SEARCH, file_search, effects="read", timeout=2 * _PATIENCE)

    async def _code_interpreter(self, scope: TenantView, files: Sequence[str]) -> Tool:
        interpreter, database = self.interpreter, self.searching.database
        assert interpreter is not None

        def read_texts(connection: Connection) -> dict[str, str]:
            rows = [file_of(connection, scope, one) for one in files]
            if sum(row.body["bytes"] for row in rows) > _FILES:
                raise ToolError(f"the files have more than {_FILES:,} bytes together, which is too much for a program")
            kept = [(row.body["filename"], scope.find(connection, contents, row.id)) for row in rows]
            return {name: row.content.decode("utf-8", "replace") for name, row in kept if row is not None}

        async def code_interpreter(code: str) -> str:
            try:
                given = await database.read(read_texts) if files else {}
            except ApiError as error:
                raise ToolError(str(error)) from error
            return await interpreter.run_async(code, {"files": given})

        rows = await database.read(lambda connection: [file_of(connection, scope, one) for one in files])
        names = ", ".join(json.dumps(row.body["filename"]) for row in rows)
        about = f"{_PROGRAMS} `files` has the texts of: {names}." if names else _PROGRAMS
        return Tool(CODE_INTERPRETER, code_interpreter, about, effects="read", timeout=60.0, examples=_EXAMPLES)


def format_passages(found: Sequence[Result], query: str) -> str:
    """Return the passages as the model reads them, as many as fit, each with its citation mark."""
    shown: list[dict[str, Any]] = []
    text = json.dumps({"results": shown})
    for number, one in enumerate(found, 1):
        passage = {
            "cite": mark(number, one.file_name),
            "file_id": one.file_id,
            "file_name": one.file_name,
            "score": one.score,
            "text": _excerpt(one.text, query),
        }
        shown.append({**passage, "attributes": dict(one.attributes)} if one.attributes else passage)
        longer = json.dumps({"how": _HOW, "results": shown}, ensure_ascii=False)
        if len(longer) > _TOLD:
            break
        text = longer
    return text


def _excerpt(text: str, query: str) -> str:
    """Return the text, or of a long one the part that shares the most words with the query."""
    if len(text) <= _EXCERPT:
        return text
    wanted = stem_words(query)
    starts = range(0, len(text) - _EXCERPT // 2, _EXCERPT // 2)
    start = max(starts, key=lambda at: (len(wanted & stem_words(text[at : at + _EXCERPT])), -at))
    words = re.search(r"\s\S", text[start:]) if start else None
    start += words.start() + 1 if words is not None and words.start() < 40 else 0
    return text[start : start + _EXCERPT]
