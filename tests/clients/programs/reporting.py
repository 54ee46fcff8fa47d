"""What a client made of a server's answers, as JSON: an answer, the use of a tool, and a stream that fails."""

import json
import os
from collections.abc import Callable

URL, KEY = os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"]
ASKED = {"answer": ("plain", "Hello"), "tool": ("tool_calling", "What is 2 to the power of 3?")}
TOLD = "The model behind this agent cannot be used"
FAILING = ("plain", "Something unheard of")


def report(ask: Callable[[str, str], str], **more: str) -> None:
    """Print what `ask`, given an agent and a question, returned, and whether it raised where the run failed."""
    seen = {name: ask(*asked) for name, asked in ASKED.items()}
    try:
        seen["failure"] = f"no exception, but {ask(*FAILING)!r}"
    except Exception as error:  # whichever the client has for this
        seen["failure"] = "raised" if TOLD in str(error) else repr(error)
    print(json.dumps(seen | more))
