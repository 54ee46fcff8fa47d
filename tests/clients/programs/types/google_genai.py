"""Holds requests to `generateContent`, one a line, against the types of Google's SDK, which forbid unknown fields."""

from __future__ import annotations

import json
import sys

from google.genai import types

KINDS = {"systemInstruction": types.Content, "generationConfig": types.GenerationConfig, "toolConfig": types.ToolConfig}

checked = 0
for line in sys.stdin:
    body = json.loads(line)
    for content in body.pop("contents"):
        types.Content.model_validate(content)
    for tool in body.pop("tools", ()):
        types.Tool.model_validate(tool)
    for name, value in body.items():
        KINDS[name].model_validate(value)
    checked += 1
print(checked)
