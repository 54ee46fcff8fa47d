"""The interface of a vendor's wire format: how requests are written and replies are read."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, cast

from .._internal.foreign_text import LENIENT, check_depth, make_json_well_formed, make_well_formed
from ..core.tools.tool import Tool
from ..core.values import MAX_COUNT, AgentAction, File, Finish, Kind, Message, ToolInput, Usage
from ..errors import ModelRefused, UsageError
from .schemas import declare_tool

_ONE_REQUEST = Usage(requests=1)
_MAX_CALLS = 128  # of one reply
_LENGTH = re.compile(r"length|max_?tokens|max_?output|token_?limit|context_window")
_FILTERED = re.compile(
    r"content_?filter|filtered|sensitive|safety|refusal|recitation|prohibited|blocklist|guardrail|toxic|spii"
)
_FAILED = re.compile(r"\berror$|^error\b|abort|timeout|network_error|insufficient_system|malformed")
_FENCE = re.compile(r"```\w*+")
_TRAILING = re.compile(r"(?:<[^<>]{1,40}>|```|\s)*+")
_THOUGHTS = ("thinking", "reasoning", "redacted_thinking", "thought", "reasoning_content")
_DEPTH = 4  # of contents in contents
_UNICODE = json.JSONEncoder(ensure_ascii=False)  # `json.dumps` would make one for each value


# ── untrusted JSON ───────────────────────────────────────────────────────────────────────────────


def find_json_at(body: Any, *path: str) -> Any:
    """Return the value at `path` in untrusted JSON, or `None` if there is none."""
    for name in path:
        body = body.get(name) if isinstance(body, dict) else None
    return body


def find_text_at(body: Any, *path: str) -> str:
    """Return the text at `path`, or an empty one."""
    return found if isinstance(found := find_json_at(body, *path), str) else ""


def find_count_at(body: Any, *path: str) -> int:
    """Return the number of tokens at `path`, or 0 if it is invalid: negative, or more than any request can use."""
    return found if isinstance(found := find_json_at(body, *path), int) and 0 <= found <= MAX_COUNT else 0


def find_objects_at(body: Any, *path: str) -> list[dict[str, Any]]:
    """Return the objects in the list at `path`, if it is one."""
    found = find_json_at(body, *path)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def to_json(value: Any) -> bytes:
    """Serialize `value` as JSON; invalid Unicode becomes question marks."""
    return _UNICODE.encode(value).encode("utf-8", "replace")


# ── requests and replies ─────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Terms:
    """The parameters of a request besides the conversation; those of `Settings` are sent only if they are set.

    `context`: the window to request, where supported. `max_tokens`: `None` allows as many as the engine and the window
    do, which are `most_output` if that is known. `in_words`: names of the tools whose schemas the vendor does not
    accept. `without`: what the server was found to refuse, and what does not fit the conversation, by the wire's names.
    """

    model: str
    max_tokens: int | None
    stop: tuple[str, ...]
    temperature: float | None
    stream: bool
    context: int
    tools: tuple[Tool, ...]
    tool_choice: Literal["auto", "required", "none"]
    in_words: frozenset[str] = frozenset()
    effort: str = ""
    verbosity: str = ""
    thinking_tokens: int | None = None
    without: frozenset[str] = frozenset()
    summary: str = ""
    most_output: int | None = None


@dataclass(frozen=True, slots=True)
class Encoded:
    """A conversation encoded as JSON so far; it is append-only.

    `system`: text outside of the messages. `open`: the last turn can still be extended. `ids`: by the loop's id of a
    call, what its vendor knows it by, for the calls of the last turn.
    `unsent`: the origin of another vendor's state, which was left out. `unfit`: what the vendor refuses beside this
    conversation, by the wire's own names. `last`: the role of the last message, where the format minds it.
    `turns_without` and `turns_want`: the fields of an assistant's turn that the server rejects, and those that it
    misses in a turn that has none.
    """

    messages: bytes = b""
    system: str = ""
    open: bool = False
    ids: Mapping[str, Any] = field(default_factory=dict)
    unsent: str = ""
    unfit: frozenset[str] = frozenset()
    last: str = ""
    turns_without: frozenset[str] = frozenset()
    turns_want: frozenset[str] = frozenset()


@dataclass(slots=True, eq=False)
class PartialCall:
    """A tool call received so far, with its `arguments` as text, or `given` as values. `index`: the engine's number.
    `extra`: what the vendor wants back with it."""

    index: Any = None
    name: str = ""
    id: str = ""
    arguments: str = ""
    given: dict[str, Any] | None = None
    extra: Any = None

    @property
    def is_whole(self) -> bool:
        """Whether its arguments can be parsed."""
        return self.given is not None or isinstance(read_arguments(self.arguments), dict)

    def is_followed_by(self, id: str, name: str, arguments: Any) -> bool:  # noqa: A002
        """Return whether a piece with the same index begins another call.

        Engines are careless with indices and ids: all calls may have the same one, or a call a new id in each piece.
        """
        begun = self.given is not None or bool(self.arguments.strip())
        if id and self.id and id != self.id:
            return bool(name) or (begun and self.is_whole and bool(arguments))
        is_repeated = id and id == self.id and arguments in ("", None, self.arguments)
        is_rest_of_name = self.id and not begun and id in ("", self.id)
        if not name or not self.name or is_repeated or is_rest_of_name:
            return False
        return (begun and self.is_whole) or name != self.name


@dataclass(slots=True)
class PartialReply:
    """A reply received so far; `Wire.read_body` adds the contents of a body or event.

    `said`: text not yet passed on. `finish`: empty until the engine reports why it ended. `ended`: the engine says that
    it is over, whatever the reason. `counted`: token counts are final. `failed`: the error, if the engine reports one
    at the end of the reply. `choice`: the index of the choice that is read, if there are several. `separates`: the
    model's thoughts come apart from its text. `reasoning`: what may be shown of them and was not yet passed on.
    `turn`: what has arrived of the turn in the vendor's own format, as its wire keeps it. `paused`: the vendor wants to
    be sent the turn so far, to go on with it.
    """

    said: str = ""
    reasoning: str = ""
    turn: Any = None
    finish: Finish | Literal[""] = ""
    ended: bool = False
    usage: Usage = _ONE_REQUEST
    counted: bool = False
    failed: Any = ""
    choice: Any = None
    separates: bool = False
    paused: bool = False
    calls: dict[int, PartialCall] = field(default_factory=dict)  # in order

    def add_thought(self, text: str) -> None:
        """Add what may be shown of the model's thoughts, which come apart from its text."""
        self.reasoning += text
        self.separates = True

    def add_calls(self, pieces: Any, get_index: Callable[[int, dict[str, Any]], Any]) -> None:
        """Add calls, or pieces of them, in OpenAI's format; `get_index` gives the index of each by its place.

        Pieces that come together belong to different calls.
        """
        taken: list[PartialCall] = []
        for at, piece in enumerate(pieces if isinstance(pieces, list) else [pieces]):
            if isinstance(piece, dict):
                taken.append(self.add_call(get_index(at, piece), piece, taken))

    def add_call(self, index: Any, piece: Mapping[str, Any], taken: Collection[PartialCall] = ()) -> PartialCall:
        """Add a piece to the call that it belongs to, which is none of `taken`, and return that.

        It is the last call with this index, or of those the one with the piece's id; without an index, all have it.
        """
        function = piece.get("function")
        said = function if isinstance(function, dict) else piece
        id = str(piece["id"]) if isinstance(piece.get("id"), str | int) else ""  # noqa: A001
        name = find_text_at(said, "name")
        given = next((said[key] for key in ("arguments", "parameters", "input") if key in said), None)
        arguments = given if isinstance(given, str | dict) else "" if given is None else json.dumps(given)
        calls = [call for call in self.calls.values() if index in (None, call.index) and call not in taken]
        call = next((call for call in reversed(calls) if id and call.id == id), calls[-1] if calls else None)
        if call is None or call.is_followed_by(id, name, arguments):
            if len(self.calls) >= _MAX_CALLS:
                raise ModelRefused(f"the engine's reply has more than {_MAX_CALLS} tool calls")
            call = self.calls[len(self.calls)] = PartialCall(index)
        elif name and id and id == call.id and arguments == call.arguments:
            return call  # some engines repeat a call at its end
        call.id = call.id or id
        # Some engines send the whole name with each piece, and others its next part.
        call.name = name if name.startswith(call.name) else call.name + name * (not call.name.startswith(name))
        call.extra = piece.get("extra_content") or call.extra  # Gemini's signatures, over OpenAI's format
        if isinstance(arguments, dict):
            call.given = arguments
        else:
            call.arguments += arguments
        return call

    def end(self, reason: Any) -> None:
        """Record why the reply ended; each engine has its own words for it."""
        said = str(reason or "").strip().lower()
        if _FAILED.search(said):
            self.failed = str(reason)
        elif said:
            self.finish = "content_filter" if _FILTERED.search(said) else "length" if _LENGTH.search(said) else "stop"

    def count(self, usage: Usage) -> None:
        """Record the final token counts."""
        self.usage, self.counted = usage, True

    def list_whole_calls(self) -> list[PartialCall]:
        """Return the calls; of a truncated reply, only the complete ones."""
        calls = [call for call in self.calls.values() if call.name or call.arguments.strip() or call.given]
        return [call for call in calls if self.finish == "stop" or call.is_whole]

    def list_actions(self) -> tuple[AgentAction, ...]:
        """Return the whole calls as actions. An id that the engine does not assign is derived from the call's place."""
        actions = []
        for number, call in enumerate(self.list_whole_calls()):
            given = read_arguments(call.arguments) if call.given is None else make_json_well_formed(call.given)
            id = make_well_formed(call.id) or f"call_{number}"  # noqa: A001
            actions.append(AgentAction(make_well_formed(call.name), given, id=id))
        return tuple(actions)


class Wire:
    """A wire format, which is a subclass.

    `name` is part of the origin of its vendor's state. `path` is that of requests, below the address. `dispensable` are
    parameters that are omitted if a server rejects them; one within another has a dotted name (`text.format`).
    `turn_fields` are fields of an assistant's turn that some servers reject and others miss. `sampling` are the
    vendor's names of what one request's options may say in OpenAI's names, if it does not take all of them, and
    `hottest` is its highest temperature. If `results_have_files`, the results of tools may have files; otherwise they
    follow in a user's message.
    """

    name: ClassVar[str]
    path: ClassVar[str]
    dispensable: ClassVar[frozenset[str]] = frozenset()
    turn_fields: ClassVar[frozenset[str]] = frozenset()
    sampling: ClassVar[Mapping[str, str] | None] = None
    hottest: ClassVar[float | None] = None
    results_have_files: ClassVar[bool] = False

    def find_path(self, model: str, stream: bool) -> str:
        """Return the path, which may depend on the model and on whether its reply is streamed."""
        return self.path

    def build_parameters(self, terms: Terms) -> dict[str, Any]:
        """Return the parameters of a request."""
        raise NotImplementedError

    def add_options(self, parameters: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
        """Merge the user's own options."""
        return {**parameters, **options}

    def add_sampling(self, parameters: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
        """Merge one request's options, which have OpenAI's names, and drop those unknown to the vendor."""
        return {**parameters, **self.translate_sampling(options)}

    def translate_sampling(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return one request's options under the vendor's names."""
        names = {name: name for name in options} if self.sampling is None else self.sampling
        known = {names[name]: value for name, value in options.items() if name in names}
        return known | select_given(temperature=self.limit(known.get("temperature")))

    def limit(self, temperature: float | None) -> float | None:
        """Return the temperature, or the highest one that the vendor takes."""
        return temperature if temperature is None or self.hottest is None else min(temperature, self.hottest)

    def take_headers(self, parameters: dict[str, Any]) -> Mapping[str, str]:
        """Move what is sent as headers out of the parameters."""
        return {}

    def encode_messages(self, kept: Encoded, new: Sequence[Message]) -> Encoded:
        """Append messages to those that were encoded before."""
        raise NotImplementedError

    def write_body(self, head: bytes, encoded: Encoded) -> bytes:
        """Join the parameters, as JSON without its last brace, with the messages, which come last."""
        return b'%b, "messages": [%b]}' % (head, encoded.messages)

    def read_body(self, body: Mapping[str, Any], arriving: PartialReply) -> None:
        """Add a body, or an event of a stream, to the reply."""
        raise NotImplementedError

    def keep_turn(self, arriving: PartialReply) -> Any:
        """Return the turn as its vendor wants it back, or `None` if the vendor wants nothing back."""
        return None

    def find_refused(self, refused: ModelRefused, sent: Mapping[str, Any]) -> str:
        """Return what a server refuses of the parameters that were sent, by a name that `build_parameters` finds in
        `Terms.without`; empty if it is nothing that the wire can send otherwise."""
        return ""


# ── parameters ───────────────────────────────────────────────────────────────────────────────────


def select_given(**parameters: Any) -> dict[str, Any]:
    """Return the parameters that are not `None`."""
    return {name: value for name, value in parameters.items() if value is not None}


def merge_parameters(parameters: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return `parameters` with `more`, which prevail; objects within them are merged, too."""
    merged = dict(parameters)
    for name, value in more.items():
        if isinstance(former := merged.get(name), Mapping) and isinstance(value, Mapping):
            value = merge_parameters(former, value)
        merged[name] = value
    return merged


def merge_options(
    parameters: Mapping[str, Any], options: Mapping[str, Any], lists: Collection[str] = ("tools",)
) -> dict[str, Any]:
    """Merge the user's `options`. What they have in `lists`, such as tools that the vendor runs, is added to what is
    there."""
    merged = merge_parameters(parameters, options)
    for name in lists:
        if isinstance(more := options.get(name), list | tuple):
            merged[name] = [*parameters.get(name, ()), *more]
    return merged


def drop_parameters(parameters: Mapping[str, Any], names: Collection[str], within: str = "") -> dict[str, Any]:
    """Return `parameters` without those of these `names`, which are dotted for what is in an object."""
    kept: dict[str, Any] = {}
    for name, value in parameters.items():
        path = f"{within}{name}"
        if any(one.startswith(f"{path}.") for one in names) and isinstance(value, Mapping):
            value = drop_parameters(value, names, f"{path}.")
            if not value:
                continue
        if path not in names:
            kept[name] = value
    return kept


# ── messages in OpenAI's format, which others have adopted ───────────────────────────────────────


def append_messages(kept: Encoded, new: Iterable[Mapping[str, Any]]) -> Encoded:
    """Append the `new` messages to `kept`."""
    return replace(kept, messages=b", ".join(filter(None, [kept.messages, *map(to_json, new)])))


def place_result_files(messages: Iterable[Message], kinds: Collection[Kind], wire: Wire) -> tuple[Message, ...]:
    """Return `messages` with the files of tools' results where `wire` has a place for them: in the result, or in a
    user's message after the results. Files whose kind is not in `kinds`, which the model reads, become a note."""
    placed: list[Message] = []
    after: list[File] = []
    for message in (*messages, None):
        if after and (message is None or message.role != "tool"):
            placed.append(Message("user", "(The files of the results above.)", files=tuple(after)))
            after.clear()
        if message and message.tool and message.files:
            read = tuple(one for one in message.files if one.kind in kinds)
            notes = [f"({one.media_type}: you cannot read it)" for one in message.files if one not in read]
            stays = wire.results_have_files or message.role == "user"
            after += () if stays else read
            message = replace(message, content="\n".join([message.content, *notes]), files=read if stays else ())
        placed += [message] if message else []
    return tuple(placed)


def encode_base64(file: File) -> str:
    """Return the bytes of `file` in base64. Raises `UsageError` if they are not at hand."""
    if not file.data:
        raise UsageError(f"the bytes of the file {file.id[:12]} are not at hand: pass it again, in files=[…]")
    return base64.b64encode(file.data).decode()


def encode_data_url(file: File) -> str:
    """Return the file as a data URL. Raises `UsageError` if its bytes are not at hand."""
    return f"data:{file.media_type};base64,{encode_base64(file)}"


def encode_audio(file: File) -> dict[str, Any]:
    """Return a part with a sound."""
    audio = {"data": encode_base64(file), "format": "mp3" if file.media_type == "audio/mpeg" else "wav"}
    return {"type": "input_audio", "input_audio": audio}


def encode_pdf(file: File) -> dict[str, str]:
    """Return a PDF with its name, which is required."""
    return {"filename": file.name or "file.pdf", "file_data": encode_data_url(file)}


def encode_content(message: Message) -> str | list[dict[str, Any]]:
    """Encode the content of a message: its text, or parts if it has files."""
    text = message.content.strip()
    parts: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    for file in message.files:
        if file.kind == "pdf":
            parts.append({"type": "file", "file": encode_pdf(file)})
        elif file.kind == "audio":
            parts.append(encode_audio(file))
        else:
            detail = {} if file.detail == "auto" else {"detail": file.detail}
            parts.append({"type": "image_url", "image_url": {"url": encode_data_url(file), **detail}})
    return parts if message.files else text


def encode_functions(tools: Sequence[Tool], model: str = "", in_words: Collection[str] = ()) -> list[dict[str, Any]]:
    """Describe the tools to `model`. Those `in_words` have no schema."""
    return [{"type": "function", "function": declare_tool(tool, model, in_words)} for tool in tools]


def encode_function_calls(calls: Iterable[AgentAction]) -> list[dict[str, Any]]:
    """Encode the calls of an assistant's message."""
    return [
        {"id": call.id, "type": "function", "function": {"name": call.tool, "arguments": encode_arguments(call)}}
        for call in calls
    ]


def encode_arguments(call: AgentAction) -> str:
    """Return a call's input as the text of an object."""
    return _UNICODE.encode(parse_input_object(call.tool_input))


def parse_input_object(given: ToolInput) -> dict[str, Any]:
    """Return a call's input as an object, the only form that engines accept."""
    return given if isinstance(given, dict) else {"input": given}


# ── what models write ────────────────────────────────────────────────────────────────────────────


def read_arguments(text: str) -> ToolInput:
    """Parse a call's arguments: values if they are a JSON object, otherwise the text itself.

    The object may be in a fence, encoded twice, alone in a list, or followed by the model's control tokens.
    """
    text = make_well_formed(text)
    given = _decode(text.strip())
    if isinstance(given, list) and len(given) == 1 and isinstance(given[0], dict):
        given = given[0]
    if given in (None, []):  # an empty object, as PHP writes it
        return {}
    if isinstance(given, dict):
        return cast("dict[str, Any]", make_json_well_formed(given))
    return given if isinstance(given, str) and given != text.strip() else text


def _decode(text: str, depth: int = 2) -> Any:
    """Return the JSON in `text`, decoded again if it is a text with an object; otherwise `text`."""
    if begun := _FENCE.match(text):
        text = text[begun.end() :].removesuffix("```").strip()
    if text in ("", "null", "None", "undefined"):
        return None
    try:
        value, end = LENIENT.raw_decode(text)
        while value == {} and text[end : end + 1] == "{":  # some engines put an empty object first
            value, end = LENIENT.raw_decode(text, end)
        check_depth(value, text)
    except (ValueError, RecursionError):
        return text
    rest = text[end:]
    if rest and not _TRAILING.fullmatch(rest) and rest.strip() != text[:end].strip():
        return text
    if isinstance(value, str) and depth:
        inner = _decode(value.strip(), depth - 1)
        return inner if isinstance(inner, dict) or inner is None else value
    return value


def read_text(content: Any, depth: int = _DEPTH) -> str:
    """Return the text of a message's content: a text, or parts of several types, without thoughts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and depth:
        return "".join([read_text(part, depth - 1) for part in content])
    if not isinstance(content, dict) or not depth or content.get("thought") is True:
        return ""
    if str(content.get("type", "text")) in _THOUGHTS:
        return ""
    return next((text for key in ("text", "refusal", "value") if (text := read_text(content.get(key), depth - 1))), "")


def read_thoughts(content: Any) -> str:
    """Return the thoughts among the parts of a message's content."""
    said = ""
    for part in find_objects_at(content):
        is_marked = part.get("thought") is True
        kind = "text" if is_marked else str(part.get("type"))
        said += read_text(part.get(kind)) if is_marked or kind in _THOUGHTS else ""
    return said
