"""Actions in replies of any format: the reserved words for their parts, the tool that a name means, and its input.

A key added here is both read by the parsers and neutralized by `injection_guard`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ...core.tools.tool import Tool
from ...core.values import AgentFinish, StopReason, ToolInput
from .lenient_json import FENCED

ACTIONS = ("actions", "tool_calls")
NAMES = ("action", "tool", "tool_name")
INPUTS = ("arguments", "action_input", "tool_input", "args", "parameters", "input")
ANSWERS = ("answer", "final_answer")
STEPS = ("plan", "steps")
_OTHERS = ("decision", "function", "rephrased", "scratchpad")
_ALIKE = ("action_responses", "function_call", "observation", "step", "thought", "tool_call")  # no parser reads them
KEYS = frozenset((*ACTIONS, *NAMES, *INPUTS, *ANSWERS, *STEPS, *_OTHERS, *_ALIKE))

NO_TOOL = "no appropriate tool available"
CUT_OFF = "Invalid Format: the reply was cut off, be brief"
NO_ACTION = frozenset(("", "none", "na", "null", "noaction"))  # squeezed names, as of n/a and "No action"
_BETWEEN = re.compile(r"[\s_-]++")
_BESIDE_WORDS = re.compile(r"[\W_]+")


class UnreadableReply(Exception):
    """The reply contains no complete action and no answer; the message says what is missing."""


def normalize_key(written: str) -> str:
    """Normalize a key as written by models, ignoring case and whatever separates its words. No parser folds more."""
    return _BETWEEN.sub("_", written.strip().lower())


def match_tool(name: str, tools: Sequence[Tool]) -> Tool | None:
    """Return the tool that a model means by `name`: an exact match, or one up to case, spaces and punctuation."""
    for tool in tools:
        if tool.name == name:
            return tool
    alike = [tool for tool in tools if squeeze(tool.name) == squeeze(name)]
    return alike[0] if len(alike) == 1 else None


def strip_tool_name(written: str) -> str:
    """Return a tool's name without the decoration that models add."""
    return written.strip().strip("[]\"'`*.").strip()


def squeeze(text: str) -> str:
    """Return the letters and digits of a text, in lower case."""
    return text.lower() if text.isalnum() else _BESIDE_WORDS.sub("", text.lower())


def needs_input(tool: Tool | None) -> bool:
    """Return whether an action with `tool` is incomplete without an input."""
    return tool is None or bool(tool.signature.parameters.get("required") or tool.signature.text_argument)


def read_input(written: str, tool: Tool | None) -> ToolInput:
    """Convert an action's input to the tool's form: plain text, or values by name if it was JSON."""
    fenced = FENCED.fullmatch(written.strip())
    text = (fenced.group(1) if fenced else written).strip()
    values: Any = None
    if text[:1] in ("{", "["):
        with suppress(ValueError, RecursionError):
            values = json.loads(text, strict=False)
    if tool is None or tool.signature.text_argument is not None:
        argument = tool.signature.text_argument if tool else None
        if isinstance(values, dict) and set(values) == {argument} and isinstance(values[argument], str):
            return str(values[argument])
        return without_quotes(text)
    return values if isinstance(values, dict) else text


def without_quotes(text: str) -> str:
    """Remove quotes around the whole text; `"a" OR "b"` keeps its own."""
    text = text.strip()
    for quote in "\"'`":
        if len(text) > 1 and text[0] == quote == text[-1] and quote not in text[1:-1]:
            return text[1:-1].strip()
    return text


def finish_with(text: str, log: str) -> AgentFinish:
    """Return `text` as the final answer; the ReAct tutorial's phrase means that no tool fits."""
    none_fits = text.strip(" .\"'\n").lower() == NO_TOOL
    return AgentFinish({"output": text}, log, StopReason.NO_APPROPRIATE_TOOL if none_fits else StopReason.ANSWER)
