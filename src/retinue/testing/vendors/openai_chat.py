"""OpenAI's chat completions, as its own models and a dozen other vendors serve them, each with rules of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .api import Asked, Json, Problems, Turn, Vendor, pieces, rules, seal, sse, unknown
from .openai_responses import FAILURES as OPENAI_FAILURES, MODELS, open_schema

_PARAMETERS = (
    "model messages tools tool_choice parallel_tool_calls stream stream_options max_tokens max_completion_tokens stop"
    " temperature top_p n seed user response_format reasoning_effort verbosity logprobs top_logprobs logit_bias metadata"
    " presence_penalty frequency_penalty service_tier store modalities audio prediction prompt_cache_key"
    " safety_identifier prompt_cache_retention web_search_options"
)
_MESSAGE = "role content name tool_calls tool_call_id refusal audio"


def open_turns(body: Json) -> Iterator[tuple[int, Json]]:
    """Yield the assistant's messages since the last one of the user."""
    messages = list(enumerate(body["messages"]))
    last = max((at for at, message in messages if message["role"] not in ("assistant", "tool")), default=-1)
    yield from ((at, message) for at, message in messages if at > last and message["role"] == "assistant")


def _ids(message: Json) -> list[str]:
    return [call.get("id", "") for call in message.get("tool_calls") or []]


# Where each vendor puts thoughts and state: the fields of a message, or a change of its content or calls.
def _nowhere(message: Json, turn: Turn, number: str) -> None:
    pass


def _as_field(name: str) -> Callable[[Json, Turn, str], None]:
    def put(message: Json, turn: Turn, number: str) -> None:
        message[name] = turn.thought

    return put


def _as_details(message: Json, turn: Turn, number: str) -> None:
    kind = {"format": "anthropic-claude-v1"}
    message["reasoning"] = turn.thought
    message["reasoning_details"] = [
        {"type": "reasoning.text", "text": turn.thought, "signature": seal(turn.thought, number), "index": 0} | kind,
        {"type": "reasoning.encrypted", "data": seal("data", number), "id": f"rs_{number}", "index": 1} | kind,
    ]


def _as_parts(message: Json, turn: Turn, number: str) -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": turn.thought}], "closed": True}
    message["content"] = [thought, *([{"type": "text", "text": turn.text}] if turn.text else [])]


def _as_signature(message: Json, turn: Turn, number: str) -> None:
    state = {"extra_content": {"google": {"thought_signature": seal(turn.thought, number)}}}
    message.get("tool_calls", [{}])[0].update(state)  # of several calls only the first has one


@dataclass(frozen=True, slots=True)
class Chat:
    """The wire format. `put`: adds the thought to a message; `call_id`: the form of the ids; `listed`: errors are."""

    put: Callable[[Json, Turn, str], None]
    call_id: str = "call_{}{}"
    envelope: str = "openai"
    streamed_as: str = "text/event-stream"

    def turns(self, body: Json) -> int:
        return len(list(open_turns(body)))

    def tools(self, body: Json) -> Mapping[str, Json]:
        return {tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in body.get("tools") or []}

    def reply(self, asked: Asked, turn: Turn) -> tuple[Json, Mapping[str, Any]]:
        number = re.sub(r"\W", "", seal(asked.body["messages"]))[:8]
        calls = [
            {
                "id": self.call_id.format(number, at),
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(given)},
            }
            for at, (name, given) in enumerate(turn.calls)
        ]
        message: Json = {"role": "assistant", "content": turn.text or None} | ({"tool_calls": calls} if calls else {})
        if "mute" not in asked.traits and asked.body.get("thinking", {}).get("type") != "disabled":
            self.put(message, turn, number)
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop", "logprobs": None}
        usage = {"prompt_tokens": 20, "completion_tokens": 9, "total_tokens": 29}
        head = {"id": f"chatcmpl-{number}", "created": 1, "model": asked.model, "usage": usage}
        return head | {"object": "chat.completion", "choices": [choice]}, {call["id"]: message for call in calls}

    def stream(self, reply: Json) -> Iterator[bytes]:
        head = {key: reply[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
        (choice,) = reply["choices"]
        for delta in [{"role": "assistant", "content": ""}, *_deltas(choice["message"]), {}]:
            end = None if delta else choice["finish_reason"]
            yield sse(head | {"choices": [{"index": 0, "delta": delta, "finish_reason": end}]})
        yield sse(head | {"choices": [], "usage": reply["usage"]})
        yield b"data: [DONE]\n\n"

    def error(self, status: int, code: str, message: str) -> Any:
        kind = code if code.endswith("_error") else "invalid_request_error"
        body: Json = {"error": {"message": message, "type": kind, "param": None, "code": code or None}}
        if self.envelope == "google":
            return [{"error": {"code": status, "message": message, "status": code}}]
        if self.envelope == "mistral":
            return {"object": "error", "message": message, "type": code, "param": None, "code": "3230"}
        if self.envelope == "xai":
            return {"code": code, "error": message}
        if self.envelope == "openrouter":
            return {"error": {"message": message, "code": status}}
        return body


def _deltas(message: Json) -> Iterator[Json]:
    """Yield a message as it is streamed: what was thought, what was said, and the calls."""
    for name in ("reasoning_content", "reasoning"):
        yield from ({name: piece} for piece in pieces(message.get(name) or "") if "reasoning_details" not in message)
    for detail in message.get("reasoning_details", []):
        for piece in pieces(detail.get("text", "")):
            bare = {key: value for key, value in detail.items() if key != "signature"}
            yield {"reasoning": piece, "reasoning_details": [bare | {"text": piece}]}
        yield {"reasoning_details": [detail | ({"text": ""} if "text" in detail else {})]}
    content = message["content"]
    for part in content if isinstance(content, list) else []:
        if part["type"] == "thinking":
            texts = [{"type": "text", "text": piece} for piece in pieces(part["thinking"][0]["text"])]
            yield from ({"content": [{"type": "thinking", "thinking": [text]}]} for text in texts)
        else:
            yield from ({"content": piece} for piece in pieces(part["text"]))
    yield from ({"content": piece} for piece in pieces(content if isinstance(content, str) else ""))
    if "extra_content" in message:  # the signature of a text comes last, beside an empty one
        yield {"content": "", "extra_content": message["extra_content"]}
    for index, call in enumerate(message.get("tool_calls", [])):
        begun = call | {"index": index, "function": call["function"] | {"arguments": ""}}
        yield {"tool_calls": [begun]}
        for piece in pieces(call["function"]["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


# ── rules of all ─────────────────────────────────────────────────────────────────────────────────


def results_follow_their_calls(asked: Asked) -> Problems:
    """An assistant's message with calls is followed by a tool message for each of them, and by nothing else before.
    https://developers.openai.com/api/docs/guides/function-calling
    """
    waiting: list[str] = []
    for at, message in enumerate([*asked.body["messages"], {"role": "end"}]):
        if message["role"] == "tool":
            if message.get("tool_call_id") not in waiting:
                yield f"messages.[{at}].role: messages with role 'tool' must be a response to a preceeding message with"
                return
            waiting.remove(message["tool_call_id"])
        elif waiting:
            yield (
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each"
                f" 'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(waiting)}"
            )
            return
        else:
            waiting = _ids(message)


def calls_are_unmodified(asked: Asked) -> Problems:
    """The calls of the model come back with their ids, names and arguments, none more and none less.
    https://developers.openai.com/api/docs/guides/function-calling
    """
    for at, message in enumerate(asked.body["messages"]):
        issued = next((asked.issued[one] for one in _ids(message) if one in asked.issued), None)
        if issued and [_call(one) for one in issued["tool_calls"]] != [_call(one) for one in message["tool_calls"]]:
            yield f"messages.[{at}].tool_calls: they are not as the model made them"


def _call(call: Json) -> tuple[str, str, Any]:
    return call["id"], call["function"]["name"], json.loads(call["function"]["arguments"])


def schemas_are_valid(asked: Asked) -> Problems:
    """The schema of a tool is of an object; a strict one has no additional properties, and requires all it has.
    https://developers.openai.com/api/docs/guides/structured-outputs#supported-schemas
    """
    for tool in asked.body.get("tools") or []:
        yield from open_schema(tool["function"], tool["function"].get("strict"))
    if not asked.body.get("tools", [0]):
        yield "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead."
    if "tool_choice" in asked.body and not asked.body.get("tools"):
        yield "'tool_choice' is only allowed when 'tools' are specified."


# ── rules of OpenAI ──────────────────────────────────────────────────────────────────────────────


def parameters_are_known(asked: Asked) -> Problems:
    """Unknown parameters are refused, in messages too: nothing of another vendor's is sent.
    https://developers.openai.com/api/reference/resources/chat
    """
    yield from (f"Unrecognized request argument supplied: {name}" for name in unknown(asked.body, _PARAMETERS))
    for at, message in enumerate(asked.body["messages"]):
        yield from (f"Unknown parameter: 'messages[{at}].{name}'." for name in unknown(message, _MESSAGE))


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


def _thought_of(asked: Asked, name: str, messages: Iterator[tuple[int, Json]]) -> Iterator[tuple[int, Any, Any]]:
    """Yield each message with calls: its index, what it has as `name`, and what was issued, if it is of this API."""
    for at, message in messages:
        if message["role"] == "assistant" and (ids := _ids(message)):
            issued: Json = next((asked.issued[one] for one in ids if one in asked.issued), {})
            yield at, message.get(name), issued.get(name)


def _everywhere(asked: Asked) -> Iterator[tuple[int, Json]]:
    return iter(enumerate(asked.body["messages"]))


def deepseek_reasoning_comes_back(asked: Asked) -> Problems:
    """A thinking model's `reasoning_content` comes back beside its calls, in every later request.
    https://api-docs.deepseek.com/guides/thinking_mode#tool-calls
    """
    if not asked.traits & {"old", "mute"} and asked.body.get("thinking", {}).get("type") != "disabled":
        for _, sent, issued in _thought_of(asked, "reasoning_content", _everywhere(asked)):
            if sent is None or issued not in (None, sent):
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
    for at, sent, issued in _thought_of(asked, "reasoning_content", _everywhere(asked)):
        if asked.body.get("thinking", {}).get("type") != "disabled" and (sent is None or issued not in (None, sent)):
            yield f"thinking is enabled but reasoning_content is missing in assistant tool call message at index {at}"


def kimi_samples_as_it_does(asked: Asked) -> Problems:
    """Kimi K2.5 and later have one temperature and one `top_p`.
    https://platform.moonshot.ai/docs/guide/kimi-k2-5-quickstart
    """
    for name, only in (("temperature", 1), ("top_p", 0.95)):
        if asked.body.get(name, only) != only:
            yield f"invalid {name}: only {only} is allowed for this model"


def glm_reasoning_comes_back(asked: Asked) -> Problems:
    """GLM thinks on between calls only with its `reasoning_content` complete and unmodified; it is not refused there.
    https://docs.z.ai/guides/capabilities/thinking-mode
    """
    for at, sent, issued in _thought_of(asked, "reasoning_content", open_turns(asked.body)):
        if issued not in (None, sent):
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
    for at, sent, issued in _thought_of(asked, "reasoning_details", open_turns(asked.body)):
        if issued is not None and joined(sent or []) != joined(issued):
            yield f"messages[{at}].reasoning_details: `thinking` blocks cannot be modified; want them as they were"


def joined(details: Sequence[Json]) -> list[Json]:
    """Return reasoning details of which the pieces of one text are joined."""
    whole: list[Json] = []
    for detail in details:
        last = whole[-1] if whole else {}
        if "text" in detail and last.get("type") == detail["type"] and last.get("index") == detail.get("index"):
            whole[-1] = last | detail | {"text": last["text"] + detail["text"]}
        else:
            whole.append(dict(detail))
    return whole


def gemini_signature_comes_back(asked: Asked) -> Problems:
    """In the current turn, the first call of each step has its signature, or the documented dummy.
    https://ai.google.dev/gemini-api/docs/thought-signatures#openai
    """
    for at, message in open_turns(asked.body):
        for call in (message.get("tool_calls") or [])[:1]:
            sent = call.get("extra_content", {}).get("google", {}).get("thought_signature")
            own = asked.issued.get(call["id"], {}).get("tool_calls", [{}])[0].get("extra_content")
            if not sent:
                yield (
                    f"Function call is missing a thought_signature in functionCall parts. Additional data, function"
                    f" call `default_api:{call['function']['name']}`, position {at + 1}."
                )
            elif sent not in DUMMIES and own != call["extra_content"]:
                yield "Invalid thought signature."


DUMMIES = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")

# ── rules of others ──────────────────────────────────────────────────────────────────────────────


def mistral_ids_have_nine_characters(asked: Asked) -> Problems:
    """The id of a call is nine letters and digits.
    https://github.com/mistralai/client-python/issues/143
    """
    for message in asked.body["messages"]:
        for one in [*_ids(message), *([message["tool_call_id"]] if "tool_call_id" in message else [])]:
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
    known = (
        "model messages tools tool_choice parallel_tool_calls stream max_tokens stop temperature top_p n random_seed"
        " response_format presence_penalty frequency_penalty prompt_mode reasoning_effort safe_prompt metadata guardrails"
        " prediction prompt_cache_key"
    )
    yield from (f"Extra inputs are not permitted: {name}" for name in unknown(asked.body, known))
    for message in asked.body["messages"]:
        names = unknown(message, "role content tool_calls tool_call_id name prefix")
        yield from (f"Extra inputs are not permitted: messages.{message['role']}.{name}" for name in names)


def mistral_thoughts_come_back(asked: Asked) -> Problems:
    """Between calls, the thinking part comes back as it was.
    https://docs.mistral.ai/capabilities/reasoning/native
    """
    for at, sent, issued in _thought_of(asked, "content", open_turns(asked.body)):
        if issued is not None and _thinking(sent) != _thinking(issued):
            yield f"messages.{at}.content: want its thinking part as it was"


def _thinking(content: Any) -> str:
    parts = content if isinstance(content, list) else []
    return "".join(text["text"] for part in parts if part["type"] == "thinking" for text in part["thinking"])


def groq_fields_are_known(asked: Asked) -> Problems:
    """Unknown fields of messages are refused, such as `reasoning_content`; its own `reasoning` may come back.
    https://console.groq.com/docs/reasoning
    """
    for at, message in enumerate(asked.body["messages"]):
        for name in unknown(message, "role content name tool_calls tool_call_id reasoning"):
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


_ALL = (results_follow_their_calls, calls_are_unmodified, schemas_are_valid)
_OWN = (parameters_are_known, reasoning_models_take_no_sampling, no_tools_beside_reasoning)


def _failures(**words: tuple[int, str, str]) -> Mapping[str, tuple[int, str, str]]:
    return OPENAI_FAILURES | words


_CHAT = "/v1/chat/completions"
_LATE = {name: f"{traits} responses" if name > "gpt-5.4" else traits for name, traits in MODELS.items()}
_GOOGLE = Chat(_as_signature, envelope="google")
VENDORS = (
    Vendor("openai-chat", "/v1", _CHAT, Chat(_nowhere), _LATE, rules(*_OWN, *_ALL), OPENAI_FAILURES, (400, "")),
    Vendor(
        "azure-chat", "/openai/v1", "/openai/(v1|deployments/[^/]+)/chat/completions", Chat(_nowhere), _LATE,
        rules(*_OWN, *_ALL), OPENAI_FAILURES, (400, ""), "api-key authorization",
    ),
    Vendor(
        "deepseek", "", "(/v1)?/chat/completions", Chat(_as_field("reasoning_content")),
        {"deepseek-v4-pro": "", "deepseek-v4-flash": "", "deepseek-chat": "mute", "deepseek-reasoner-r1": "old"},
        rules(deepseek_reasoning_comes_back, old_reasoner_wants_no_thoughts, *_ALL),
        _failures(
            too_long=(400, "invalid_request_error", "This model's maximum context length is 131072 tokens. However, you requested 140000 tokens. Please reduce the length of the messages or completion."),
            rate=(429, "rate_limit_reached_error", "Rate limit reached"),
            unavailable=(503, "service_unavailable_error", "Service is too busy. We advise users to temporarily switch to alternative LLM API service providers."),
            unknown_model=(400, "invalid_request_error", "Model Not Exist"),
            wrong_key=(401, "authentication_error", "Authentication Fails, Your api key: ****body is invalid"),
        ),
    ),
    Vendor(
        "moonshot", "/v1", _CHAT, Chat(_as_field("reasoning_content"), "{1}:{0}"), {"kimi-k2.6": "", "kimi-k2-thinking": ""},
        rules(kimi_reasoning_comes_back, kimi_samples_as_it_does, *_ALL),
        _failures(
            too_long=(400, "invalid_request_error", "Invalid request: Your request exceeded model token limit: 262144 (requested: 270000)"),
            rate=(429, "rate_limit_reached_error", "Your account reached organization max RPM: 20, please try again after 1 seconds"),
            unavailable=(429, "engine_overloaded_error", "The engine is currently overloaded, please try again later"),
            unknown_model=(404, "resource_not_found_error", "Not found the model no-such-model or Permission denied"),
            wrong_key=(401, "invalid_authentication_error", "Invalid Authentication"),
        ),
    ),
    Vendor(
        "zai", "/api/paas/v4", "/api/paas/v4/chat/completions", Chat(_as_field("reasoning_content")), {"glm-5": "", "glm-4.7": ""},
        rules(glm_reasoning_comes_back, glm_chooses_tools_itself, *_ALL),
        _failures(
            too_long=(400, "1261", "Prompt 超长"), rate=(429, "1302", "您的账户已达到速率限制，请您控制请求频率"),
            unavailable=(500, "1230", "API 调用流程出错"), unknown_model=(400, "1211", "模型不存在，请检查模型代码"),
            wrong_key=(401, "1000", "身份验证失败"),
        ),
    ),
    Vendor(
        "openrouter", "/api/v1", "/api/v1/chat/completions", Chat(_as_details, "toolu_{}{}", "openrouter"),
        {"anthropic/claude-opus-4.6": "", "google/gemini-3.1-pro-preview": "", "deepseek/deepseek-v4-pro": ""},
        rules(details_come_back_in_order, *_ALL),
        _failures(
            too_long=(400, "", "This endpoint's maximum context length is 200000 tokens. However, you requested about 210000 tokens. Please reduce the length of either one, or use the \"middle-out\" transform."),
            unavailable=(502, "", "Provider returned error"), unknown_model=(400, "", "no-such-model is not a valid model ID"),
            wrong_key=(401, "", "User not found."),
        ),
    ),
    Vendor(
        "gemini-chat", "/v1beta/openai", "/v1beta/openai/chat/completions", _GOOGLE,
        {"gemini-3.1-pro-preview": "", "gemini-3.8-flash": ""}, rules(gemini_signature_comes_back, *_ALL),
        _failures(
            too_long=(400, "INVALID_ARGUMENT", "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576)."),
            rate=(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota, please check your plan and billing details."),
            unavailable=(503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
            unknown_model=(404, "NOT_FOUND", "models/no-such-model is not found for API version v1main"),
            wrong_key=(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."),
        ),
        (400, "INVALID_ARGUMENT"),
    ),
    Vendor(
        "mistral", "/v1", _CHAT, Chat(_as_parts, "{0}{1}", "mistral"), {"magistral-medium-latest": "", "mistral-small-latest": ""},
        rules(*_ALL, mistral_fields_are_known, mistral_ids_have_nine_characters, mistral_roles_alternate, mistral_thoughts_come_back),
        _failures(
            too_long=(400, "invalid_request_error", "Prompt contains 140000 tokens and 0 draft tokens, too large for model with 131072 maximum context length"),
            rate=(429, "rate_limited", "Rate limit exceeded"), unknown_model=(400, "invalid_model", "Invalid model: no-such-model"),
            unavailable=(503, "unreachable_backend", "Service unavailable."), wrong_key=(401, "unauthorized", "Unauthorized"),
        ),
        (400, "invalid_request_message_order"),
    ),
    Vendor(
        "groq", "/openai/v1", "/openai/v1/chat/completions", Chat(_as_field("reasoning")),
        {"openai/gpt-oss-120b": "", "qwen/qwen3-32b": ""}, rules(groq_fields_are_known, *_ALL),
        _failures(
            too_long=(400, "context_length_exceeded", "Please reduce the length of the messages or completion."),
            rate=(429, "rate_limit_exceeded", "Rate limit reached for model `openai/gpt-oss-120b` on tokens per minute (TPM): Limit 8000"),
        ),
    ),
    Vendor(
        "xai", "/v1", _CHAT, Chat(_as_field("reasoning_content"), envelope="xai"), {"grok-4": "fixed", "grok-3-mini": ""},
        rules(grok_takes_no_stops, *_ALL),
        _failures(
            too_long=(400, "Client specified an invalid argument", "This model's maximum prompt length is 131072 but the request contains 140000 tokens."),
            rate=(429, "Some resource has been exhausted", "Too many requests for team"),
            unavailable=(503, "The service is currently unavailable", "Service temporarily unavailable. The model is at capacity and currently cannot serve this request."),
            unknown_model=(404, "Some requested entity was not found", "The model no-such-model does not exist or your team does not have access to it."),
            wrong_key=(400, "Client specified an invalid argument", "Incorrect API key provided: ke***dy."),
        ),
    ),
)  # fmt: skip
