"""Real ids for the paths and bodies that Schemathesis makes: with random ones, all there is to see is 404."""

from __future__ import annotations

import asyncio
from typing import Any, TypeAlias

import aiohttp
import schemathesis

from conformance.objects import AGENT, EMBEDDER, MAKERS, NotMadeError, Objects, Server

Case: TypeAlias = schemathesis.Case[Any]
_ENDING = ("/cancel", "/submit_tool_outputs")  # what only a run that waits can be asked
_IN_BODIES = {"model", "assistant_id", "conversation", "previous_response_id", "tool_call_id", "file_id"}
_LASTS = 10  # cases that one family serves
_LEFT = 5  # every so many, a case keeps the ids that were made up


class Families:
    """Objects that belong together (a thread, its messages, its run, …), anew for every few cases and wherever one
    was changed for good."""

    def __init__(self, url: str, key: str) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {key}"}
        self._made: dict[str, dict[str, str]] = {}  # of each operation
        self._cases = 0

    def fill(self, case: Case) -> None:
        """Put real ids into `case`, but for one of a few."""
        self._cases += 1
        if self._cases % _LEFT == 0:
            return
        for name in case.path_parameters or {}:
            if (real := self._real(case, name)) is not None:
                case.path_parameters[name] = real
        self._fill_body(case, case.body)

    def done(self, case: Case, status: int) -> None:
        """`case` was answered with `status`: what it deleted or ended serves no other."""
        if status < 300 and (case.method == "DELETE" or case.path.endswith(_ENDING)):
            self._made.pop(case.operation.label, None)

    def _fill_body(self, case: Case, value: Any) -> None:
        if isinstance(value, list):
            for one in value:
                self._fill_body(case, one)
        elif isinstance(value, dict):
            for name, one in value.items():
                if name == "json_schema" and isinstance(one, dict) and "schema" in one:
                    one["schema"] = {}  # the script keeps to this one
                elif not isinstance(one, str):
                    self._fill_body(case, one)
                elif name in _IN_BODIES and (real := self._real(case, name)) is not None:
                    value[name] = real

    def _real(self, case: Case, name: str) -> str | None:
        if name == "model":
            return EMBEDDER if case.path.endswith("/embeddings") else AGENT
        literal = {"conversation": "conversation_id", "previous_response_id": "response_id"}.get(name, name)
        if literal == "file_id" and "/vector_stores/" in case.path and name in (case.path_parameters or {}):
            literal = "attached_file_id"
        if literal not in MAKERS or (literal == "tool_call_id" and not case.path.endswith(_ENDING)):
            return None
        if self._cases % _LASTS == 0:
            self._made.pop(case.operation.label, None)
        made = self._made.setdefault(case.operation.label, {})
        if literal not in made:
            try:
                made.update(asyncio.run(self._family(literal, case.path.endswith(_ENDING), made)))
            except NotMadeError:
                return None
        return made[literal]

    async def _family(self, literal: str, waiting: bool, made: dict[str, str]) -> dict[str, str]:
        async with aiohttp.ClientSession(self._url, headers=self._headers) as session:
            objects: Any = Objects(Server(session), waiting=waiting, ids=made)
            await objects.id(literal)
            return dict(objects.ids)
