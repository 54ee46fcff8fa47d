"""From a chat completion's request to a run: a new one, or one that waits for the client's tool outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fastapi import Request
from sqlalchemy import Connection

from ..._internal.concurrency import run_in_thread
from ...store.run_queries import find_own_run
from ...store.run_row import RunRow
from ...store.tenant_view import TenantView
from ..agents.overrides import SAMPLING, check_functions, placed_functions
from ..content.conversation import SYSTEM, conversation, text_of
from ..content.message_files import Place, Readable, Shown, files_in, prepare_files, shown_in, take_in_files
from ..content.threads import add_messages, find_or_add_thread
from ..content.tool_outputs import check_decided, submission_digest
from ..context import Context, tier_of
from ..http.api_errors import ApiError
from ..http.objects import Object, run_of_call
from ..models.audio import check_sound, hear_messages
from ..models.listing import named_or_only
from ..run_session import FAILED, Begun, NewRun, RunApi, RunSession, add_run, answer_calls, error_of_run
from .projection import Chunks, Entries, TextChunks, completion, text_completion
from .schemas import ChatCreate, check_supported
from .sound import SpokenChunks, add_sound, restore_speech

Said = Sequence[Mapping[str, Any]]
_KEPT = ("tools", "tool_choice", "parallel_tool_calls", "response_format", "store", *SAMPLING)


class ChatRun(RunApi):
    """A request for a completion, on the `thread` that its header names, if any. It is cancelled when its client goes
    away, unless the client may come again."""

    def __init__(self, context: Context, request: Request, body: ChatCreate, thread: str | None = None) -> None:
        super().__init__(context, request)
        self.body = body
        self.streams = bool(body.stream)
        self.lasting = context.repeat is not None
        self._thread = thread or body.thread_id or (body.metadata or {}).get("thread_id")
        self._model = named_or_only(context.server.deployment, body.model)
        self._messages: list[dict[str, Any]] = []
        self._shown: Shown = {}

    async def prepare(self) -> None:
        """Check the parameters, and load the files and sounds of the messages."""
        body, context = self.body, self.context
        check_supported(body, "functions", "function_call", "logprobs", "top_logprobs", "web_search_options")
        agent = context.server.deployment.agents[self._model]
        if body.modalities:
            await check_sound(context, self._model, body.modalities, body.audio)
        sent = body.sent()
        if functions := placed_functions(sent.get("tools") or ()):
            await run_in_thread(check_functions, agent, functions)
        text = body.messages if isinstance(body.messages, str) else None
        said = sent["messages"] if text is None else [{"role": "user", "content": text}]
        if any(one.get("audio") for one in said):
            said = await restore_speech(context, said)
        if self._model in context.server.deployment.ears:
            said = await hear_messages(context, self._model, said)
        await prepare_files(context, (one.get("content") for one in said))
        places = (Place(f"messages[{at}].content", one["role"], one.get("content")) for at, one in enumerate(said))
        self._shown = await take_in_files(context, agent, places)
        self._messages = said

    def begin(self, connection: Connection, scope: TenantView) -> Begun:
        """Add the run, or let the one go on whose calls the last messages answer. Raises `ApiError`."""
        said = read_messages(connection, scope, self._messages, self._shown)
        ttl = self.context.server.options.run_ttl
        waiting = _waiting_run(connection, scope, said)
        if waiting is not None:
            run, outputs = waiting
            files = {one.get("tool_call_id") or "": one.get("images") or () for one in said if one["role"] == "tool"}
            return Begun(*answer_calls(connection, scope.author, run, outputs, ttl, files=files))
        check_calls(said)
        answered = next((one.get("tool_call_id") for one in reversed(said) if one["role"] == "tool"), None)
        check_decided(connection, scope, answered, "messages")
        request, thread_id = self._request(said), None
        if self._thread is None:
            request["messages"] = conversation(said)
        else:
            thread_id = find_or_add_thread(connection, scope, self._thread)
            add_messages(connection, scope, thread_id, _new_messages(said))
            request["since"] = conversation(_answered_calls(said))
        return Begun(add_run(connection, scope, NewRun("chat", request, thread_id, self.body.metadata), ttl))

    def _request(self, said: Said) -> Object:
        """Return the stored request, without its conversation."""
        body, sent = self.body, self.body.sent()
        named = {
            "model": self._model,
            "instructions": "\n\n".join(text_of(one.get("content")) for one in said if one["role"] in SYSTEM),
            "max_completion_tokens": body.max_completion_tokens or body.max_tokens,
        }
        maybe = {
            "reasoning_effort": body.effort,
            "shows_reasoning": body.shows_reasoning,
            "user": body.user or body.safety_identifier,
            "stream": body.stream,
        }
        return {
            **{name: sent[name] for name in _KEPT if sent.get(name) is not None},
            **_allowed_tools(sent),
            **named,
            **{name: value for name, value in maybe.items() if value},
            **tier_of(sent),
        }

    def projection(self, begun: Begun) -> Chunks:
        """Return the chunks of the answer."""
        body, how = self.body, self.body.spoken
        if how is None:
            return Chunks(begun.run, with_usage=body.with_usage, reasoning=body.shows_reasoning)
        shows = {"with_usage": body.with_usage, "reasoning": body.shows_reasoning}
        return SpokenChunks(self.context, begun.run, how, **shows)

    async def answer(self, session: RunSession, begun: Begun) -> Object:
        """Return the completion once the run rests. Raises `ApiError` if it failed."""
        entries = Entries(begun.run)
        run = await session.wait(entries, self.request)
        if run.status in FAILED or run.suspended:
            raise await error_of_run(self.context.server, run)
        answer = completion(run, entries.log, reasoning=self.body.shows_reasoning)
        if self.body.spoken is not None:
            await add_sound(self.context, run, answer, self.body.spoken)
        if isinstance(self.body.messages, str):
            answer["text"] = answer["choices"][0]["message"]["content"]  # where OPEA's clients look
        return answer


class TextRun(ChatRun):
    """A request for a completion of a prompt, which is a chat's only message."""

    def projection(self, begun: Begun) -> Chunks:
        """Return the chunks of the answer."""
        return TextChunks(begun.run, with_usage=self.body.with_usage, reasoning=False)

    async def answer(self, session: RunSession, begun: Begun) -> Object:
        """Return the completion once the run rests."""
        chat = await super().answer(session, begun)
        (choice,) = chat["choices"]
        return text_completion(chat, choice["message"]["content"], choice["finish_reason"])


def _waiting_run(connection: Connection, scope: TenantView, said: Said) -> tuple[RunRow, list[tuple[str, str]]] | None:
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


def _allowed_tools(sent: Mapping[str, Any]) -> Object:
    """Return the tools and mode of a `tool_choice` of type `allowed_tools`. Raises `ApiError` for an unknown tool."""
    choice, tools = sent.get("tool_choice"), sent.get("tools") or []
    if not isinstance(choice, Mapping) or choice["type"] != "allowed_tools":
        return {}
    named = [one["function"]["name"] for one in choice["allowed_tools"]["tools"]]
    there = {one["function"]["name"] for one in tools}
    if unknown := [name for name in named if name not in there]:
        message = f"Tool choice '{unknown[0]}' not found in 'tools' parameter."
        raise ApiError(400, message, param="tool_choice.allowed_tools.tools")
    kept = [one for one in tools if one["function"]["name"] in named]
    return {"tools": kept, "tool_choice": choice["allowed_tools"]["mode"] if kept else "none"}


# ── messages ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def read_messages(connection: Connection, scope: TenantView, messages: Said, shown: Shown) -> list[dict[str, Any]]:
    """Return `messages` with text as content, user names before their text, and the `images` that are `shown`. The
    legacy `function_call` and role `function` are converted to their current forms. Raises `ApiError` for content that
    no model here accepts."""
    readable = Readable(connection, scope, shown)
    found: list[dict[str, Any]] = []
    last = ""  # the id of the last `function_call`
    for number, one in enumerate(messages):
        of_tool = one["role"] in ("tool", "function")
        content = readable(one.get("content"), f"messages[{number}].content", of_tool=of_tool)
        text, name = text_of(content), one.get("name")
        named = one["role"] == "user" and name not in (None, "", "user") and text
        seen = {"images": images, "parts": content} if (images := shown_in(content)) else {}
        read = {**one, "content": f"{name}: {text}" if named else text, **seen}
        calls = [_function_call(call) for call in read.pop("tool_calls", None) or ()]
        if one["role"] == "assistant" and one.get("function_call") is not None:
            last = f"function_{number}"
            calls.append({"id": last, "function": one["function_call"]})
        if one["role"] == "function":
            read |= {"role": "tool", "tool_call_id": last}
            last = ""
        found.append(read | ({"tool_calls": calls} if calls else {}))
    return found


def _function_call(call: Mapping[str, Any]) -> Object:
    custom = call.get("custom") or {}
    function = call.get("function") or {"name": custom.get("name"), "arguments": custom.get("input")}
    return {"id": call["id"], "function": function}


def check_calls(said: Said) -> None:
    """Raise `ApiError` if a tool message answers no call."""
    called: set[str] = set()
    for number, one in enumerate(said):
        called |= {call["id"] for call in one.get("tool_calls") or ()}
        if one["role"] == "tool" and one.get("tool_call_id") not in called:
            message = (
                "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
                "'tool_calls'."
            )
            raise ApiError(400, message, param=f"messages[{number}].role")


def _answered_calls(said: Said) -> Said:
    """Return the calls answered by the last messages, together with the answers; the run that waited for them is
    gone."""
    last = next((at for at, one in enumerate(reversed(said)) if one["role"] != "tool"), len(said))
    return said[len(said) - last - 1 :] if 0 < last < len(said) else ()


def _new_messages(said: Said) -> list[Object]:
    """Return the user's messages since the last answer, for a thread, which has the earlier ones."""
    found: list[Object] = []
    for one in reversed(said):
        if one["role"] == "assistant" and (one.get("tool_calls") or text_of(one.get("content")).strip()):
            break  # an empty message is not an answer
        text, images = text_of(one.get("content")), one.get("images")
        if one["role"] == "user" and (text or images):
            texts = [{"type": "text", "text": text}] if text else []
            content = [*texts, *_image_parts(one["parts"])] if images else text
            found.insert(0, {"role": "user", "content": content})
    return found


def _image_parts(content: Any) -> Iterator[Object]:
    """Yield the images of a content; a thread has no place for other files."""
    for _, source in files_in(content):
        if source.is_image and source.file_id:
            yield {"type": "image_file", "image_file": {"file_id": source.file_id, "detail": source.detail}}
        elif source.is_image:
            yield {"type": "image_url", "image_url": {"url": source.url, "detail": source.detail}}
