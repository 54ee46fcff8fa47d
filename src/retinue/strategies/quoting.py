"""Tool results as data: whatever a tool returns, it cannot look like a turn, an action or an answer.

Two kinds of text are defused: chat templates' special tokens, which a tokenizer could read as a change
of speaker, and the protocol's own markers, which a model could take for its own words. The words stay
readable; only the punctuation that makes them protocol changes.
"""

from __future__ import annotations

import re

MARKERS = ("Thought", "Action", "Action Input", "Tool", "Tool Input", "Observation", "Final Answer", "Question")

_WORDS = "|".join(sorted((marker.replace(" ", r"[\s_]*") for marker in MARKERS), key=len, reverse=True))
_JSON_KEYS = r'(?<=")(?:answer|arguments|args)(?=")'  # these are protocol only as keys of JSON
_MARKER = re.compile(rf"(?<!\w)(_*(?:{_WORDS})|{_JSON_KEYS})(\s*+\d*+\s*+[*_`\"']*+\s*+)[:\uff1a]", re.IGNORECASE)
_TOKEN = re.compile(
    r"<(?=\|)|(?<=\|)>|<(?=\uff5c)|(?<=\uff5c)>"  # <|im_start|> and its full-width kin
    r"|<(?=/?s>)|<(?=(?:start|end)_of_turn>)|<(?=/?(?:bos|eos|pad|unk)>)"  # <s>, <start_of_turn>, <eos>
    r"|\[(?=/?(?:INST|SYS|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\])"
    r"|<(?=/?(?:tool_call|tool_response|think)>)|<(?=<SYS>>)|<(?=</SYS>>)",
    re.IGNORECASE,
)
_SWAP = {"<": "(", ">": ")", "[": "("}


def quoted(text: str) -> str:
    """`text` without anything that reads as protocol or as a chat template's token."""
    text = _TOKEN.sub(lambda match: _SWAP[match.group()], text)
    return _MARKER.sub(r"\1\2 -", text)
