"""A response: which part of a run it is, and its object in OpenAI's format, with every key present.

Each run is one response, plus another each time it resumes with client input.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...core.values import Usage
from ...store.run_row import RunRow
from ..conversations.items import PREFIXES
from ..http.objects import Object, last_error

_RESPONSE = re.compile(r"resp_([0-9a-f]{24})(?:x([1-9][0-9]{0,3}))?")
_ITEM = re.compile(r"[a-z]+_([0-9a-f]{24})p[0-9]{1,4}[io][0-9]{1,5}")
_DEFAULTS: Mapping[str, Any] = {
    "previous_response_id": None,
    "instructions": None,
    "tool_choice": "auto",
    "truncation": "disabled",
    "parallel_tool_calls": True,
    "top_p": 1.0,
    "top_logprobs": 0,
    "temperature": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "store": True,
    "background": False,
    "metadata": {},
    "safety_identifier": None,
    "prompt_cache_key": None,
    "user": None,
}
_TOOL: Mapping[str, Any] = {"type": "function", "name": "", "description": None, "parameters": None, "strict": None}


@dataclass(frozen=True, slots=True)
class Part:
    """One response of a run: number 0, or that of the submission that resumed it."""

    run: RunRow
    number: int = 0

    @property
    def id(self) -> str:
        """The response's id."""
        return f"resp_{self.run.id.partition('_')[2]}{f'x{self.number}' if self.number else ''}"

    @property
    def asked(self) -> Mapping[str, Any]:
        """The request's parameters, as the response echoes them."""
        asked: Mapping[str, Any] = self._read_field("asked")
        return asked

    @property
    def input(self) -> list[Object]:
        """The input items, with ids."""
        return [
            {"id": self.item_id(item["type"], at, "i"), **item} for at, item in enumerate(self._read_field("input"))
        ]

    @property
    def created_at(self) -> int:
        """Creation time in Unix seconds."""
        return self.run.submissions[self.number - 1].at if self.number else self.run.created_at

    @property
    def include(self) -> Sequence[str]:
        """The request's `include`."""
        return self._read_field("include") or ()

    @property
    def begin(self) -> int:
        """The number of the last log event of the previous responses."""
        return self.run.submissions[self.number - 1].told if self.number else 0

    @property
    def over(self) -> bool:
        """Whether the run resumed after this response."""
        return self.number < len(self.run.submissions)

    @property
    def deleted(self) -> bool:
        """Whether the client deleted it."""
        return self.number in self.run.deleted

    @property
    def stored(self) -> bool:
        """Whether it can be retrieved later."""
        return self.asked["store"] is not False and not self.deleted

    def _read_field(self, name: str) -> Any:
        return getattr(self.run.submissions[self.number - 1], name) if self.number else self.run.request.get(name)

    def item_id(self, kind: str, at: int, side: str = "o") -> str:
        """Return the id of the item at this position of the output (side "o") or input (side "i")."""
        return f"{PREFIXES.get(kind, 'item')}_{self.run.id.partition('_')[2]}p{self.number}{side}{at}"


def read_response_id(id_: str) -> tuple[str, int] | None:
    """Return the run id and number in a response id, or `None`."""
    found = _RESPONSE.fullmatch(id_)
    return (f"run_{found[1]}", int(found[2] or 0)) if found else None


def read_item_id(id_: str) -> str | None:
    """Return the id of the run in an item id, or `None`."""
    found = _ITEM.fullmatch(id_)
    return f"run_{found[1]}" if found else None


def part_of(run: RunRow | None, number: int) -> Part | None:
    """Return the response with this number of a run, or `None`."""
    return Part(run, number) if run is not None and run.kind == "response" and number <= len(run.submissions) else None


# ── objects ──────────────────────────────────────────────────────────────────────────────────────


def request_view(sent: Mapping[str, Any], model: str, conversation_id: str | None) -> Object:
    """Return the request's parameters, as its response echoes them."""
    text, reasoning = sent.get("text") or {}, sent.get("reasoning") or {}
    return {
        **{name: default if sent.get(name) is None else sent[name] for name, default in _DEFAULTS.items()},
        "model": model,
        "conversation": None if conversation_id is None else {"id": conversation_id},
        "tools": [{**_TOOL, **one} if one["type"] == "function" else dict(one) for one in sent.get("tools") or ()],
        "text": {"format": text.get("format") or {"type": "text"}, "verbosity": text.get("verbosity") or "medium"},
        "reasoning": {
            "effort": None,
            **reasoning,
            "summary": reasoning.get("summary") or reasoning.get("generate_summary"),
        },
    }


def response_object(
    part: Part,
    status: str,
    output: Sequence[Object] = (),
    usage: Usage | None = None,
    completed_at: int | None = None,
    problem: Mapping[str, Any] = {},
) -> Object:
    """Return the response object in this status; `problem` has its `error` and `incomplete_details`, if any."""
    return {
        "id": part.id,
        "object": "response",
        "created_at": part.created_at,
        "completed_at": completed_at,
        "status": status,
        "incomplete_details": problem.get("incomplete_details"),
        "error": problem.get("error"),
        **part.asked,
        "output": list(output),
        "service_tier": "default",
        "usage": None if usage is None else usage_object(usage),
    }


def problem_of(run: RunRow) -> Object:
    """Return why a run did not complete or is suspended, in a response's format."""
    if run.status == "incomplete":
        filtered = run.incomplete == "content_filter"
        return {"incomplete_details": {"reason": "content_filter" if filtered else "max_output_tokens"}}
    if run.status == "expired":
        return {"error": {"code": "server_error", "message": "The run has expired."}}
    if run.status == "failed" or run.suspended:
        return {"error": last_error(run) or {"code": "server_error", "message": "The run failed."}}
    return {}


def error_event(error: Mapping[str, Any]) -> Object:
    """Return the fields of an `error` event: nested as OpenAI sends them, which SDKs raise, and flat as its reference
    has them. The AI SDK reads only an error whose code is a text."""
    code = error["code"] or error["type"]
    return {"code": code, "message": error["message"], "param": error["param"], "error": {**error, "code": code}}


def usage_object(usage: Usage) -> Object:
    """Return token usage in a response's format."""
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": usage.cache_write_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total_tokens,
    }
