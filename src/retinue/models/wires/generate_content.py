"""Google's wire format: `generateContent`, of the Gemini API and of Vertex AI.

What a model wants back is a list of parts, each exactly as it came: a thought signature belongs to its very part
(https://ai.google.dev/gemini-api/docs/thought-signatures).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from ...core.tools.tool import Tool
from ...core.values import Message, Usage
from ...errors import ModelRefused
from ...net.error_mapping import is_about_parameter
from .. import wire_format
from ..schemas import declare_tool
from ..wire_format import (
    Encoded,
    PartialReply,
    Terms,
    find_count_at,
    find_json_at,
    find_objects_at,
    find_text_at,
    to_json,
)  # fmt: skip

_MOST_STOPS = 5  # https://ai.google.dev/api/generate-content#GenerationConfig
_MODES = {"required": "ANY", "none": "NONE"}

# Levels and budgets: https://ai.google.dev/gemini-api/docs/thinking and, of the budgets by effort, /openai#thinking
_TAKES_BUDGETS = re.compile(r"gemini-[12]\b")
_LEVELS = {"none": "MINIMAL", "minimal": "MINIMAL", "low": "LOW", "medium": "MEDIUM"}
_NEXT_LEVEL = {"MINIMAL": "LOW", "LOW": "MEDIUM", "MEDIUM": "HIGH"}
_BUDGETS = {"none": 0, "minimal": 1_024, "low": 1_024, "medium": 8_192}
_MUCH, _LEAST = 24_576, 128  # tokens; models that always think take no less

# What a server may refuse (`Terms.without`), in words that do not name the parameter:
_LEVEL = "thinkingLevel."  # with the level: the next one is taken
_NO_BUDGET = "thinkingBudget.0"  # the least budget is taken
_NO_SYSTEM = "system"  # the system prompt is a user's
_NULL_SYSTEM = re.compile(rb'(?:, )?"systemInstruction": null')  # which says so to the body
_REFUSED_LEVEL = re.compile(r"thinking level (\w+) is not supported", re.IGNORECASE)
_REFUSALS = (
    ("thinkingConfig", re.compile(r"thinking(?:[ _](?:level|budget|config))? is not (?:supported|enabled)", re.I)),
    ("responseJsonSchema", re.compile(r"json mode is not|schema.{0,80}(?:too many states|nesting|support)", re.I)),
    ("frequencyPenalty", re.compile(r"penalty is not enabled", re.IGNORECASE)),
    ("presencePenalty", re.compile(r"penalty is not enabled", re.IGNORECASE)),
)

UNSIGNED = "skip_thought_signature_validator"
"""Stands for the signature of a call that no Gemini made. Without one, Gemini 3 and later refuse the first call of each
step (https://ai.google.dev/gemini-api/docs/thought-signatures#faqs); earlier models do not read it."""
_BEGINNING = b'{"role": "user", "parts": [{"text": "(The conversation began earlier.)"}]}, '
_GO_ON = b']}, {"role": "user", "parts": [{"text": "Continue."}'
_STRANGE = re.compile(r"[^A-Za-z0-9_.:-]")  # not allowed in a function's name, which begins with a letter or `_`
_BEGIN = re.compile(r"_*[A-Za-z]|_+$")
_MAX_NAME = 128

_FAILURES = (
    "MALFORMED", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE", "OTHER", "IMAGE_OTHER",
    "NO_IMAGE",
)  # fmt: skip
_FINISH = {"MODEL_ARMOR": "content_filter", "LANGUAGE": "content_filter", "CONTINUATION": "length"}


class GenerateContent(wire_format.Wire):
    """The API's `generateContent`."""

    name, path = "generate_content", ":generateContent"
    sampling = {"temperature": "temperature", "top_p": "topP", "top_k": "topK", "seed": "seed"} | {
        "frequency_penalty": "frequencyPenalty",
        "presence_penalty": "presencePenalty",
    }

    def find_path(self, model: str, stream: bool) -> str:
        """Return the path of `model`, which may be named with its collection, as in `tunedModels/…`."""
        name = model if "/" in model else f"models/{model}"
        return f"/{name}:streamGenerateContent?alt=sse" if stream else f"/{name}:generateContent"

    def build_parameters(self, terms: Terms) -> dict[str, Any]:
        config = wire_format.select_given(
            temperature=terms.temperature,
            maxOutputTokens=terms.max_tokens,
            stopSequences=[word for word in terms.stop if word][:_MOST_STOPS] or None,
            thinkingConfig=_build_thinking(terms) or None,
        )
        parameters: dict[str, Any] = {"generationConfig": config} if config else {}
        if _NO_SYSTEM in terms.without:
            parameters["systemInstruction"] = None
        if terms.tools:
            parameters["tools"] = [{"functionDeclarations": [_declare(tool, terms) for tool in terms.tools]}]
            if mode := _MODES.get(terms.tool_choice):
                parameters["toolConfig"] = {"functionCallingConfig": {"mode": mode}}
        return parameters

    def add_options(self, parameters: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
        return wire_format.merge_options(parameters, options)

    def add_sampling(self, parameters: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
        known = self.translate_sampling(options)
        return wire_format.merge_parameters(parameters, {"generationConfig": known} if known else {})

    def encode_messages(self, kept: Encoded, new: Sequence[Message]) -> Encoded:
        """Append contents, whose roles alternate; results follow their calls in number and order. The last one, by
        `kept.last`, stays open, and `kept.ids` has the calls of the last turn that have no result yet."""
        for are_results, group in groupby(new, key=lambda message: message.role == "tool"):
            messages = list(group)
            if are_results:
                places = {id: place for place, id in enumerate(kept.ids)}  # noqa: A001
                messages.sort(key=lambda message: places.get(message.call_id, len(places)))
            for message in messages:
                kept = _add_message(kept, message)
        return kept

    def write_body(self, head: bytes, encoded: Encoded) -> bytes:
        contents, system = encoded.messages, encoded.system
        if not contents:  # at least one is required, so a lone system prompt becomes one
            contents, system = b'{"role": "user", "parts": [%b' % to_json({"text": system or "?"}), ""
        elif encoded.last == "model":  # the last one is a user's
            contents += _GO_ON
        head, without_system = _NULL_SYSTEM.subn(b"", head, 1)
        if system and without_system:
            begin = b'{"role": "user", "parts": ['
            contents, system = begin + to_json({"text": system}) + b", " + contents.removeprefix(begin), ""
        fields = [head[1:].removeprefix(b", "), b'"contents": [%b]}]' % contents]
        if system:
            fields.insert(1, b'"systemInstruction": ' + to_json({"parts": [{"text": system}]}))
        return b"{%b}" % b", ".join(filter(None, fields))

    def read_body(self, body: Mapping[str, Any], arriving: PartialReply) -> None:
        first = next((one for one in find_objects_at(body, "candidates") if not one.get("index")), None)
        if first is not None:
            for part in find_objects_at(first, "content", "parts"):
                _read_part(part, arriving)
            reason, said = find_text_at(first, "finishReason"), find_text_at(first, "finishMessage")
            if reason.startswith(_FAILURES):
                arriving.failed = f"{reason}: {said}" if said else reason
            elif reason != "FINISH_REASON_UNSPECIFIED":
                arriving.end(_FINISH.get(reason, reason))
        elif find_json_at(body, "promptFeedback", "blockReason"):
            arriving.end("content_filter")
        if counted := body.get("usageMetadata"):  # so far; the last one counts
            arriving.usage = _read_usage(counted)
            arriving.counted = bool(arriving.finish)

    def keep_turn(self, arriving: PartialReply) -> Any:
        """Return the parts as they came. Only pieces of one text are joined, and none that has a signature."""

        def classify_text(part: dict[str, Any]) -> str:
            is_text = isinstance(part.get("text"), str) and not part.keys() - {"text", "thought"}
            return "" if not is_text else "thought" if part.get("thought") is True else "text"

        turn: list[dict[str, Any]] = []
        for kind, parts in groupby(arriving.turn or (), key=classify_text):
            if not kind:
                turn += parts
            elif text := "".join([part["text"] for part in parts]):
                turn.append({"text": text, "thought": True} if kind == "thought" else {"text": text})
        return turn or None

    def find_refused(self, refused: ModelRefused, sent: Mapping[str, Any]) -> str:
        said, config = str(refused), sent.get("generationConfig", {})
        if found := _REFUSED_LEVEL.search(said):
            return _LEVEL + found[1].upper()
        if "Budget 0 is invalid" in said:
            return _NO_BUDGET
        if "Developer instruction is not enabled" in said:  # of Gemma, and of models that make images
            return _NO_SYSTEM
        refusals = [name for name, words in _REFUSALS if name in config and words.search(said)]
        for name in config.keys() - {"maxOutputTokens"}:
            snake = re.sub(r"[A-Z]", lambda capital: f"_{capital[0].lower()}", name)
            ways = (name, snake, f"generation_config.{snake}")
            refusals += [name] * any(is_about_parameter(refused, way) for way in ways)
        return f"generationConfig.{refusals[0]}" if refusals else ""


GENERATE_CONTENT = GenerateContent()


def _build_thinking(terms: Terms) -> dict[str, Any]:
    """Return the parameters of thinking: how much, and whether a summary is returned; empty if nothing is set."""
    effort, budget = terms.effort, terms.thinking_tokens
    shown = {"includeThoughts": True} if terms.summary and effort != "none" and budget != 0 else {}
    if budget is None and effort and _TAKES_BUDGETS.search(terms.model):
        budget = _BUDGETS.get(effort, _MUCH) or (_LEAST if _NO_BUDGET in terms.without else 0)
    if budget is not None:
        return {"thinkingBudget": budget, **shown}
    level = _LEVELS.get(effort, "HIGH") if effort else ""
    while _LEVEL + level in terms.without:
        level = _NEXT_LEVEL.get(level, "")
    return {"thinkingLevel": level, **shown} if level else shown


def _declare(tool: Tool, terms: Terms) -> dict[str, Any]:
    """Declare a function. One that takes nothing has no parameters: an object must have properties."""
    declared = declare_tool(tool, terms.model, terms.in_words, gemini=True)
    made = {"name": _encode_name(tool.name)}
    if declared.get("description"):
        made["description"] = declared["description"]
    takes = tool.name in terms.in_words or declared["parameters"].get("properties")
    return {**made, "parametersJsonSchema": declared["parameters"]} if takes else made


def _encode_name(name: str) -> str:
    """Return a function's name as the API accepts it: with a `_` before what may not be its beginning."""
    return (("" if _BEGIN.match(name) else "_") + _STRANGE.sub("_", name))[:_MAX_NAME]


def _decode_name(name: str) -> str:
    return name if _BEGIN.match(name) else name.removeprefix("_")


def _add_message(kept: Encoded, message: Message) -> Encoded:
    """Return the contents with `message`, unless it is blank."""
    content = message.content.strip()
    if message.role == "system" and not kept.messages:
        return replace(kept, system=f"{kept.system}\n\n{content}" if kept.system else content)
    if message.role == "tool" and message.call_id in kept.ids:
        left = {id: call for id, call in kept.ids.items() if id != message.call_id}  # noqa: A001
        return _extend(kept, "user", [_encode_response(kept.ids[message.call_id], {"output": content})], left)
    missing = [_encode_response(call, {"error": "There is no result."}) for call in kept.ids.values()]
    answered = _extend(kept, "user", missing, {})
    if message.role == "assistant":
        return _extend(answered, "model", *_encode_turn(message))
    return _extend(answered, "user", _encode_parts(message), {})


def _extend(kept: Encoded, role: str, parts: Sequence[Mapping[str, Any]], calls: Mapping[str, Any]) -> Encoded:
    if not parts:
        return kept
    begin = b", "
    if role != kept.last:
        begin = b"]}, " if kept.messages else _BEGINNING if role == "model" else b""
        begin += b'{"role": "%b", "parts": [' % role.encode()
    return replace(kept, messages=kept.messages + begin + b", ".join(map(to_json, parts)), last=role, ids=calls)


def _encode_parts(message: Message) -> list[dict[str, Any]]:
    """Return a message's files and text as parts."""
    parts: list[dict[str, Any]] = [
        {"inlineData": {"mimeType": file.media_type, "data": wire_format.encode_base64(file)}} for file in message.files
    ]
    text = message.content.strip()
    return [*parts, {"text": text}] if text else parts


def _encode_response(call: Mapping[str, Any], response: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result. It has an id if the call has: Vertex AI assigns none, and refuses ours
    (https://github.com/pydantic/pydantic-ai/issues/5081)."""
    return {"functionResponse": {name: call[name] for name in ("id", "name") if name in call} | {"response": response}}


def _encode_turn(message: Message) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the parts of a model's turn, and its calls by the loop's ids. A call that was repaired replaces that of
    its part, and others come as they came."""
    made = [
        {"name": _encode_name(call.tool), "args": wire_format.parse_input_object(call.tool_input)}
        for call in message.calls
    ]
    if message.state is None:
        called: list[dict[str, Any]] = [{"functionCall": call} for call in made]
        if called:
            called[0]["thoughtSignature"] = UNSIGNED
        parts = _encode_parts(message) + called
    else:
        parts, left = [], list(zip(message.calls, made, strict=True))
        for part in json.loads(message.state.turn):
            if not _is_call(part):
                parts.append(part)
            elif left:  # a strategy may have taken only the first calls
                (call, mended), former = left.pop(0), part["functionCall"]
                is_same = _decode_name(former["name"]) == call.tool and (former.get("args") or {}) == mended["args"]
                parts.append(part if is_same else {**part, "functionCall": former | mended})
    calls = [part["functionCall"] for part in parts if _is_call(part)]
    return parts, {call.id: sent for call, sent in zip(message.calls, calls, strict=False)}


def _is_call(part: Mapping[str, Any]) -> bool:
    return bool(find_text_at(part, "functionCall", "name"))


def _read_part(part: dict[str, Any], arriving: PartialReply) -> None:
    text = find_text_at(part, "text")
    if part.get("thought") is True:
        arriving.add_thought(text)
    else:
        arriving.said += text
    if _is_call(part):
        made = part["functionCall"]
        piece = {"id": made.get("id"), "name": _decode_name(made["name"]), "arguments": made.get("args") or {}}
        arriving.add_call(None, piece, arriving.calls.values())
    elif "functionCall" in part:
        return  # it names no function
    arriving.turn = arriving.turn or []
    arriving.turn.append(part)


def _read_usage(counted: Any) -> Usage:
    """Return the tokens: thoughts come beside the reply's, and results of Google's own tools beside the prompt's."""
    thought = find_count_at(counted, "thoughtsTokenCount")
    said = find_count_at(counted, "candidatesTokenCount") + thought
    asked = find_count_at(counted, "promptTokenCount") + find_count_at(counted, "toolUsePromptTokenCount")
    cached = min(asked, find_count_at(counted, "cachedContentTokenCount"))
    return Usage(asked, said, cached, 1, reasoning_tokens=thought)
