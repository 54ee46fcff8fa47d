"""Lists the files of `src/retinue` that run for one streamed chat completion, from the route to the socket.

`python -m bench.chat_path` serves a scripted agent, warms it up with some requests, and prints for one more the files
of which at least one function ran, with how many of their functions did.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from types import FrameType

import retinue

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from fakes.app_server import Serving, answering

SOURCE = str(Path(retinue.__file__).parent)
ASKED = {
    "model": "agent-1",
    "messages": [{"role": "user", "content": "What is the capital of France?"}],
    "stream": True,
}
_WARM = 5  # requests before the one that is counted
_APART = 0.2  # seconds between two requests, in which what the last one left is done


def main() -> None:
    """Print the files."""
    found: dict[str, set[str]] = defaultdict(set)
    counting = False
    agents = {"agent-1": answering("agent-1", *["Paris."] * (_WARM + 1))}

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if counting and event == "call" and code.co_filename.startswith(SOURCE):
            found[code.co_filename.removeprefix(SOURCE)[1:]].add(code.co_qualname)

    threading.setprofile(note)  # all threads of the server, which begin from here on
    with tempfile.TemporaryDirectory() as folder, Serving(Path(folder), agents) as server:
        for number in range(_WARM + 1):
            time.sleep(_APART)
            counting = number == _WARM
            assert "[DONE]" in server.ask("POST", "/v1/chat/completions", ASKED).text
        counting = False
    for name in sorted(found):
        print(f"{len(found[name]):4}  {name}")
    print(f"{sum(map(len, found.values()))} functions in {len(found)} files")


if __name__ == "__main__":
    main()
