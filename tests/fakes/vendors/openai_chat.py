"""Vendors that speak OpenAI's chat completions, and OpenAI itself: where they put thoughts, and their own rules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from retinue.testing.vendor_server import (
    CHAT_RULES,
    Asked,
    Json,
    Problems,
    Turn,
    Vendor,
    as_field,
    chat_wire,
    cut_pieces,
    find_unknown_names,
    list_deltas,
    make_rules,
    open_turns,
    read_calls,
    read_failures,
    seal,
    with_calls,
)

from . import openai_responses
from .gemini import DUMMIES, FAILURES as GEMINI_FAILURES

_PARAMETERS = (
    "model messages tools tool_choice parallel_tool_calls stream stream_options max_tokens max_completion_tokens stop"
    " temperature top_p n seed user response_format reasoning_effort verbosity logprobs top_logprobs logit_bias"
    " presence_penalty frequency_penalty service_tier store metadata modalities audio prediction prompt_cache_key"
    " safety_identifier prompt_cache_retention web_search_options"
)
_OF_MISTRAL = (
    "model messages tools tool_choice parallel_tool_calls stream max_tokens stop temperature top_p n random_seed"
    " response_format presence_penalty frequency_penalty prompt_mode reasoning_effort safe_prompt metadata guardrails"
    " prediction prompt_cache_key"
)
_MESSAGE = "role content name tool_calls tool_call_id refusal audio"


# ── rules of OpenAI ──────────────────────────────────────────────────────────────────────────────


def as_details(message: Json, turn: Turn, number: str) -> None:
    """Put the thought into `reasoning_details`, signed, with something encrypted after it."""
    form = {"format": "anthropic-claude-v1"}
    text = {"type": "reasoning.text", "text": turn.thought, "signature": seal(turn.thought, number), "index": 0}
    data = {"type": "reasoning.encrypted", "data": seal("data", number), "id": f"rs_{number}", "index": 1}
    message |= {"reasoning": turn.thought, "reasoning_details": [text | form, data | form]}


def as_parts(message: Json, turn: Turn, number: str) -> None:
    """Make the content of parts, the first of which is the thought."""
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": turn.thought}], "closed": True}
    message["content"] = [thought, *([{"type": "text", "text": turn.text}] if turn.text else [])]


def as_signature(message: Json, turn: Turn, number: str) -> None:
    """Put a signature, and no thought, beside the first call, or beside the text."""
    state = {"extra_content": {"google": {"thought_signature": seal(turn.thought, number)}}}
    (read_calls(message) or [message])[0].update(state)  # of several calls only the first has one


def stream_details(message: Json) -> Iterator[Json]:
    """Yield a message with `reasoning_details`; a signature comes last, beside an empty text."""
    for detail in message.get("reasoning_details", []):
        bare = {key: value for key, value in detail.items() if key != "signature"}
        texts = cut_pieces(detail.get("text", ""))
        yield from ({"reasoning": one, "reasoning_details": [bare | {"text": one}]} for one in texts)
        yield {"reasoning_details": [detail | ({"text": ""} if "text" in detail else {})]}
    yield from list_deltas(message | {"reasoning": ""})


def stream_parts(message: Json) -> Iterator[Json]:
    """Yield a message whose content has parts, and each call in one piece."""
    for part in message["content"]:
        texts = cut_pieces(part["thinking"][0]["text"] if part["type"] == "thinking" else part["text"])
        for text in texts:
            thinking = {"type": "thinking", "thinking": [{"type": "text", "text": text}]}
            yield {"content": [thinking] if part["type"] == "thinking" else text}
    yield from ({"tool_calls": [call | {"index": index}]} for index, call in enumerate(read_calls(message)))


def stream_signature(message: Json) -> Iterator[Json]:
    """Yield a message with the signature of its text beside an empty one at its end."""
    yield from list_deltas(message)
    if "extra_content" in message:
        yield {"content": "", "extra_content": message["extra_content"]}


def lost_thoughts(
    asked: Asked, messages: Iterable[tuple[int, Json]], name: str, *, always: bool = False
) -> Iterator[int]:
    """Yield the index of each message with calls whose thoughts, under this name, are not as they were.

    `always`: other vendors' messages have to have some as well.
    """
    for at, message, issued in with_calls(asked, messages):
        if (name in issued and issued[name] != message.get(name)) or (always and message.get(name) is None):
            yield at


def parameters_are_known(asked: Asked) -> Problems:
    """Unknown parameters are refused, in messages too: nothing of another vendor's is sent.
    https://developers.openai.com/api/reference/resources/chat
    """
    yield from (
        f"Unrecognized request argument supplied: {name}" for name in find_unknown_names(asked.body, _PARAMETERS)
    )
    for at, message in enumerate(asked.body["messages"]):
        yield from (f"Unknown parameter: 'messages[{at}].{name}'." for name in find_unknown_names(message, _MESSAGE))


def reasoning_models_take_no_sampling(asked: Asked) -> Problems:
    """Reasoning models take `max_completion_tokens` for `max_tokens`, and no `temperature`, `top_p` or `stop`.
    https://developers.openai.com/api/docs/guides/latest-model#parameter-compatibility
    """
    if "reasoning" not in asked.traits:
        return
    if "max_tokens" in asked.body:
        yield (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        )
    if asked.body.get("temperature", 1) != 1:
        yield (
            f"Unsupported value: 'temperature' does not support {asked.body['temperature']} with this model."
            " Only the default (1) value is supported."
        )
    for name in ("top_p", "stop", "presence_penalty", "frequency_penalty", "logit_bias"):
        if name in asked.body:
            yield f"Unsupported parameter: '{name}' is not supported with this model."


def no_tools_beside_reasoning(asked: Asked) -> Problems:
    """GPT-5.4 and later take tools in chat only without reasoning, which is on unless it is switched off.
    https://github.com/openai/openai-openapi/issues/541
    """
    if "responses" in asked.traits and asked.body.get("tools") and asked.body.get("reasoning_effort") != "none":
        yield (
            f"Function tools with reasoning_effort are not supported for {asked.model} in /v1/chat/completions."
            " To use function tools, use /v1/responses or set reasoning_effort to 'none'."
        )


# ── rules of those who want their thoughts back ──────────────────────────────────────────────────


def deepseek_reasoning_comes_back(asked: Asked) -> Problems:
    """A thinking model's `reasoning_content` comes back beside its calls, in every later request.
    https://api-docs.deepseek.com/guides/thinking_mode#tool-calls
    """
    if not asked.traits & {"old", "mute"} and asked.body.get("thinking", {}).get("type") != "disabled":
        for _ in lost_thoughts(asked, enumerate(asked.body["messages"]), "reasoning_content", always=True):
            yield "The `reasoning_content` in the thinking mode must be passed back to the API."


def old_reasoner_wants_no_thoughts(asked: Asked) -> Problems:
    """The first reasoner, R1, refuses `reasoning_content` in messages.
    https://api-docs.deepseek.com/guides/reasoning_model
    """
    if "old" in asked.traits and any("reasoning_content" in message for message in asked.body["messages"]):
        yield "The reasoning_content field is not allowed in the input messages"


def kimi_reasoning_comes_back(asked: Asked) -> Problems:
    """While it thinks, each message with calls has its `reasoning_content`.
    https://platform.moonshot.ai/docs/guide/use-kimi-k2-thinking-model#multi-step-tool-call
    """
    if asked.body.get("thinking", {}).get("type") != "disabled":
        for at in lost_thoughts(asked, enumerate(asked.body["messages"]), "reasoning_content", always=True):
            yield f"thinking is enabled but reasoning_content is missing in assistant tool call message at index {at}"


def kimi_samples_as_it_does(asked: Asked) -> Problems:
    """Kimi K2.5 and later have one temperature and one `top_p`.
    https://platform.moonshot.ai/docs/guide/kimi-k2-5-quickstart
    """
    for name, only in (("temperature", 1), ("top_p", 0.95)):
        if asked.body.get(name, only) != only:
            yield f"invalid {name}: only {only} is allowed for this model"


def glm_reasoning_comes_back(asked: Asked) -> Problems:
    """GLM thinks on between calls only with its `reasoning_content` unmodified; it does not refuse, but forgets.
    https://docs.z.ai/guides/capabilities/thinking-mode
    """
    for at in lost_thoughts(asked, open_turns(asked.body), "reasoning_content"):
        yield f"messages[{at}].reasoning_content: want it as it was returned"


def glm_chooses_tools_itself(asked: Asked) -> Problems:
    """The only `tool_choice` is `auto`.
    https://docs.z.ai/api-reference/llm/chat-completion
    """
    if asked.body.get("tool_choice", "auto") != "auto":
        yield "tool_choice: only 'auto' is supported"


def details_come_back_in_order(asked: Asked) -> Problems:
    """`reasoning_details` come back as they were, in their order; the pieces of a stream may be joined.
    https://openrouter.ai/docs/guides/best-practices/reasoning-tokens#preserving-reasoning
    """
    for at, message, issued in with_calls(asked, open_turns(asked.body)):
        if issued and _joined(message.get("reasoning_details") or []) != _joined(issued["reasoning_details"]):
            yield f"messages[{at}].reasoning_details: `thinking` blocks cannot be modified; want them as they were"


def _joined(details: Sequence[Json]) -> list[Json]:
    whole: list[Json] = []
    for detail in details:
        last = whole[-1] if whole else {}
        if "text" in detail and last.get("type") == detail["type"] and last.get("index") == detail.get("index"):
            whole[-1] = last | detail | {"text": last["text"] + detail["text"]}
        else:
            whole.append(detail)
    return whole


def gemini_signature_comes_back(asked: Asked) -> Problems:
    """In the current turn, the first call of each step has its signature, or the documented dummy.
    https://ai.google.dev/gemini-api/docs/thought-signatures#openai
    """
    for at, message, issued in with_calls(asked, open_turns(asked.body)):
        call = read_calls(message)[0]
        sent = call.get("extra_content", {}).get("google", {}).get("thought_signature")
        if not sent:
            yield (
                f"Function call is missing a thought_signature in functionCall parts. Additional data, function"
                f" call `default_api:{call['function']['name']}`, position {at + 1}."
            )
        elif sent not in DUMMIES and (read_calls(issued) or [{}])[0].get("extra_content") != call["extra_content"]:
            yield "Invalid thought signature."


# ── rules of others ──────────────────────────────────────────────────────────────────────────────


def mistral_ids_have_nine_characters(asked: Asked) -> Problems:
    """The id of a call is nine letters and digits.
    https://github.com/mistralai/client-python/issues/143
    """
    for message in asked.body["messages"]:
        for one in [*(call["id"] for call in read_calls(message)), message.get("tool_call_id", "123456789")]:
            if not re.fullmatch("[A-Za-z0-9]{9}", one):
                yield f"Tool call id was {one} but must be a-z, A-Z, 0-9, with a length of 9."


def mistral_roles_alternate(asked: Asked) -> Problems:
    """No user speaks after a tool, and the assistant is not the last.
    https://github.com/langchain-ai/langchain/issues/26461
    """
    before = ""
    for message in asked.body["messages"]:
        if before == "tool" and message["role"] in ("user", "system"):
            yield f"Unexpected role '{message['role']}' after role 'tool'"
        before = message["role"]
    if before == "assistant":
        yield "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant"


def mistral_fields_are_known(asked: Asked) -> Problems:
    """Unknown parameters are refused, also of messages.
    https://docs.mistral.ai/api/endpoint/chat
    """
    yield from (f"Extra inputs are not permitted: {name}" for name in find_unknown_names(asked.body, _OF_MISTRAL))
    for at, message in enumerate(asked.body["messages"]):
        names = find_unknown_names(message, "role content tool_calls tool_call_id name prefix")
        yield from (f"Extra inputs are not permitted: messages.{at}.{name}" for name in names)


def mistral_thoughts_come_back(asked: Asked) -> Problems:
    """Between calls, the thinking part comes back as it was; it does not refuse, but forgets.
    https://docs.mistral.ai/capabilities/reasoning/native
    """
    for at, message, issued in with_calls(asked, open_turns(asked.body)):
        if issued and _thinking(message["content"]) != _thinking(issued["content"]):
            yield f"messages.{at}.content: want its thinking part as it was"


def _thinking(content: Any) -> str:
    parts = content if isinstance(content, list) else []
    return "".join(text["text"] for part in parts if part["type"] == "thinking" for text in part["thinking"])


def groq_fields_are_known(asked: Asked) -> Problems:
    """Unknown fields of messages are refused, such as `reasoning_content`; its own `reasoning` may come back.
    https://console.groq.com/docs/reasoning
    """
    for at, message in enumerate(asked.body["messages"]):
        for name in find_unknown_names(message, "role content name tool_calls tool_call_id reasoning"):
            yield (
                f"'messages.{at}' : for 'role:{message['role']}' the following must be satisfied[('messages.{at}' :"
                f" property '{name}' is unsupported)]"
            )
    if asked.body.get("reasoning_format") == "raw" and asked.body.get("tools"):
        yield "reasoning_format must be either parsed or hidden when using tools"


def grok_takes_no_stops(asked: Asked) -> Problems:
    """Reasoning models take no `stop`, no penalties, and `reasoning_effort` only where it is documented.
    https://docs.x.ai/docs/guides/reasoning
    """
    for name in ("stop", "presence_penalty", "frequency_penalty", "reasoning_effort"):
        if name in asked.body and "fixed" in asked.traits:
            yield f"Model {asked.model} does not support parameter {name}."


# ── the vendors ──────────────────────────────────────────────────────────────────────────────────

_OPENAI = openai_responses.FAILURES
_LATE = {name: f"{kind} responses" if name > "gpt-5.4" else kind for name, kind in openai_responses.MODELS.items()}
_OF_OPENAI = make_rules(parameters_are_known, reasoning_models_take_no_sampling, no_tools_beside_reasoning, *CHAT_RULES)
_CHAT = "/v1/chat/completions"
VENDORS = (
    Vendor("openai-chat", "/v1", _CHAT, chat_wire(None), _LATE, _OF_OPENAI, _OPENAI),
    Vendor(
        "azure-chat", "/openai/v1", "/openai/(v1|deployments/[^/]+)/chat/completions", chat_wire(None), _LATE,
        _OF_OPENAI, _OPENAI, key="api-key authorization",
    ),
    Vendor(
        "deepseek", "", "(/v1)?/chat/completions", chat_wire(as_field("reasoning_content")),
        {"deepseek-v4-pro": "", "deepseek-v4-flash": "", "deepseek-chat": "mute", "deepseek-reasoner-r1": "old"},
        make_rules(deepseek_reasoning_comes_back, old_reasoner_wants_no_thoughts, *CHAT_RULES),
        read_failures("""
            too_long | 400 | invalid_request_error | This model's maximum context length is 131072 tokens.
            rate | 429 | rate_limit_reached_error | Rate limit reached
            unavailable | 503 | service_unavailable_error | Service is too busy. Please try again later.
            unknown_model | 400 | invalid_request_error | Model Not Exist
            wrong_key | 401 | authentication_error | Authentication Fails, Your api key: ****body is invalid
        """),
    ),
    Vendor(
        "moonshot", "/v1", _CHAT, chat_wire(as_field("reasoning_content"), "functions.{2}:{1}{0}"),
        {"kimi-k2.6": "", "kimi-k2-thinking": ""},
        make_rules(kimi_reasoning_comes_back, kimi_samples_as_it_does, *CHAT_RULES),
        read_failures("""
            too_long | 400 | | Invalid request: Your request exceeded model token limit: 262144 (requested: 270000)
            rate | 429 | rate_limit_reached_error | Your account reached max RPM: 20, please try again after 1 seconds
            unavailable | 429 | engine_overloaded_error | The engine is currently overloaded, please try again later
            unknown_model | 404 | resource_not_found_error | Not found the model no-such-model or Permission denied
            wrong_key | 401 | invalid_authentication_error | Invalid Authentication
        """),
    ),
    Vendor(
        "zai", "/api/paas/v4", "/api/paas/v4/chat/completions", chat_wire(as_field("reasoning_content")),
        {"glm-5": "", "glm-4.7": ""}, make_rules(glm_reasoning_comes_back, glm_chooses_tools_itself, *CHAT_RULES),
        read_failures("""
            too_long | 400 | 1261 | Prompt 超长
            rate | 429 | 1302 | 您的账户已达到速率限制，请您控制请求频率
            unavailable | 500 | 1230 | API 调用流程出错
            unknown_model | 400 | 1211 | 模型不存在，请检查模型代码
            wrong_key | 401 | 1000 | 身份验证失败
        """),
    ),
    Vendor(
        "openrouter", "/api/v1", "/api/v1/chat/completions",
        chat_wire(
            as_details, "toolu_{0}{1}",
            lambda status, code, text: {"error": {"message": text, "code": status}},
            stream_details,
        ),
        {"anthropic/claude-opus-4.6": "", "google/gemini-3.1-pro-preview": "", "deepseek/deepseek-v4-pro": ""},
        make_rules(details_come_back_in_order, *CHAT_RULES),
        read_failures("""
            too_long | 400 | | This endpoint's maximum context length is 200000 tokens. You requested about 210000.
            rate | 429 | | Rate limit exceeded: free-models-per-min.
            unavailable | 502 | | Provider returned error
            unknown_model | 400 | | no-such-model is not a valid model ID
            wrong_key | 401 | | User not found.
        """),
    ),
    Vendor(
        "gemini-chat", "/v1beta/openai", "/v1beta/openai/chat/completions",
        chat_wire(
            as_signature,
            error=lambda status, code, text: [{"error": {"code": status, "message": text, "status": code}}],
            deltas=stream_signature,
        ),
        {"gemini-3.1-pro-preview": "", "gemini-3.8-flash": ""}, make_rules(gemini_signature_comes_back, *CHAT_RULES),
        GEMINI_FAILURES, (400, "INVALID_ARGUMENT"),
    ),
    Vendor(
        "mistral", "/v1", _CHAT,
        chat_wire(
            as_parts, "{0}{1}",
            lambda status, code, text: {"object": "error", "message": text, "type": code, "code": status},
            stream_parts,
        ),
        {"magistral-medium-latest": "", "mistral-small-latest": ""},
        make_rules(
            *CHAT_RULES, mistral_fields_are_known, mistral_ids_have_nine_characters, mistral_roles_alternate,
            mistral_thoughts_come_back,
        ),
        read_failures("""
            too_long | 400 | | Prompt contains 140000 tokens, too large for model with 131072 maximum context length
            rate | 429 | rate_limited | Rate limit exceeded
            unavailable | 503 | unreachable_backend | Service unavailable.
            unknown_model | 400 | invalid_model | Invalid model: no-such-model
            wrong_key | 401 | unauthorized | Unauthorized
        """),
        (400, "invalid_request_message_order"),
    ),
    Vendor(
        "groq", "/openai/v1", "/openai/v1/chat/completions", chat_wire(as_field("reasoning")),
        {"openai/gpt-oss-120b": "", "qwen/qwen3-32b": ""}, make_rules(groq_fields_are_known, *CHAT_RULES),
        read_failures("""
            too_long | 400 | context_length_exceeded | Please reduce the length of the messages or completion.
            rate | 429 | rate_limit_exceeded | Rate limit reached for model on tokens per minute (TPM): Limit 8000
            unavailable | 503 | service_unavailable | openai/gpt-oss-120b is currently over capacity. Please try again
            unknown_model | 404 | model_not_found | The model `no-such-model` does not exist or you do not have access
            wrong_key | 401 | invalid_api_key | Invalid API Key
        """),
    ),
    Vendor(
        "xai", "/v1", _CHAT,
        chat_wire(as_field("reasoning_content"), error=lambda status, code, text: {"code": code, "error": text}),
        {"grok-4": "fixed", "grok-3-mini": ""}, make_rules(grok_takes_no_stops, *CHAT_RULES),
        read_failures("""
            too_long | 400 | invalid argument | Maximum prompt length is 131072 but the request contains 140000 tokens.
            rate | 429 | resource exhausted | Too many requests for team
            unavailable | 503 | The service is currently unavailable | The model is at capacity.
            unknown_model | 404 | not found | The model no-such-model does not exist or your team has no access.
            wrong_key | 400 | invalid argument | Incorrect API key provided: ke***dy.
        """),
    ),
)  # fmt: skip
