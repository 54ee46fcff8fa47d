"""What models at many vendors' servers were seen to reply, streamed and whole: a report from a user is a line here.

`deltas` are the pieces of a stream, or bytes as they are on the wire; `message` is the same reply, not streamed.
What should come of it is the `answer`, or the `calls` of `add` and `look`, to whose results the model says "Done.".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .scripted_server import Answer, sse

Call = tuple[str, Mapping[str, Any]]
ADD: Call = ("add", {"a": 1, "b": 2})
LOOK: Call = ("look", {"what": "Paris"})
ADD_JSON = '{"name": "add", "arguments": {"a": 1, "b": 2}}'
LOOK_JSON = '{"name": "look", "arguments": {"what": "Paris"}}'
SECRET = "SECRET-THOUGHT"


@dataclass(frozen=True, slots=True)
class VendorReply:
    """One reply. `content_type`: of the stream."""

    deltas: Sequence[Any]
    message: Any = None
    finish: str | None = "stop"
    calls: Sequence[Call] = ()
    answer: str = "Paris."
    content_type: str = "text/event-stream"

    def streamed(self) -> Answer:
        """It as a stream."""
        if any(isinstance(one, bytes) for one in self.deltas):
            return sse(*self.deltas, content_type=self.content_type)
        events = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in self.deltas]
        last = [{"choices": [{"index": 0, "delta": {}, "finish_reason": self.finish}]}]
        return sse(*events, *last, "[DONE]", content_type=self.content_type)

    def whole(self) -> Answer:
        """It as one JSON."""
        choice = {"index": 0, "message": self.message, "finish_reason": self.finish or "stop"}
        return Answer(body=json.dumps({"choices": [choice]}))


def text(content: Any, *, answer: str = "Paris.", calls: Sequence[Call] = (), cut: int = 7, **more: Any) -> VendorReply:
    """A reply whose text is `content`, streamed in pieces of `cut` characters."""
    pieces = [content[at : at + cut] for at in range(0, len(content), cut)]
    message = {"role": "assistant", "content": content}
    return VendorReply([{"content": piece} for piece in pieces], message, calls=calls, answer=answer, **more)


def parts(*content: Any, answer: str = "Paris.") -> VendorReply:
    """A reply whose content is a list."""
    return VendorReply([{"content": [part]} for part in content], {"content": list(content)}, answer=answer)


def called(
    *deltas: Mapping[str, Any], calls: Sequence[Call], whole: Any = None, finish: str = "tool_calls"
) -> VendorReply:
    """A reply with native calls, in pieces; by default the whole one has them as they should be."""
    listed = [
        {"id": f"c{at}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
        for at, (name, given) in enumerate(calls)
    ]
    return VendorReply(deltas, whole or {"content": None, "tool_calls": listed}, finish, calls)


def piece(name: str | None = None, arguments: Any = None, **more: Any) -> dict[str, Any]:
    """A delta with a piece of a call."""
    function = {key: value for key, value in {"name": name, "arguments": arguments}.items() if value is not None}
    return {"tool_calls": [{"function": function, **more}]}


def one_call(name: str, arguments: Any, calls: Sequence[Call] = (ADD,)) -> VendorReply:
    """A reply with one whole call, written so."""
    call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}
    return called({"tool_calls": [{"index": 0, **call}]}, calls=calls, whole={"tool_calls": [call]})


def event(delta: Mapping[str, Any], finish: str | None = None) -> str:
    """A chunk as JSON."""
    return json.dumps({"choices": [{"delta": delta, "finish_reason": finish}]})


ADD_ARGUMENTS, LOOK_ARGUMENTS = json.dumps(ADD[1]), json.dumps(LOOK[1])
WHOLE = {"role": "assistant", "content": "Paris."}
SAYS = f"data: {event({'content': 'Paris.'})}\n\n".encode()
STOPS = f"data: {event({}, 'stop')}\n\n".encode()
DONE = b"data: [DONE]\n\n"
BOTH = [ADD, LOOK]

IDENTITY = {
    "ids apart, all at index 0": called(
        piece("add", "", index=0, id="a"), piece(None, ADD_ARGUMENTS, index=0),
        piece("look", "", index=0, id="b"), piece(None, LOOK_ARGUMENTS, index=0), calls=BOTH,
    ),
    "begun one after the other, then by id": called(
        piece("add", "", index=0, id="a"), piece("look", "", index=0, id="b"),
        piece(None, ADD_ARGUMENTS, index=0, id="a"), piece(None, LOOK_ARGUMENTS, index=0, id="b"), calls=BOTH,
    ),
    "empty ids, all at index 0 (Gemini)": called(
        piece("add", ADD_ARGUMENTS, index=0, id=""), piece("look", LOOK_ARGUMENTS, index=0, id=""), calls=BOTH,
    ),
    "one id for all, by index (TGI)": called(
        piece("add", ADD_ARGUMENTS, index=0, id="0"), piece("look", LOOK_ARGUMENTS, index=1, id="0"), calls=BOTH,
    ),
    "one id and one index for all": called(
        piece("add", ADD_ARGUMENTS, index=0, id="0"), piece("look", LOOK_ARGUMENTS, index=0, id="0"), calls=BOTH,
    ),
    "neither ids nor indices (Ollama)": called(
        piece("add", ADD[1]), piece("look", LOOK[1]), calls=BOTH,
        whole={"tool_calls": [{"function": {"name": name, "arguments": given}} for name, given in BOTH]},
    ),
    "both in one piece at index 0": called(
        {"tool_calls": [
            {"index": 0, "id": "a", "function": {"name": "add", "arguments": ADD_ARGUMENTS}},
            {"index": 0, "id": "b", "function": {"name": "look", "arguments": LOOK_ARGUMENTS}},
        ]}, calls=BOTH,
    ),
    "a new id in each piece (vLLM)": called(
        piece("add", "", index=0, id="a"), piece(None, '{"a": 1, ', index=0, id="b"),
        piece(None, '"b": 2}', index=0, id="c"), calls=[ADD],
    ),
    "the name in each piece": called(
        piece("add", "", index=0, id="a"), piece("add", '{"a": 1, ', index=0, id="a"),
        piece("add", '"b": 2}', index=0, id="a"), calls=[ADD],
    ),
    "the whole call again at its end": called(
        piece("add", "", index=0, id="a"), piece(None, ADD_ARGUMENTS, index=0),
        piece("add", ADD_ARGUMENTS, index=0, id="a"), calls=[ADD],
    ),
    "a name in two pieces": called(
        piece("lo", "", index=0, id="a"), piece("ok", "", index=0), piece(None, LOOK_ARGUMENTS, index=0), calls=[LOOK],
    ),
    "a name in two pieces, with its id": called(
        piece("lo", "", index=0, id="a"), piece("ok", LOOK_ARGUMENTS, index=0, id="a"), calls=[LOOK],
    ),
    "the same tool twice": called(
        piece("look", '{"what": "Rome"}', index=0, id="a"), piece("look", LOOK_ARGUMENTS, index=0, id="b"),
        calls=[("look", {"what": "Rome"}), LOOK],
    ),
    "one call, not in a list": called(
        {"tool_calls": {"index": 0, "id": "a", "function": {"name": "add", "arguments": ADD_ARGUMENTS}}}, calls=[ADD],
    ),
    "legacy function_call": called(
        {"function_call": {"name": "add", "arguments": ""}}, {"function_call": {"arguments": ADD_ARGUMENTS}},
        calls=[ADD], whole={"function_call": {"name": "add", "arguments": ADD_ARGUMENTS}}, finish="function_call",
    ),
    "other names of the arguments": called(
        {"tool_calls": [{"index": 0, "id": "a", "name": "add", "input": ADD[1]}]}, calls=[ADD],
        whole={"tool_calls": [{"function": {"name": "add", "parameters": ADD[1]}}]},
    ),
    "a call, finished as stop": called(piece("add", ADD_ARGUMENTS, index=0, id="a"), calls=[ADD], finish="stop"),
}  # fmt: skip
ARGUMENTS = {
    "encoded twice": one_call("add", json.dumps(ADD_ARGUMENTS)),
    "encoded thrice": one_call("add", json.dumps(json.dumps(ADD_ARGUMENTS))),
    "in a fence": one_call("add", f"```json\n{ADD_ARGUMENTS}\n```"),
    "in a list": one_call("add", f"[{ADD_ARGUMENTS}]"),
    "an empty object first": one_call("add", f"{{}}{ADD_ARGUMENTS}"),
    "twice": one_call("add", ADD_ARGUMENTS * 2),
    "a control token after them": one_call("add", f"{ADD_ARGUMENTS}<|im_end|>"),
    "an object": one_call("add", ADD[1]),
    "one text, encoded twice": one_call("look", json.dumps(LOOK_ARGUMENTS), [LOOK]),
    "one text, in a fence": one_call("look", f"```\n{LOOK_ARGUMENTS}\n```", [LOOK]),
    "one text, and no object": one_call("look", json.dumps("Paris"), [LOOK]),
    "null": one_call("now", "null", [("now", {})]),
    "null itself": one_call("now", None, [("now", {})]),
    "none": one_call("now", "", [("now", {})]),
    "an empty list": one_call("now", "[]", [("now", {})]),
}
NAMES = {
    name: one_call(name, ADD_ARGUMENTS)
    for name in (
        *("functions.add", "functions.add:0", "add<|channel|>commentary", "add<|constrain|>json", "default_api.add"),
        *("<|tool_call_begin|>add", "tools.add", "add:1"),
        *(" add ", '"add"', "add()"),
    )
}
AS_TEXT = {
    "JSON": text(ADD_JSON, calls=[ADD]),
    "JSON, with parameters": text(ADD_JSON.replace("arguments", "parameters"), calls=[ADD]),
    "JSON in a fence": text(f"```json\n{ADD_JSON}\n```", calls=[ADD]),
    "JSON as OpenAI's calls": text(
        json.dumps({"tool_calls": [{"id": "x", "type": "function", "function": json.loads(ADD_JSON)}]}), calls=[ADD]
    ),
    "a list of JSON": text(f"[{ADD_JSON}, {LOOK_JSON}]", calls=BOTH),
    "JSON in lines": text(f"{ADD_JSON}\n{LOOK_JSON}", calls=BOTH),
    "JSON that is announced": text(f"I will add them.\n{ADD_JSON}", calls=[ADD]),
    "Hermes": text(f"<tool_call>\n{ADD_JSON}\n</tool_call>\n<tool_call>{LOOK_JSON}</tool_call>", calls=BOTH),
    "Hermes, after words": text(f"Let me see.\n<tool_call>{ADD_JSON}", calls=[ADD]),
    "Mistral": text(f"[TOOL_CALLS][{ADD_JSON}, {LOOK_JSON}]", calls=BOTH),
    "Mistral, new": text(f"[TOOL_CALLS]add[ARGS]{ADD_ARGUMENTS}[TOOL_CALLS]look{LOOK_ARGUMENTS}", calls=BOTH),
    "Mistral, with ids": text(f"[TOOL_CALLS]add[CALL_ID]abc123def[ARGS]{ADD_ARGUMENTS}", calls=[ADD]),
    "Kimi": text(
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>"
        f"{ADD_ARGUMENTS}<|tool_call_end|><|tool_call_begin|>functions.look:1<|tool_call_argument_begin|>"
        f"{LOOK_ARGUMENTS}<|tool_call_end|><|tool_calls_section_end|>",
        calls=BOTH,
    ),
    "DeepSeek V3": text(
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>add\n"
        f"```json\n{ADD_ARGUMENTS}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>look\n"
        f"```json\n{LOOK_ARGUMENTS}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        calls=BOTH,
    ),
    "DeepSeek V3.1": text(
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>add<｜tool▁sep｜>{ADD_ARGUMENTS}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        calls=[ADD],
    ),
    "DeepSeek V3.2": text(
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="add">\n<｜DSML｜parameter name="a" string="false">1'
        '</｜DSML｜parameter>\n<｜DSML｜parameter name="b" string="false">2</｜DSML｜parameter>\n</｜DSML｜invoke>\n'
        "</｜DSML｜function_calls>",
        calls=[ADD],
    ),
    "GLM": text(
        "<tool_call>add\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n<arg_key>b</arg_key>\n<arg_value>2</arg_value>"
        "\n</tool_call>",
        calls=[ADD],
    ),
    "Qwen's coder": text(
        "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\n2\n</parameter>\n</function>\n"
        "</tool_call>",
        calls=[ADD],
    ),
    "Llama": text(f"<function=add>{ADD_ARGUMENTS}</function>", calls=[ADD]),
    "Llama, Python tag": text(f"<|python_tag|>{ADD_JSON.replace('arguments', 'parameters')}", calls=[ADD]),
    "Command A": text(
        '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "add", "parameters": {"a": 1, "b": 2}}]<|END_ACTION|>',
        calls=[ADD],
    ),
    "Phi": text(f"<|tool_call|>[{ADD_JSON}]<|/tool_call|>", calls=[ADD]),
    "Hunyuan": text(f"<tool_calls>[{ADD_JSON}]</tool_calls>", calls=[ADD]),
    "Nemotron": text(f"<TOOLCALL>[{ADD_JSON}]</TOOLCALL>", calls=[ADD]),
    "MiniMax": text(
        '<minimax:tool_call>\n<invoke name="add">\n<parameter name="a">1</parameter>\n'
        '<parameter name="b">2</parameter>\n'
        "</invoke>\n</minimax:tool_call>",
        calls=[ADD],
    ),
    "LongCat": text(f"<longcat_tool_call>{ADD_JSON}</longcat_tool_call>", calls=[ADD]),
    "Step": text(
        '<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="add">'
        '<steptml:parameter name="a">1</steptml:parameter>'
        '<steptml:parameter name="b">2</steptml:parameter></steptml:invoke><｜tool_call_end｜>',
        calls=[ADD],
    ),
    "Hermes, many": text(
        "".join(f"<tool_call>{LOOK_JSON.replace('Paris', str(at))}</tool_call>" for at in range(20)),
        calls=[("look", {"what": str(at)}) for at in range(20)],
    ),
    "Hermes, without arguments": text('<tool_call>{"name": "now"}</tool_call>', calls=[("now", {})]),
    "Python": text("add(a=1, b=2)", calls=[ADD], cut=2),
    "Python, by position": text("look('Paris')", calls=[LOOK]),
    "Python, a list (Llama 4)": text("<|python_start|>[add(a=1, b=2), look(what='Paris')]<|python_end|>", calls=BOTH),
    "Python, between tokens (LFM2)": text("<|tool_call_start|>[add(a=1, b=2)]<|tool_call_end|>", calls=[ADD]),
    "Python, in lines (Olmo)": text(
        "<function_calls>\nadd(a=1, b=2)\nlook(what='Paris')\n</function_calls>", calls=BOTH
    ),
    "FunctionGemma": text(
        "<start_function_call>call:add{a:1,b:2}<end_function_call><start_function_call>call:look{what:<escape>Paris"
        "<escape>}<end_function_call>",
        calls=BOTH,
    ),
    "Gemma 4": text(
        '<|tool_call>call:look{what:<|"|>Paris, "France", {x}<|"|>}<tool_call|>',
        calls=[("look", {"what": 'Paris, "France", {x}'})],
    ),
    "Python, printed (Gemma)": text("```tool_code\nprint(default_api.add(a=1, b=2))\n```", calls=[ADD]),
    "gpt-oss": text(
        f"<|channel|>analysis<|message|>{SECRET}<|end|><|start|>assistant<|channel|>commentary to=functions.add "
        f"<|constrain|>json<|message|>{ADD_ARGUMENTS}<|call|>",
        calls=[ADD],
    ),
}  # fmt: skip
NO_CALLS = {
    said: text(said, answer=said)
    for said in (
        '{"name": "Paris", "input": 3}',
        '{"name": "add", "arguments": {"a": 1, "b": 2}, "price": 3}',
        '{"capital": "Paris", "of": ["France"]}',
        "[1, 2, 3]",
        f"This is how a call looks:\n```json\n{ADD_JSON}\n```",
        f"This is how Qwen calls a tool: `<tool_call>{ADD_JSON}</tool_call>`.",
        "Write <tool_call> before the JSON.",
        "if a < b: print([a])",
        "```python\nprint({'a': 1})\n```",
        "```python\nadd(a=1, b=2)\n```",
        "add(a, b)",
        "subtract(a=1, b=2)",
        "add(a=1, b=2) is 3.",
        "add(a=",
    )
}
THOUGHTS = {
    "a tag": text(f"<think>\n{SECRET}\n</think>\n\nParis."),
    "a tag, letter by letter": text(f"<think>{SECRET}</think>Paris.", cut=1),
    "several": text(f"<think>{SECRET}</think>\n<think>{SECRET}</think>Paris."),
    "again, in the text": text(f"<think>{SECRET}</think>Paris.\n<think>{SECRET}</think>", answer="Paris."),
    "opened by the template": text(f"Okay, so {SECRET} is it.\n</think>\n\nParis."),
    "empty": text("<think>\n\n</think>\n\nParis."),
    "another tag": text(f"<thinking>{SECRET}</thinking>Paris."),
    "Gemini": text(f"<thought>{SECRET}</thought>Paris."),
    "Magistral's text": text(f"[THINK]{SECRET}[/THINK]Paris."),
    "Kimi's": text(f"◁think▷{SECRET}◁/think▷Paris."),
    "Seed's": text(f"<seed:think>{SECRET}</seed:think>Paris."),
    "Cohere's": text(f"<|START_THINKING|>{SECRET}<|END_THINKING|><|START_RESPONSE|>Paris."),
    "gpt-oss": text(
        f"<|channel|>analysis<|message|>{SECRET}<|end|><|start|>assistant<|channel|>final<|message|>Paris."
    ),
    "before a call": text(f"<think>{SECRET} {LOOK_JSON}</think>\n<tool_call>{ADD_JSON}</tool_call>", calls=[ADD]),
    "in a code block": text("Write:\n```\n<think>…</think>\n```", answer="Write:\n```\n<think>…</think>\n```"),
    "in code": text("Put it in `<think>` and `</think>`.", answer="Put it in `<think>` and `</think>`."),
    "of its own": VendorReply(
        [{"reasoning_content": SECRET}, {"content": "Paris."}], {"reasoning_content": SECRET, "content": "Paris."}
    ),
    "of its own, beside a call": called(
        {"reasoning": SECRET}, piece("add", ADD_ARGUMENTS, index=0, id="a"), calls=[ADD]
    ),
}
PARTS = {
    "a text": parts({"type": "text", "text": "Paris."}),
    "texts": parts({"type": "text", "text": "Par"}, {"type": "text", "text": "is."}),
    "Magistral": parts(
        {"type": "thinking", "thinking": [{"type": "text", "text": SECRET}]}, {"type": "text", "text": "Paris."}
    ),
    "plain texts": parts("Par", "is."),
    "no type": parts({"text": "Paris."}),
    "Gemini's thoughts": parts({"text": SECRET, "thought": True}, {"text": "Paris."}),
    "output_text": parts({"type": "output_text", "text": "Paris.", "annotations": []}),
    "one part, not in a list": VendorReply(
        [{"content": {"type": "text", "text": "Paris."}}], {"content": {"type": "text", "text": "Paris."}}
    ),
    "a value": parts({"type": "text", "text": {"value": "Paris.", "annotations": []}}),
}
HALVES = {
    "an emoji in two pieces": VendorReply(
        [{"content": "Paris \ud83d"}, {"content": "\ude00"}], {"content": "Paris 😀"}, answer="Paris 😀"
    ),
    "half an emoji": text("Paris \ud83d.", answer="Paris \ufffd."),
    "the other half": text("Paris \ude00.", answer="Paris \ufffd."),
    "half an emoji at the end": text("Paris \ud83d", answer="Paris \ufffd"),
    "in arguments": one_call("look", '{"what": "\\ud83d"}', [("look", {"what": "\ufffd"})]),
    "in arguments, in two pieces": called(
        piece("look", '{"what": "\ud83d', index=0, id="a"), piece(None, '\ude00"}', index=0),
        calls=[("look", {"what": "😀"})],
    ),
    "in an id": called(piece("add", ADD_ARGUMENTS, index=0, id="\ud83d"), calls=[ADD]),
}  # fmt: skip
FRAMES = {
    "an empty data": VendorReply([b"data:\n\n", SAYS, b"data: \n\n", STOPS, DONE], WHOLE),
    "comments": VendorReply([b": OPENROUTER PROCESSING\n\n", SAYS, b":\n\n", STOPS, DONE], WHOLE),
    "a BOM": VendorReply([b"\xef\xbb", b"\xbf" + SAYS, STOPS, DONE], WHOLE),
    "as plain text": VendorReply([SAYS, STOPS, DONE], WHOLE, content_type="text/plain"),
    "as JSON": VendorReply([SAYS, STOPS, DONE], WHOLE, content_type="application/json"),
    "comments, as bytes": VendorReply([b": hi\n\n", SAYS, STOPS, DONE], WHOLE, content_type="application/octet-stream"),
    "not streamed, though asked": VendorReply(
        [json.dumps({"choices": [{"message": WHOLE, "finish_reason": "stop"}]}).encode()], WHOLE
    ),
    "carriage returns": VendorReply([SAYS.replace(b"\n", b"\r\n"), STOPS.replace(b"\n", b"\r\n"), DONE], WHOLE),
    "one line break between events": VendorReply([SAYS[:-1], STOPS[:-1], DONE], WHOLE),
    "no line break at the end": VendorReply([SAYS, STOPS.rstrip()], WHOLE),
    "event names and ids": VendorReply([b"event: message\nid: 1\n" + SAYS, STOPS, DONE], WHOLE),
    "no reason why it ended": VendorReply([SAYS, DONE], WHOLE),
    "no reason, and a call": VendorReply(
        [f"data: {event(piece('add', ADD_ARGUMENTS, index=0, id='a'))}\n\n".encode(), DONE],
        {"tool_calls": [{"id": "a", "function": {"name": "add", "arguments": ADD_ARGUMENTS}}]},
        calls=[ADD],
    ),
    "an empty list of choices first (Azure)": VendorReply([b'data: {"choices": []}\n\n', SAYS, STOPS, DONE], WHOLE),
    "the whole message at the end": VendorReply(
        [
            SAYS,
            f"data: {json.dumps({'choices': [{'delta': {}, 'message': WHOLE, 'finish_reason': 'stop'}]})}\n\n".encode(),
        ],
        WHOLE,
    ),
    "several choices": VendorReply(
        [
            SAYS,
            b'data: {"choices": [{"index": 1, "delta": {"content": "London."}, "finish_reason": null}]}\n\n',
            b'data: {"choices": [{"index": 1, "delta": {}, "finish_reason": "stop"}]}\n\n',
            *(STOPS, DONE),
        ],
        WHOLE,
    ),
    "null": VendorReply([b"data: null\n\n", SAYS, STOPS, DONE], WHOLE),
    "another word for its end": VendorReply([{"content": "Paris."}], WHOLE, finish="eos"),
}
GROUPS = {
    "identity": IDENTITY,
    "arguments": ARGUMENTS,
    "name": NAMES,
    "as text": AS_TEXT,
    "no call": NO_CALLS,
    "thought": THOUGHTS,
    "parts": PARTS,
    "half": HALVES,
    "frame": FRAMES,
}
FORMS: Mapping[str, VendorReply] = {
    f"{group}: {name}": form for group, forms in GROUPS.items() for name, form in forms.items()
}
