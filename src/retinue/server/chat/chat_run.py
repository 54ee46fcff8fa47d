"""Chat completions as runs: starts a new run, or resumes one that waits for the client's tool outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import Connection

from ...store.run_queries import find_own_run
from ...store.run_row import RunRow
from ...store.tenant_view import TenantView
from ..assistants.messages import add_messages
from ..assistants.run_creation import NewRun, add_run
from ..assistants.schemas import ImageUrl, ImageUrlPart, MessageCreate, TextPart
from ..assistants.threads import find_or_add_thread
from ..content.conversation_history import SYSTEM, conversation, text_of
from ..content.file_parts import Shown, files_in
from ..content.tool_outputs import check_decided, parse_submission, submission_digest
from ..context import Options, tier_of
from ..http.api_errors import ApiError
from ..http.objects import run_of_call
from ..run_acts import resume_run
from .message_check import Said, check_calls, check_messages

_KEPT = (
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
    "temperature",
    "top_p",
    "stop",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "reasoning_effort",
    "verbosity",
    "store",
    "shows_reasoning",
)


def chat_run(
    connection: Connection,
    scope: TenantView,
    options: Options,
    asked: Mapping[str, Any],
    thread_key: str | None,
    shown: Shown,
) -> tuple[RunRow, bool]:
    """Return the run that answers a request, and whether it must be started. Raises `ApiError`."""
    said = check_messages(connection, scope, asked["messages"], shown)
    waiting = _waiting(connection, scope, said)
    if waiting is not None:
        run, outputs = waiting
        files = {one.get("tool_call_id") or "": one.get("images") or () for one in said if one["role"] == "tool"}
        answer = parse_submission(run, outputs, files)
        if answer is not None:
            run = resume_run(connection, scope.author, run, answer, options.run_ttl)
        return run, answer is not None
    check_calls(said)
    answered = next((one.get("tool_call_id") for one in reversed(said) if one["role"] == "tool"), None)
    check_decided(connection, scope, answered, "messages")
    request = {name: asked[name] for name in _KEPT if asked.get(name) is not None}
    request |= _allowed(asked)
    request |= {
        "model": asked["model"],
        "instructions": "\n\n".join(text_of(one.get("content")) for one in said if one["role"] in SYSTEM),
        "max_completion_tokens": asked.get("max_completion_tokens") or asked.get("max_tokens") or None,
    }
    request |= {"user": user} if (user := asked.get("user") or asked.get("safety_identifier")) else {}
    request |= {"stream": True} if asked.get("stream") else {}
    request |= tier_of(asked)
    thread_id = None
    if thread_key is not None:
        thread_id = find_or_add_thread(connection, scope, thread_key)
        add_messages(connection, scope, thread_id, _news(said))
        request["since"] = conversation(_since(said))
    else:
        request["messages"] = conversation(said)
    new = NewRun("chat", request, thread_id, asked.get("metadata"))
    return add_run(connection, scope, new, options.run_ttl), True


def _waiting(connection: Connection, scope: TenantView, said: Said) -> tuple[RunRow, list[tuple[str, str]]] | None:
    """Return the waiting run whose calls the last messages answer, and the outputs. `None` if no such run waits: the
    request's own messages are then the whole context."""
    outputs: list[tuple[str, str]] = []
    for one in reversed(said):
        if one["role"] != "tool":
            break
        outputs.insert(0, (one.get("tool_call_id") or "", text_of(one.get("content"))))
    run_id = run_of_call(outputs[0][0]) if outputs else None
    run = None if run_id is None else find_own_run(connection, scope, run_id, lock=True)
    if run is None or run.kind != "chat":
        return None
    waits = run.status == "requires_action" or run.submitted(submission_digest(outputs))
    return (run, outputs) if waits else None


def _since(said: Said) -> Said:
    """Return the calls answered by the last messages, together with the answers; the run that waited for them is
    gone."""
    last = next((at for at, one in enumerate(reversed(said)) if one["role"] != "tool"), len(said))
    return said[len(said) - last - 1 :] if 0 < last < len(said) else ()


def _allowed(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tools and mode of a `tool_choice` of type `allowed_tools`. Raises `ApiError` for an unknown tool."""
    choice, tools = asked.get("tool_choice"), asked.get("tools") or []
    if not isinstance(choice, Mapping) or choice["type"] != "allowed_tools":
        return {}
    named = [one["function"]["name"] for one in choice["allowed_tools"]["tools"]]
    there = {one["function"]["name"] for one in tools}
    if unknown := [name for name in named if name not in there]:
        message = f"Tool choice '{unknown[0]}' not found in 'tools' parameter."
        raise ApiError(400, message, param="tool_choice.allowed_tools.tools")
    kept = [one for one in tools if one["function"]["name"] in named]
    return {"tools": kept, "tool_choice": choice["allowed_tools"]["mode"] if kept else "none"}


def _news(said: Said) -> list[MessageCreate]:
    """Return the user's messages since the last answer; the thread has the earlier ones."""
    texts: list[MessageCreate] = []
    for one in reversed(said):
        if one["role"] == "assistant" and (one.get("tool_calls") or text_of(one.get("content")).strip()):
            break  # an empty message is not an answer
        text, images = text_of(one.get("content")), one.get("images")
        if one["role"] == "user" and (text or images):
            content = [*_text_part(text), *_image_parts(one["parts"])] if images else text
            texts.insert(
                0, MessageCreate.model_construct(role="user", content=content)
            )  # validated, except for the total length
    return texts


def _text_part(text: str) -> Iterator[TextPart]:
    if text:
        yield TextPart.model_construct(type="text", text=text)


def _image_parts(content: Any) -> Iterator[ImageUrlPart]:
    for _, source in files_in(content):
        if not source.is_image:
            continue  # a thread has no place for it
        url = ImageUrl.model_validate({"url": source.url, "detail": source.detail})
        yield ImageUrlPart(type="image_url", image_url=url)
