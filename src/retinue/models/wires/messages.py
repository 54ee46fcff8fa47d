"""Anthropic's wire format: the Messages API, which Bedrock, Vertex and other vendors speak as well.

Rules that it keeps, by page of https://platform.claude.com/docs/en/:

- build-with-claude/thinking: `thinking` and `redacted_thinking` blocks go back unmodified, in their order, with the
  `tool_use` blocks of their turn.
- build-with-claude/extended-thinking: with a budget, a turn that calls tools must begin with a thinking block, and no
  call can be forced. A budget is 1,024 tokens or more, and less than `max_tokens`.
- build-with-claude/adaptive-thinking: from 4.7 on there are no budgets; `effort` says how much is thought.
- build-with-claude/preserved-thinking: from 5.1 on, a block is bound to all that comes before it.
- api/errors, api/messages: the order of results, ids, texts that are not blank, stop sequences.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...core.values import AgentAction, File, Message, Usage
from ...errors import ModelRefused
from .. import wire_format
from ..schemas import declare_tool
from ..wire_format import Encoded, PartialReply, Terms, find_count_at, find_json_at, find_text_at, to_json

_VERSION = re.compile(r"claude-(?:[a-z]+-)?v?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")
_LATEST = (99, 0)
# Output tokens, up to a version; others that speak this format support as many as the second:
_MOST = (((3, 4), 4_096), ((3, 6), 8_192), ((4, 5), 64_000), (_LATEST, 128_000))
_OPUS_4 = re.compile(r"opus-4(?:-1\b|-0\b|-2025|@|$)")
_CHOICE = {"auto": "auto", "required": "any", "none": "none"}
_SAMPLING = ("temperature", "top_p", "top_k")
_STRANGE = re.compile(r"[^A-Za-z0-9_-]")  # not allowed in the names and ids of calls
_LONGEST_NAME = 128
_THOUGHTS = ("thinking", "redacted_thinking")
_PLAIN = ("text", "tool_use")  # blocks that can be sent anew instead of being sent back

_BUDGETS = {"minimal": 1_024, "low": 2_048, "medium": 8_192, "high": 16_384, "xhigh": 32_768, "max": 64_000}
_LEAST_BUDGET = 1_024
_INTERLEAVED = "interleaved-thinking-2025-05-14"
_BINDING = "thinking-binding-controls-2026-08-01"

# What a server may refuse, and what is sent instead (`Terms.without`):
_ENABLED = "thinking.enabled"  # budgets: adaptive thinking
_ADAPTIVE = "thinking.adaptive"  # a budget
_DISABLED = "thinking.disabled"  # the least effort
_UNOPENED = "thinking.unopened"  # a budget after calls without thinking: no thinking until the next question
_PREFIX = "thinking.prefix"  # thinking before which something has changed: the server is told to ignore it
_FORCED = "tool_choice.any"  # forced calls: `auto`
_REFUSALS = (
    (_ENABLED, re.compile(r"thinking\.type\.enabled|adaptive thinking is (?:required|always)")),
    (_DISABLED, re.compile(r"thinking\.type\.disabled")),
    (_ADAPTIVE, re.compile(r"thinking\.type\.adaptive\W+is not|adaptive thinking is not|tag 'adaptive'")),
    (_FORCED, re.compile(r"tool_choice\b.*not (?:supported|compatible)|may not be enabled when tool_choice")),
    (_PREFIX, re.compile(r"prefix_mismatch_behavior|bound to a different conversation")),
    ("thinking.display", re.compile(r"thinking[.\w]*\.display")),
    ("output_config.effort", re.compile(r"effort.{0,20}parameter|parameter.{0,20}effort|effort\b.*Input should be")),
    ("betas", re.compile(r"anthropic[-_]beta|\bbeta (?:flag|header)", re.IGNORECASE)),
)


class Messages(wire_format.Wire):
    """The Messages API."""

    name, path = "messages", "/messages"
    dispensable = frozenset(
        "temperature top_p top_k stop_sequences cache_control thinking thinking.display output_config"
        " output_config.effort output_config.format".split()
    )
    sampling = {name: name for name in _SAMPLING}
    hottest = 1.0
    results_have_files = True

    def build_parameters(self, terms: Terms) -> dict[str, Any]:
        parameters = wire_format.select_given(
            model=terms.model,
            max_tokens=_find_most(terms) if terms.max_tokens is None else terms.max_tokens,  # required by the API
            cache_control={"type": "ephemeral"},  # caches the longest prefix; leaves the messages unchanged
            temperature=self.limit(terms.temperature),
            stop_sequences=[word for word in terms.stop if word.strip()] or None,  # the API rejects blank ones
            stream=terms.stream or None,
        )
        if terms.tools:
            declared = [declare_tool(tool, terms.model, terms.in_words) for tool in terms.tools]
            parameters["tools"] = [
                {name: one[name] for name in ("name", "description") if one.get(name)}
                | {"input_schema": one["parameters"]}
                for one in declared
            ]
            is_free = terms.tool_choice == "required" and _FORCED in terms.without
            parameters["tool_choice"] = {"type": "auto" if is_free else _CHOICE[terms.tool_choice]}
        return parameters | _build_thinking(terms)

    def add_options(self, parameters: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
        return _reconcile(wire_format.merge_options(parameters, options, ("tools", "betas")))

    def add_sampling(self, parameters: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
        known = self.translate_sampling(options)
        choice = parameters.get("tool_choice")
        if choice and choice["type"] != "none" and options.get("parallel_tool_calls") is False:
            known["tool_choice"] = choice | {"disable_parallel_tool_use": True}
        return _reconcile(parameters | known)

    def take_headers(self, parameters: dict[str, Any]) -> Mapping[str, str]:
        """Move the names of trial features, which the SDKs call `betas`, into their header."""
        betas = parameters.pop("betas", ())
        return {"anthropic-beta": ",".join(dict.fromkeys(betas))} if betas else {}

    def encode_messages(self, kept: Encoded, new: Sequence[Message]) -> Encoded:
        """Append the `new` messages to `kept`. The results of one step's calls share a user turn, which stays open."""
        messages, system, opened, ids, unfit = kept.messages, kept.system, kept.open, kept.ids, kept.unfit
        for message in new:
            content = message.content.strip()
            if message.role == "system" and not messages:
                system = f"{system}\n\n{content}" if system else content
            elif message.role == "tool":
                messages += b", " if opened else _join(messages, opened) + b'{"role": "user", "content": ['
                messages += to_json(_encode_result(message, ids.get(message.call_id, message.call_id), content))
                opened = True
            elif blocks := list(_restore_blocks(message) if message.state else _encode_blocks(message, content)):
                if message.calls:
                    uses = _name_calls(blocks, b"" if message.state else messages)
                    if not ids and blocks[0]["type"] not in _THOUGHTS:
                        unfit |= {_UNOPENED}
                    ids = {**ids, **{call.id: use["id"] for call, use in zip(message.calls, uses, strict=False)}}
                elif message.role != "assistant" and not opened:  # a question, and not a remark after results
                    ids, unfit = {}, unfit - {_UNOPENED}
                turn = {"role": "assistant" if message.role == "assistant" else "user", "content": blocks}
                if message.role == "assistant" and not messages:
                    messages = to_json({"role": "user", "content": "(nothing)"})  # the first message must be a user's
                messages += _join(messages, opened) + to_json(turn)
                opened = False
        return replace(kept, messages=messages, system=system, open=opened, ids=ids, unfit=unfit)

    def write_body(self, head: bytes, encoded: Encoded) -> bytes:
        messages, system = encoded.messages + b"]}" * encoded.open, encoded.system
        if not messages:  # at least one message is required, so a lone system prompt becomes one
            messages, system = to_json({"role": "user", "content": system or "?"}), ""
        if system:
            head += b', "system": ' + to_json(system)
        return super().write_body(head, Encoded(messages))

    def read_body(self, body: Mapping[str, Any], arriving: PartialReply) -> None:
        match body.get("type"):
            case "message":
                blocks = body.get("content")
                for block in blocks if isinstance(blocks, list) else [{"type": "text", "text": blocks}]:
                    _read_block(None, block, arriving)
                _read_end(body.get("stop_reason"), body.get("usage"), arriving)
            case "message_start":
                arriving.usage = _read_usage(find_json_at(body, "message", "usage"), arriving.usage)
            case "content_block_start":
                _read_block(body.get("index"), body.get("content_block"), arriving)
            case "content_block_delta":
                _read_delta(body.get("index"), body.get("delta"), arriving)
            case "message_delta":
                _read_end(find_json_at(body, "delta", "stop_reason"), body.get("usage"), arriving)

    def keep_turn(self, arriving: PartialReply) -> Any:
        """Return the turn's blocks, if any are more than text and calls; calls that are not whole are left out."""
        whole, blocks = [call.extra for call in arriving.list_whole_calls()], list[dict[str, Any]]()
        for _, block in arriving.turn or ():
            if text := block.pop("partial_json", ""):
                given = wire_format.read_arguments(text)
                block["input"] = given if isinstance(given, dict) else block.get("input", {})
            if block["type"] != "tool_use" or any(block is call for call in whole):
                blocks.append(block)
        by_code = any(find_json_at(block, "caller", "type") not in (None, "direct") for block in blocks)
        wanted = by_code or arriving.paused or any(block["type"] not in _PLAIN for block in blocks)
        return {"content": blocks} if wanted else None

    def find_refused(self, refused: ModelRefused, sent: Mapping[str, Any]) -> str:
        return next((name for name, words in _REFUSALS if words.search(str(refused))), "")


class CloudMessages(Messages):
    """The format on clouds, which cache nothing without a breakpoint."""

    def build_parameters(self, terms: Terms) -> dict[str, Any]:
        return {name: value for name, value in super().build_parameters(terms).items() if name != "cache_control"}

    def write_body(self, head: bytes, encoded: Encoded) -> bytes:
        """Return the body with the end of the conversation marked, up to which the prompt is cached."""
        body, end = super().write_body(head, encoded), b"}]}]}"
        mark = b', "cache_control": {"type": "ephemeral"}'
        return body.removesuffix(end) + mark + end if body.endswith(end) else body


MESSAGES = Messages()


def _read_version(model: str) -> tuple[int, ...]:
    """Return the version in the model's name, the latest if it is a Claude without one, and `()` for other models."""
    if found := _VERSION.search(model):
        return int(found[1]), int(found[2] or 0)
    return _LATEST if "claude" in model else ()


def _find_most(terms: Terms) -> int:
    """Return how long a reply may be: as published, or else as the model's family. If it is too much, the API says so,
    and the engine learns it."""
    version = _read_version(terms.model) or (3, 5)
    most = 32_000 if _OPUS_4.search(terms.model) else next(most for last, most in _MOST if version <= last)
    return terms.most_output or most


def _build_thinking(terms: Terms) -> dict[str, Any]:
    """Return the parameters of thinking; empty if nothing is set.

    Models before 4.6, and other vendors', are given a budget, and those from 4.7 on an effort; 4.6 takes either.
    """
    version, without, budget = _read_version(terms.model), terms.without, terms.thinking_tokens
    shown = {"display": "summarized"} if terms.summary else {}  # from 4.7 on, nothing is shown otherwise
    bound = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}} if _PREFIX in without else {}
    more = {"thinking": {"type": "adaptive", **bound}, "betas": [_BINDING]} if bound else {}
    if (not terms.effort and budget is None) or () < version < (3, 7):
        return more
    off = terms.effort == "none" or budget == 0
    if off and _DISABLED not in without:
        return {"thinking": {"type": "disabled"}}
    newest = version >= (4, 7)
    if _ENABLED in without or ((newest or (terms.effort and version >= (4, 6))) and _ADAPTIVE not in without):
        effort = terms.effort or next((name for name, most in _BUDGETS.items() if (budget or 0) <= most), "max")
        effort = "low" if off else {"minimal": "low", "xhigh": "xhigh" if newest else "high"}.get(effort, effort)
        return more | {"thinking": {"type": "adaptive", **shown, **bound}, "output_config": {"effort": effort}}
    budget = _BUDGETS.get(terms.effort, _BUDGETS["medium"]) if budget is None else budget
    if off or _UNOPENED in without:
        return more
    interleaved = {"betas": [_INTERLEAVED]} if terms.tools and version >= (4, 0) else {}
    return more | interleaved | {"thinking": {"type": "enabled", "budget_tokens": budget, **shown, **bound}}


def _reconcile(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters without those that the API refuses beside others, and with a budget that leaves a quarter
    of the tokens for the reply."""
    budget = find_json_at(parameters, "thinking", "budget_tokens")
    fitting = min(budget, parameters["max_tokens"] * 3 // 4) if isinstance(budget, int) else _LEAST_BUDGET
    if find_json_at(parameters, "thinking", "type") in (None, "disabled"):
        either = "temperature" in parameters and _read_version(parameters["model"]) >= (4, 1)
        left_out: Sequence[str] = ("top_p",) if either else ()
    elif find_json_at(parameters, "tool_choice", "type") == "any" or fitting < _LEAST_BUDGET:
        left_out = ("thinking",)  # calls cannot be forced beside a budget, nor everywhere beside an effort
    else:
        left_out = _SAMPLING
        fits = {} if budget is None else {"budget_tokens": fitting}
        parameters = {**parameters, "thinking": parameters["thinking"] | fits}
    return {name: value for name, value in parameters.items() if name not in left_out}


def _name_calls(blocks: Sequence[dict[str, Any]], before: bytes) -> list[dict[str, Any]]:
    """Return the calls among the blocks, with ids that are unique also in a conversation of several runs."""
    uses = [block for block in blocks if block["type"] == "tool_use"]
    for use in uses:
        use["id"] = find_text_at(use, "id") or "call"
        while f'"{use["id"]}"'.encode() in before:
            use["id"] += "_"
    return uses


def _join(messages: bytes, opened: bool) -> bytes:
    """Return the separator between the messages so far and the next one."""
    return b"]}, " if opened else b", " if messages else b""


def _encode_blocks(message: Message, content: str) -> Iterator[dict[str, Any]]:
    yield from map(_encode_file, message.files)  # before the text, as Anthropic recommends
    if content:
        yield {"type": "text", "text": content}
    for call in message.calls:
        yield _encode_call(call) | {"id": _STRANGE.sub("_", call.id)}


def _restore_blocks(message: Message) -> Iterator[dict[str, Any]]:
    """Yield the blocks of an assistant's turn as its vendor wrote them, up to the last call that was made of them."""
    assert message.state is not None
    blocks, calls = json.loads(message.state.turn)["content"], iter(message.calls)
    made = [at for at, block in enumerate(blocks) if block["type"] == "tool_use"]
    end = made[len(message.calls) - 1] + 1 if 0 < len(message.calls) < len(made) else len(blocks)
    for block in blocks[:end]:
        if block["type"] == "tool_use":
            call = next(calls, None)
            is_mended = call and (block.get("name"), block.get("input")) != (call.tool, call.tool_input)
            yield block | _encode_call(call) if call and is_mended else block
        elif block["type"] != "text" or str(block.get("text") or "").strip():  # the API itself rejects blank ones
            yield block


def _encode_file(file: File) -> dict[str, Any]:
    """https://docs.anthropic.com/en/docs/build-with-claude/pdf-support: a PDF is a document, with a title."""
    source = {"type": "base64", "media_type": file.media_type, "data": wire_format.encode_base64(file)}
    title = {"title": file.name} if file.kind == "pdf" and file.name else {}
    return {"type": "document" if file.kind == "pdf" else "image", "source": source, **title}


def _encode_call(call: AgentAction) -> dict[str, Any]:
    name = _STRANGE.sub("_", call.tool)[:_LONGEST_NAME] or "_"
    return {"type": "tool_use", "name": name, "input": wire_format.parse_input_object(call.tool_input)}


def _encode_result(message: Message, call_id: str, content: str) -> dict[str, Any]:
    text = [{"type": "text", "text": content}] if content else []
    parts = [*text, *map(_encode_file, message.files)] if message.files else content
    result = {"type": "tool_result", "tool_use_id": _STRANGE.sub("_", call_id)}
    return result | ({"content": parts} if parts else {})


def _read_block(index: Any, block: Any, arriving: PartialReply) -> None:
    """Read a block, or the beginning of one, which deltas follow in a stream."""
    kind = find_json_at(block, "type")
    if not isinstance(kind, str):
        return
    arriving.turn = [*(arriving.turn or ()), (index, block)]
    if kind == "text":
        arriving.said += wire_format.read_text(block)
    elif kind == "tool_use":
        piece = {"id": block.get("id"), "name": block.get("name"), "arguments": block.get("input") or None}
        arriving.add_call(index, piece, arriving.calls.values()).extra = block
    elif kind in _THOUGHTS:
        arriving.add_thought(find_text_at(block, "thinking"))


def _read_delta(index: Any, delta: Any, arriving: PartialReply) -> None:
    arriving.said += find_text_at(delta, "text")
    arriving.reasoning += find_text_at(delta, "thinking")
    block = next((block for at, block in reversed(arriving.turn or ()) if at == index), None)
    if block is None or not isinstance(delta, dict):
        return
    if block["type"] == "tool_use":
        arriving.add_call(index, {"arguments": delta.get("partial_json")})
    for key, value in delta.items():
        if key == "citation":
            block["citations"] = [*(block.get("citations") or ()), value]
        elif key in ("text", "thinking", "signature", "content", "partial_json"):
            block[key] = find_text_at(block, key) + find_text_at(value)


def _read_end(reason: Any, usage: Any, arriving: PartialReply) -> None:
    arriving.end(reason)
    arriving.paused = reason == "pause_turn"
    if reason == "refusal":  # what came before it is to be discarded
        arriving.calls.clear()
    if usage:
        arriving.count(_read_usage(usage, arriving.usage))


def _read_usage(counted: Any, before: Usage) -> Usage:
    """Return the tokens so far: a stream reports the prompt's at its start and the reply's at its end."""
    cached = find_count_at(counted, "cache_read_input_tokens")
    written = find_count_at(counted, "cache_creation_input_tokens")
    asked = find_count_at(counted, "input_tokens") + cached + written
    said = find_count_at(counted, "output_tokens")
    thought = find_count_at(counted, "output_tokens_details", "thinking_tokens")
    read, kept = cached or before.cached_tokens, written or before.cache_write_tokens
    return Usage(asked or before.input_tokens, said, read, 1, reasoning_tokens=thought, cache_write_tokens=kept)
