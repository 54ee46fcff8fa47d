"""The words that replies are made of: what every parser reads, and what quoting therefore takes from data.

A key that is added here is read by the parsers and defused by `injection_guard`, both at once.
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
    """A key as models mean it: whatever its case, and with whatever between its words. No parser folds more."""
    return _BETWEEN.sub("_", written.strip().lower())
