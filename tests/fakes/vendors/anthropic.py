"""Anthropic's Messages API, as Anthropic, Bedrock and Vertex serve it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from retinue.testing.vendor_server import (
    Asked,
    Issued,
    Json,
    Problems,
    Turn,
    Vendor,
    Wire,
    cut_pieces,
    encode_sse,
    find_unknown_names,
    make_rules,
    number_of,
    read_failures,
    seal,
)

_THOUGHTS = ("thinking", "redacted_thinking")
_MARK = ', "cache_control": {"type": "ephemeral"}'
_FIELDS = (
    "model messages max_tokens system temperature top_p top_k stop_sequences stream tools tool_choice thinking"
    " cache_control output_config metadata service_tier anthropic_version anthropic_beta context_management betas"
)


def _blocks(message: Json) -> list[Json]:
    content = message.get("content") or []
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _kinds(message: Json) -> list[str]:
    return [block["type"] for block in _blocks(message)]


def _open(body: Json) -> list[tuple[int, Json]]:
    """Return the assistant's messages since the last one of the user that is not a tool result."""
    messages = list(enumerate(body["messages"]))
    last = max((at for at, one in messages if one["role"] == "user" and "tool_result" not in _kinds(one)), default=-1)
    return [(at, one) for at, one in messages if one["role"] == "assistant" and at > last]


def _prefix(body: Json, messages: Json) -> str:
    """Return what stands for all that comes before a thinking block, but for marks where to cache."""
    before = json.loads(json.dumps([body.get("system"), body.get("tools"), messages]).replace(_MARK, ""))
    return seal(before)[:16]


def _thinking(asked: Asked) -> Json:
    found: Json = asked.body.get("thinking") or {}
    return found


def _thinks(asked: Asked) -> bool:
    return _thinking(asked).get("type") in ("enabled", "adaptive") or "always" in asked.traits


def _tools(body: Json) -> Mapping[str, Json]:
    return {tool["name"]: tool.get("input_schema", {}) for tool in body.get("tools", [])}


def _reply(asked: Asked, turn: Turn) -> tuple[Json, Issued]:
    content: list[Json] = []
    number = number_of(asked.body["messages"])
    if _thinks(asked):
        omitted = "adaptive" in asked.traits and _thinking(asked).get("display") != "summarized"
        shown = "" if omitted else turn.thought  # there is a signature all the same
        signature = f"{seal(turn.thought, number)}.{_prefix(asked.body, asked.body['messages'])}"
        content.append({"type": "thinking", "thinking": shown, "signature": signature})
        content.append({"type": "redacted_thinking", "data": seal("redacted", turn.thought, number)})
    content += [{"type": "text", "text": turn.text}] * bool(turn.text)
    for at, (name, given) in enumerate(turn.calls):
        content.append({"type": "tool_use", "id": f"toolu_{number}{at}", "name": name, "input": dict(given)})
    usage = {"input_tokens": 20, "output_tokens": 9, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    reply = {
        "id": "msg_01", "type": "message", "role": "assistant", "model": asked.model, "content": content,
        "stop_reason": "tool_use" if turn.calls else "end_turn", "stop_sequence": None, "usage": usage,
    }  # fmt: skip
    return reply, {block["id"]: content for block in content if block["type"] == "tool_use"}


def _events(reply: Json) -> Iterator[Json]:
    yield {"type": "message_start", "message": reply | {"content": [], "stop_reason": None}}
    yield {"type": "ping"}
    for index, block in enumerate(reply["content"]):
        empty, deltas = _begin(block)
        yield {"type": "content_block_start", "index": index, "content_block": block | empty}
        yield from ({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
        yield {"type": "content_block_stop", "index": index}
    end = {"stop_reason": reply["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": reply["usage"]["output_tokens"]}}
    yield {"type": "message_stop"}


def _begin(block: Json) -> tuple[Json, list[Json]]:
    """Return what a block lacks as it begins in a stream, and what follows."""
    match block["type"]:
        case "thinking":  # the signature comes in a delta of its own
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in cut_pieces(block["thinking"])]
            signed = {"type": "signature_delta", "signature": block["signature"]}
            return {"thinking": "", "signature": ""}, [*deltas, signed]
        case "text":
            return {"text": ""}, [{"type": "text_delta", "text": piece} for piece in cut_pieces(block["text"])]
        case "tool_use":
            given = ["", *cut_pieces(json.dumps(block["input"]))]
            return {"input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in given]
    return {}, []  # redacted thinking comes whole


MESSAGES = Wire(
    lambda body: len(_open(body)),
    _tools,
    _reply,
    lambda reply: (encode_sse(event, event["type"]) for event in _events(reply)),
    lambda status, code, message: {"type": "error", "error": {"type": code, "message": message}, "request_id": "r1"},
)

# ── rules ────────────────────────────────────────────────────────────────────────────────────────


def thinking_comes_back_unmodified(asked: Asked) -> Problems:
    """In the open tool loop, thinking blocks come back as they were, first and with their signatures.
    https://platform.claude.com/docs/en/build-with-claude/extended-thinking#preserving-thinking-blocks
    """
    for at, message in _open(asked.body) if _thinks(asked) else ():
        blocks = _blocks(message)
        issued = asked.made(*(block.get("id", "") for block in blocks)) or []
        wanted = [block for block in issued if block["type"] in _THOUGHTS]
        if wanted and not any(block["type"] in _THOUGHTS for block in blocks):
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
        for number, block in enumerate(_blocks(message)):
            if block["type"] in _THOUGHTS and block not in known:
                yield f"messages.{at}.content.{number}: Invalid `signature` in `thinking` block"


def thinking_is_bound_to_what_came_before(asked: Asked) -> Problems:
    """From 5.1 on, `system`, `tools` and the messages before a thinking block are as they were when it was made.
    https://platform.claude.com/docs/en/build-with-claude/preserved-thinking/prefix-checks
    """
    binding, controls = _thinking(asked).get("block_binding", {}), "thinking-binding-controls-2026-08-01"
    if binding and controls not in asked.headers.get("anthropic-beta", ""):
        yield "thinking.block_binding: Extra inputs are not permitted"
    if "bound" not in asked.traits or binding.get("prefix_mismatch_behavior") == "drop_block":
        return
    for at, message in enumerate(asked.body["messages"]):
        for number, block in enumerate(_blocks(message)):
            made = block.get("signature", "").rpartition(".")[2]
            if block["type"] == "thinking" and made != _prefix(asked.body, asked.body["messages"][:at]):
                yield (
                    f"messages.{at}.content.{number}: Invalid `signature` in `thinking` block. The block is bound to a"
                    " different conversation. Remove the block, or set"
                    ' `thinking.block_binding.prefix_mismatch_behavior` to "drop_block". That setting requires the'
                    f" `{controls}` value in the `anthropic-beta` header."
                )


def thinking_has_a_budget(asked: Asked) -> Problems:
    """`budget_tokens` is at least 1024 and less than `max_tokens`.
    https://platform.claude.com/docs/en/build-with-claude/extended-thinking#max-tokens-and-context-window-size
    """
    if _thinking(asked).get("type") == "enabled":
        if (budget := _thinking(asked).get("budget_tokens", 0)) < 1024:
            yield "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
        elif budget >= asked.body["max_tokens"]:
            yield "`max_tokens` must be greater than `thinking.budget_tokens`."


def thinking_is_of_the_models_kind(asked: Asked) -> Problems:
    """The newest models think adaptively, without a budget; older ones know only budgets.
    https://platform.claude.com/docs/en/build-with-claude/adaptive-thinking
    """
    kind = _thinking(asked).get("type")
    if kind == "adaptive" and "budget" in asked.traits:
        yield "adaptive thinking is not supported on this model"
    if kind == "enabled" and "adaptive" in asked.traits:
        yield _not_of_this_kind(kind)


def thinking_cannot_be_turned_off(asked: Asked) -> Problems:
    """Some models always think.
    https://platform.claude.com/docs/en/models/opus-5-5/whats-new-opus-5-5#thinking-cant-be-disabled
    """
    if "always" in asked.traits and _thinking(asked).get("type") == "disabled":
        yield _not_of_this_kind("disabled")


def _not_of_this_kind(kind: str) -> str:
    return (
        f'"thinking.type.{kind}" is not supported for this model. Use "thinking.type.adaptive" and'
        ' "output_config.effort" to control thinking behavior.'
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
    """
    if asked.body.get("tool_choice", {}).get("type") in ("any", "tool"):
        if "bound" in asked.traits:  # https://github.com/can1357/oh-my-pi/issues/12939
            yield 'tool_choice: type "tool" and "any" are not supported for this model.'
        if _thinks(asked):
            yield "Thinking may not be enabled when tool_choice forces tool use."


def results_follow_tool_uses(asked: Asked) -> Problems:
    """The message after `tool_use` blocks begins with the `tool_result` of each of them.
    https://platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls
    """
    waiting: list[str] = []
    for at, message in enumerate([*asked.body["messages"], {"role": "user", "content": []}]):
        blocks = _blocks(message)
        given = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if extra := [one for one in given if one not in waiting]:
            yield f"messages.{at}.content.0: unexpected `tool_use_id` found in `tool_result` blocks: {extra[0]}."
        if waiting and (set(waiting) - set(given) or set(_kinds(message)[: len(given)]) != {"tool_result"}):
            yield (
                f"messages.{at - 1}: `tool_use` ids were found without `tool_result` blocks immediately after:"
                f" {', '.join(waiting)}. Each `tool_use` block must have a corresponding `tool_result` block"
            )
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if strange := [one for one in waiting if not re.fullmatch("[a-zA-Z0-9_-]+", one)]:
            yield f"messages.{at}.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$': {strange[0]}"


def texts_are_not_blank(asked: Asked) -> Problems:
    """Messages and texts are not blank, and the last message is not the assistant's.
    https://platform.claude.com/docs/en/api/errors#common-validation-errors
    """
    for at, message in enumerate(asked.body["messages"]):
        if not _blocks(message):
            yield f"messages.{at}: user messages must have non-empty content"
        if any(block["type"] == "text" and not block["text"].strip() for block in _blocks(message)):
            yield "messages: text content blocks must contain non-whitespace text"
    if asked.body["messages"][-1]["role"] == "assistant":
        yield "This model does not support assistant message prefill. The conversation must end with a user message."


def max_tokens_fit_the_model(asked: Asked) -> Problems:
    """`max_tokens` is given, and at most the model's own maximum.
    https://platform.claude.com/docs/en/about-claude/models/overview
    """
    most = next(int(trait[5:]) for trait in asked.traits if trait.startswith("most="))
    if not isinstance(given := asked.body.get("max_tokens"), int):
        yield "max_tokens: Field required"
    elif given > most:
        yield f"max_tokens: {given} > {most}, which is the maximum allowed number of output tokens for {asked.model}"


def fields_are_known(asked: Asked) -> Problems:
    """Unknown fields and roles are refused, and a schema is of an object.
    https://platform.claude.com/docs/en/api/messages
    """
    yield from (f"{name}: Extra inputs are not permitted" for name in find_unknown_names(asked.body, _FIELDS))
    for at, schema in enumerate(_tools(asked.body).values()):
        if schema and schema.get("type") != "object":
            yield f"tools.{at}.custom.input_schema.type: Input should be 'object'"
    for at, message in enumerate(asked.body["messages"]):
        if message["role"] not in ("user", "assistant"):
            yield f"messages.{at}.role: Input should be 'user' or 'assistant'"
    if asked.body["messages"][0]["role"] != "user":
        yield 'messages: first message must use the "user" role'


def caching_is_marked(asked: Asked) -> Problems:
    """At most four blocks are marked for the cache.
    https://platform.claude.com/docs/en/build-with-claude/prompt-caching
    """
    if (found := json.dumps(asked.body).count('"cache_control"')) > 4:
        yield f"A maximum of 4 blocks with cache_control may be provided. Found {found}."


def caching_is_marked_in_blocks(asked: Asked) -> Problems:
    """Bedrock caches up to marked blocks, and nothing by itself.
    https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html
    """
    if "cache_control" in asked.body:
        yield "cache_control: Extra inputs are not permitted"


def its_version_is_named(asked: Asked) -> Problems:
    """The version of the API is in a header; on Vertex it is in the body, and the model in the path.
    https://platform.claude.com/docs/en/build-with-claude/claude-on-vertex-ai
    """
    if asked.path.endswith("/messages"):
        if not re.fullmatch(r"20\d\d-\d\d-\d\d", asked.headers.get("anthropic-version", "")):
            yield "anthropic-version: header is required"
    elif asked.body.get("anthropic_version") != "vertex-2023-10-16":
        yield "anthropic_version: Field required"
    elif "model" in asked.body:
        yield "model: Extra inputs are not permitted"


RULES = make_rules(
    its_version_is_named, fields_are_known, caching_is_marked, max_tokens_fit_the_model, results_follow_tool_uses,
    texts_are_not_blank, signatures_are_its_own, thinking_comes_back_unmodified, thinking_has_a_budget,
    thinking_is_of_the_models_kind, thinking_cannot_be_turned_off, thinking_is_bound_to_what_came_before,
    no_sampling_beside_thinking,
    no_forced_tool_beside_thinking,
)  # fmt: skip
FAILURES = read_failures("""
    too_long | 400 | invalid_request_error | prompt is too long: 205412 tokens > 200000 maximum
    rate | 429 | rate_limit_error | This request would exceed your organization's rate limit of 50 requests per minute
    unavailable | 529 | overloaded_error | Overloaded
    unknown_model | 404 | not_found_error | model: no-such-model
    wrong_key | 401 | authentication_error | invalid x-api-key
""")
_MODELS = {
    "claude-opus-4-7": "adaptive most=128000", "claude-mythos-5": "adaptive always most=128000",
    "claude-opus-5-5": "adaptive always bound most=128000", "claude-opus-4-6": "most=128000",
    "claude-sonnet-4-5": "budget most=64000", "claude-opus-4-1": "budget most=32000",
}  # fmt: skip
_PROJECT = "/v1/projects/a-project/locations/global"
_AT_VERTEX = rf"{_PROJECT}/publishers/anthropic/models/(?P<model>[^/:]+):(streamR|r)awPredict"
_AT_BEDROCK = "/anthropic/v1"
_ON_BEDROCK = (*RULES, *make_rules(caching_is_marked_in_blocks))
_KEY = "x-api-key authorization"
VENDORS = (
    Vendor("anthropic", "/v1", "/v1/messages", MESSAGES, _MODELS, RULES, FAILURES, key=_KEY),
    Vendor("bedrock", _AT_BEDROCK, f"{_AT_BEDROCK}/messages", MESSAGES, _MODELS, _ON_BEDROCK, FAILURES, key=_KEY),
    Vendor("anthropic-vertex", _PROJECT, _AT_VERTEX, MESSAGES, _MODELS, RULES, FAILURES),
)
