"""Response objects in OpenAI's format, with every key present."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...core.values import Usage
from ...store.run_row import RunRow
from ..http.objects import Object, last_error
from .response_parts import Part

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


def request_view(sent: Mapping[str, Any], model: str, conversation_id: str | None) -> Object:
    """Return the request's parameters, as its response echoes them."""
    asked = {name: sent.get(name) for name in _DEFAULTS}
    text, reasoning = sent.get("text") or {}, sent.get("reasoning") or {}
    summary = reasoning.get("summary") or reasoning.get("generate_summary")
    return {
        **{name: _DEFAULTS[name] if value is None else value for name, value in asked.items()},
        "model": model,
        "conversation": None if conversation_id is None else {"id": conversation_id},
        "tools": [_tool(tool) for tool in sent.get("tools") or ()],
        "text": {"format": text.get("format") or {"type": "text"}, "verbosity": text.get("verbosity") or "medium"},
        "reasoning": {"effort": None, **reasoning, "summary": summary},
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
        **{name: _DEFAULTS[name] for name in ("presence_penalty", "frequency_penalty")},  # which former requests lack
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


def _tool(tool: Mapping[str, Any]) -> Object:
    return {**_TOOL, **tool} if tool["type"] == "function" else dict(tool)
