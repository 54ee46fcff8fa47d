"""Lists the files of `src/retinue` that run for one streamed chat completion, from the route to the socket.

`python -m bench.chat_path` serves a scripted agent, warms it up with some requests, and prints for one more the files
of which at least one function ran, with how many of their functions did: by the tasks that ran them, such as the one
that answers the request, the one that drives the run, and what happens to go on beside them.
"""

from __future__ import annotations

import asyncio
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
_REQUEST = ("RequestResponseCycle.run_asgi", "_alive.<locals>.read")  # answers the request, and reads its stream ahead
_APART = 0.2  # seconds between two requests, in which what the last one left is done


def main() -> None:
    """Print the files."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    counting = False

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if counting and event == "call" and code.co_filename.startswith(SOURCE):
            found[name_task()][code.co_filename.removeprefix(SOURCE)[1:]].add(code.co_qualname)

    agents = {"agent-1": answering("agent-1", *["Paris."] * (_WARM + 1))}
    threading.setprofile(note)  # all threads of the server, which begin from here on
    with tempfile.TemporaryDirectory() as folder, Serving(Path(folder), agents) as server:
        for number in range(_WARM + 1):
            time.sleep(_APART)
            counting = number == _WARM
            assert "[DONE]" in server.ask("POST", "/v1/chat/completions", ASKED).text
        counting = False
    for task, files in found.items():
        print(f"\n{task}: {sum(map(len, files.values()))} functions in {len(files)} files")
        for name in sorted(files):
            print(f"{len(files[name]):4}  {name}")
    own = {name for task in _REQUEST for name in found[task]}
    every = {name for files in found.values() for name in files}
    print(f"\nfrom the route to the socket: {len(own)} files; with the run that answers: {len(every)}")


def name_task() -> str:
    """Return what runs: the coroutine of a task, a thread, or a callback of the event loop."""
    if threading.current_thread().name != "serving":
        return "threads"
    task = asyncio.current_task()
    return "callbacks" if task is None else getattr(task.get_coro(), "__qualname__", "?")


if __name__ == "__main__":
    main()
