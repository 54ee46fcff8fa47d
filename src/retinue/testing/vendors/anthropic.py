"""Anthropic's Messages API, as Anthropic and Vertex serve it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from .api import Asked, Json, Problems, Turn, Vendor, pieces, rules, seal, sse, unknown

_THOUGHTS = ("thinking", "redacted_thinking")
_MARK = ', "cache_control": {"type": "ephemeral"}'
_FIELDS = (
    "model messages max_tokens system temperature top_p top_k stop_sequences stream tools tool_choice thinking"
    " cache_control output_config metadata service_tier anthropic_version anthropic_beta context_management betas"
)


def blocks_of(message: Json) -> list[Json]:
    """Return the content of `message` as blocks."""
    content = message.get("content") or []
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _kinds(message: Json) -> list[str]:
    return [block.get("type", "") for block in blocks_of(message)]


def _open(body: Json) -> Iterator[tuple[int, Json]]:
    """Yield the assistant's messages since the last one of the user that is not a tool result."""
    messages = list(enumerate(body.get("messages", [])))
    asked = [at for at, one in messages if one["role"] == "user" and "tool_result" not in _kinds(one)]
    yield from ((at, one) for at, one in messages if one["role"] == "assistant" and at > (asked[-1] if asked else -1))


def _prefix(body: Json, messages: Json) -> str:
    """Return what stands for all that comes before a thinking block, but for marks where to cache."""
    before = json.loads(json.dumps([body.get("system"), body.get("tools"), messages]).replace(_MARK, ""))
    return seal(before)[:16]


def _thinks(asked: Asked) -> bool:
    return asked.body.get("thinking", {}).get("type") in ("enabled", "adaptive") or "always" in asked.traits


class Messages:
    """The wire format."""

    streamed_as = "text/event-stream"

    def turns(self, body: Json) -> int:
        return len(list(_open(body)))

    def tools(self, body: Json) -> Mapping[str, Json]:
        return {tool["name"]: tool.get("input_schema", {}) for tool in body.get("tools", [])}

    def reply(self, asked: Asked, turn: Turn) -> tuple[Json, Mapping[str, Any]]:
        content: list[Json] = []
        number = seal(asked.body["messages"])
        if _thinks(asked):
            omitted = "adaptive" in asked.traits and asked.body.get("thinking", {}).get("display") != "summarized"
            shown = "" if omitted else turn.thought  # there is a signature all the same
            signature = f"{seal(turn.thought, number)}.{_prefix(asked.body, asked.body['messages'])}"
            content.append({"type": "thinking", "thinking": shown, "signature": signature})
            content.append({"type": "redacted_thinking", "data": seal("redacted", turn.thought, number)})
        content += [{"type": "text", "text": turn.text}] * bool(turn.text)
        for at, (name, given) in enumerate(turn.calls):
            id = "toolu_" + re.sub(r"\W", "", seal(number, at))[:24]  # noqa: A001
            content.append({"type": "tool_use", "id": id, "name": name, "input": dict(given)})
        usage = {"input_tokens": 20, "output_tokens": 9, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
        reply = {
            "id": "msg_01", "type": "message", "role": "assistant", "model": asked.model, "content": content,
            "stop_reason": "tool_use" if turn.calls else "end_turn", "stop_sequence": None, "usage": usage,
        }  # fmt: skip
        return reply, {block["id"]: content for block in content if block["type"] == "tool_use"}

    def stream(self, reply: Json) -> Iterator[bytes]:
        for event in _events(reply):
            yield sse(event, event["type"])

    def error(self, status: int, code: str, message: str) -> Any:
        return {"type": "error", "error": {"type": code, "message": message}, "request_id": "req_011"}


def _events(reply: Json) -> Iterator[Json]:
    yield {"type": "message_start", "message": reply | {"content": [], "stop_reason": None}}
    yield {"type": "ping"}
    for index, block in enumerate(reply["content"]):
        start, deltas = _start(block)
        yield {"type": "content_block_start", "index": index, "content_block": start}
        yield from ({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
        yield {"type": "content_block_stop", "index": index}
    end = {"stop_reason": reply["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": reply["usage"]["output_tokens"]}}
    yield {"type": "message_stop"}


def _start(block: Json) -> tuple[Json, list[Json]]:
    """Return a block as it begins in a stream, and what follows."""
    match block["type"]:
        case "thinking":  # the signature comes in a delta of its own
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"])]
            return block | {"thinking": "", "signature": ""}, [
                *deltas, {"type": "signature_delta", "signature": block["signature"]}
            ]  # fmt: skip
        case "text":
            return block | {"text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
        case "tool_use":
            given = ["", *pieces(json.dumps(block["input"]))]
            return block | {"input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in given]
    return block, []  # redacted thinking comes whole


# ── rules ────────────────────────────────────────────────────────────────────────────────────────


def thinking_comes_back_unmodified(asked: Asked) -> Problems:
    """In the open tool loop, thinking blocks come back as they were, first and with their signatures.
    https://platform.claude.com/docs/en/build-with-claude/extended-thinking#preserving-thinking-blocks
    """
    for at, message in _open(asked.body) if _thinks(asked) else ():
        blocks = blocks_of(message)
        issued = next((asked.issued[one["id"]] for one in blocks if one.get("id") in asked.issued), None)
        wanted = [block for block in issued or [] if block["type"] in _THOUGHTS]
        sent = [block for block in blocks if block["type"] in _THOUGHTS]
        if wanted and not sent:
            yield (
                f"messages.{at}.content.0.type: Expected `thinking` or `redacted_thinking`, but found"
                f" `{blocks[0]['type']}`. When `thinking` is enabled, a final `assistant` message must start with a"
                " thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks)."
            )
        elif wanted != blocks[: len(wanted)]:
            yield (
                f"messages.{at}.content: `thinking` or `redacted_thinking` blocks in the latest assistant message"
                " cannot be modified. These blocks must remain as they were in the original response."
            )


def signatures_are_its_own(asked: Asked) -> Problems:
    """A thinking block has a signature that this API made.
    https://platform.claude.com/docs/en/build-with-claude/extended-thinking#thinking-encryption
    """
    known = [block for content in asked.issued.values() for block in content]
    for at, message in enumerate(asked.body["messages"]):
        for number, block in enumerate(blocks_of(message)):
            if block["type"] in _THOUGHTS and block not in known:
                yield f"messages.{at}.content.{number}: Invalid `signature` in `thinking` block"


def thinking_has_a_budget(asked: Asked) -> Problems:
    """`budget_tokens` is at least 1024 and less than `max_tokens`.
    https://platform.claude.com/docs/en/build-with-claude/extended-thinking#max-tokens-and-context-window-size
    """
    thinking, most = asked.body.get("thinking", {}), asked.body.get("max_tokens", 0)
    if thinking.get("type") == "enabled":
        if thinking.get("budget_tokens", 0) < 1024:
            yield "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
        elif thinking["budget_tokens"] >= most:
            yield "`max_tokens` must be greater than `thinking.budget_tokens`."


def thinking_is_of_the_models_kind(asked: Asked) -> Problems:
    """The newest models think adaptively, without a budget; older ones know only budgets.
    https://platform.claude.com/docs/en/build-with-claude/adaptive-thinking
    """
    kind = asked.body.get("thinking", {}).get("type", "disabled")
    if kind == "adaptive" and "budget" in asked.traits:
        yield "adaptive thinking is not supported on this model"
    if kind == "enabled" and "adaptive" in asked.traits:
        yield '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort"'


def thinking_cannot_be_turned_off(asked: Asked) -> Problems:
    """Some models always think.
    https://platform.claude.com/docs/en/models/opus-5-5/whats-new-opus-5-5#thinking-cant-be-disabled
    """
    if "always" in asked.traits and asked.body.get("thinking", {}).get("type") == "disabled":
        yield (
            '"thinking.type.disabled" is not supported for this model. Use "thinking.type.adaptive" and'
            ' "output_config.effort" to control thinking behavior.'
        )


def thinking_is_bound_to_what_came_before(asked: Asked) -> Problems:
    """From 5.1 on, `system`, `tools` and the messages before a thinking block are as they were when it was made.
    https://platform.claude.com/docs/en/build-with-claude/preserved-thinking/prefix-checks
    """
    binding = asked.body.get("thinking", {}).get("block_binding", {})
    controls = "thinking-binding-controls-2026-08-01"
    if binding and controls not in asked.headers.get("anthropic-beta", ""):
        yield "thinking.block_binding: Extra inputs are not permitted"
    if "bound" not in asked.traits or binding.get("prefix_mismatch_behavior") == "drop_block":
        return
    for at, message in enumerate(asked.body["messages"]):
        for number, block in enumerate(blocks_of(message)):
            made = block.get("signature", "").rpartition(".")[2]
            if block["type"] == "thinking" and made != _prefix(asked.body, asked.body["messages"][:at]):
                yield (
                    f"messages.{at}.content.{number}: Invalid `signature` in `thinking` block. The block is bound to a"
                    " different conversation. Remove the block, or set"
                    ' `thinking.block_binding.prefix_mismatch_behavior` to "drop_block". That setting requires the'
                    f" `{controls}` value in the `anthropic-beta` header."
                )


def no_sampling_beside_thinking(asked: Asked) -> Problems:
    """With thinking, `temperature` is 1 and `top_k` unset; the newest models take no sampling parameters at all.
    https://platform.claude.com/docs/en/build-with-claude/extended-thinking#feature-compatibility
    """
    for name in ("temperature", "top_p", "top_k"):
        if name in asked.body and "adaptive" in asked.traits:
            yield f"`{name}` is deprecated for this model."
    if _thinks(asked) and asked.body.get("temperature", 1) != 1:
        yield "`temperature` may only be set to 1 when thinking is enabled."
    if _thinks(asked) and ("top_k" in asked.body or asked.body.get("top_p", 1) < 0.95):
        yield "`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled."


def no_forced_tool_beside_thinking(asked: Asked) -> Problems:
    """With thinking, `tool_choice` is `auto` or `none`; some models take no other at all.
    https://platform.claude.com/docs/en/build-with-claude/extended-thinking#extended-thinking-with-tool-use
    https://github.com/can1357/oh-my-pi/issues/12939
    """
    if "bound" in asked.traits and asked.body.get("tool_choice", {}).get("type") in ("any", "tool"):
        yield 'tool_choice: type "tool" and "any" are not supported for this model.'
    if _thinks(asked) and asked.body.get("tool_choice", {}).get("type") in ("any", "tool"):
        yield "Thinking may not be enabled when tool_choice forces tool use."


def results_follow_tool_uses(asked: Asked) -> Problems:
    """The message after `tool_use` blocks begins with the `tool_result` of each of them.
    https://platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls
    """
    waiting: list[str] = []
    for at, message in enumerate([*asked.body["messages"], {"role": "user", "content": []}]):
        blocks = blocks_of(message)
        given = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if extra := [one for one in given if one not in waiting]:
            yield f"messages.{at}.content.0: unexpected `tool_use_id` found in `tool_result` blocks: {extra[0]}."
        if waiting and (set(waiting) - set(given) or _kinds(message)[: len(given)] != ["tool_result"] * len(given)):
            yield (
                f"messages.{at - 1}: `tool_use` ids were found without `tool_result` blocks immediately after:"
                f" {', '.join(waiting)}. Each `tool_use` block must have a corresponding `tool_result` block"
            )
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]


def texts_are_not_blank(asked: Asked) -> Problems:
    """Text blocks are not blank, and the last message is not the assistant's, with white space at its end or at all.
    https://platform.claude.com/docs/en/api/errors#common-validation-errors
    """
    for at, message in enumerate(asked.body["messages"]):
        blocks = blocks_of(message)
        if not blocks:
            yield f"messages.{at}: user messages must have non-empty content"
        if any(block["type"] == "text" and not block["text"].strip() for block in blocks):
            yield "messages: text content blocks must contain non-whitespace text"
    if asked.body["messages"] and asked.body["messages"][-1]["role"] == "assistant":
        yield "This model does not support assistant message prefill. The conversation must end with a user message."


def max_tokens_fit_the_model(asked: Asked) -> Problems:
    """`max_tokens` is given, and at most the model's own maximum.
    https://platform.claude.com/docs/en/about-claude/models/overview
    """
    most = next((int(trait[5:]) for trait in asked.traits if trait.startswith("most=")), 64_000)
    if not isinstance(given := asked.body.get("max_tokens"), int):
        yield "max_tokens: Field required"
    elif given > most:
        yield f"max_tokens: {given} > {most}, which is the maximum allowed number of output tokens for {asked.model}"


def fields_are_known(asked: Asked) -> Problems:
    """Unknown fields are refused, and `cache_control` is in at most four blocks.
    https://platform.claude.com/docs/en/api/messages
    """
    yield from (f"{name}: Extra inputs are not permitted" for name in unknown(asked.body, _FIELDS))
    for at, tool in enumerate(asked.body.get("tools", [])):
        if "input_schema" in tool and tool["input_schema"].get("type") != "object":
            yield f"tools.{at}.custom.input_schema.type: Input should be 'object'"
    if (found := json.dumps(asked.body).count('"cache_control"')) > 4:
        yield f"A maximum of 4 blocks with cache_control may be provided. Found {found}."
    if asked.body["messages"] and asked.body["messages"][0]["role"] != "user":
        yield 'messages: first message must use the "user" role'
    for at, message in enumerate(asked.body["messages"]):
        if message["role"] not in ("user", "assistant"):
            yield f"messages.{at}.role: Input should be 'user' or 'assistant'"


def its_version_is_named(asked: Asked) -> Problems:
    """The version of the API is in a header; on Vertex and Bedrock it is in the body, and the model in the path.
    https://platform.claude.com/docs/en/build-with-claude/claude-on-vertex-ai
    """
    if asked.path.endswith("/messages"):
        if not re.fullmatch(r"20\d\d-\d\d-\d\d", asked.headers.get("anthropic-version", "")):
            yield "anthropic-version: header is required"
    else:
        wanted = "vertex-2023-10-16" if "publishers" in asked.path else "bedrock-2023-05-31"
        if asked.body.get("anthropic_version") != wanted:
            yield "anthropic_version: Field required"
        if "model" in asked.body or ("stream" in asked.body and "publishers" not in asked.path):
            yield "model: Extra inputs are not permitted"


def caching_is_marked_in_blocks(asked: Asked) -> Problems:
    """Bedrock caches up to marked blocks, and nothing by itself.
    https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html
    """
    if "cache_control" in asked.body:
        yield "cache_control: Extra inputs are not permitted"


RULES = rules(
    its_version_is_named, fields_are_known, max_tokens_fit_the_model, results_follow_tool_uses, texts_are_not_blank,
    signatures_are_its_own, thinking_comes_back_unmodified, thinking_has_a_budget, thinking_is_of_the_models_kind,
    thinking_cannot_be_turned_off, thinking_is_bound_to_what_came_before,
    no_sampling_beside_thinking, no_forced_tool_beside_thinking,
)  # fmt: skip
FAILURES = {
    "too_long": (400, "invalid_request_error", "prompt is too long: 205412 tokens > 200000 maximum"),
    "rate": (
        429,
        "rate_limit_error",
        "This request would exceed your organization's rate limit of 50 requests per minute",
    ),
    "unavailable": (529, "overloaded_error", "Overloaded"),
    "unknown_model": (404, "not_found_error", "model: no-such-model"),
    "wrong_key": (401, "authentication_error", "invalid x-api-key"),
}
_MODELS = {
    "claude-opus-4-7": "adaptive most=128000", "claude-mythos-5": "adaptive always most=128000",
    "claude-opus-5-5": "adaptive always bound most=128000", "claude-opus-4-6": "most=128000",
    "claude-sonnet-4-5": "budget most=64000", "claude-opus-4-1": "budget most=32000",
}  # fmt: skip
_AT_VERTEX = (
    r"/v1/projects/[\w-]+/locations/[\w-]+/publishers/anthropic/models/(?P<model>[^/:]+):(?:stream)?[rR]awPredict"
)
VENDORS = (
    Vendor("anthropic", "/v1", "/v1/messages", Messages(), _MODELS, RULES, FAILURES, key="x-api-key authorization"),
    Vendor(
        "bedrock",
        "/anthropic/v1",
        "/anthropic/v1/messages",
        Messages(),
        _MODELS,
        (*RULES, *rules(caching_is_marked_in_blocks)),
        FAILURES,
        key="authorization x-api-key",
    ),
    Vendor(
        "anthropic-vertex", "/v1/projects/a-project/locations/global", _AT_VERTEX, Messages(), _MODELS, RULES, FAILURES
    ),
)
