"""A person's decision, as what another agent is told."""

from __future__ import annotations

import json

from ..core.values import Decision


def words_of(decision: Decision) -> str:
    """Return a decision as a message: an answer as it is, and otherwise the word or the JSON that a Retinue expects."""
    if decision.kind == "respond":
        return decision.message
    if decision.kind == "edit" and isinstance(decision.tool_input, dict):
        arguments = decision.tool_input.get("arguments", decision.tool_input)
        return json.dumps({"decision": "edit", "arguments": arguments}, ensure_ascii=False)
    if decision.kind == "edit" and decision.tool_input is not None:
        return str(decision.tool_input)
    if decision.kind == "reject" and decision.message:
        return json.dumps({"decision": "reject", "message": decision.message}, ensure_ascii=False)
    return decision.kind
