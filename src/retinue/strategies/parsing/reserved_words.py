"""The reserved words of replies, which every parser reads and quoting therefore neutralizes in data.

A key added here is both read by the parsers and neutralized by `injection_guard`.
"""

from __future__ import annotations

import re

ACTIONS = ("actions", "tool_calls")
NAMES = ("action", "tool", "tool_name")
INPUTS = ("arguments", "action_input", "tool_input", "args", "parameters", "input")
ANSWERS = ("answer", "final_answer")
STEPS = ("plan", "steps")
_OTHERS = ("decision", "function", "rephrased", "scratchpad")
_ALIKE = ("action_responses", "function_call", "observation", "step", "thought", "tool_call")  # no parser reads them
KEYS = frozenset(
    (*ACTIONS, *NAMES, *INPUTS, *ANSWERS, *STEPS, *_ALIKE, "decision", "function", "rephrased", "scratchpad")
)

_BETWEEN = re.compile(r"[\s_-]++")


def key_of(written: str) -> str:
    """Normalize a key as written by models, ignoring case and whatever separates its words. No parser folds more."""
    return _BETWEEN.sub("_", written.strip().lower())
