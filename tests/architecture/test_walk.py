"""One question's walk through the code, from `Agent.run` to the socket, is short and written down in the tour."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from fakes.openai_server import OpenAIServer

TOUR = (Path(__file__).parents[2] / "docs" / "tour.md").read_text(encoding="utf-8")
PROGRAM = """
import json, sys, threading
from pathlib import Path

import retinue
from retinue import Agent, PromptModel
from retinue.net.http1 import Connection

SRC = str(Path(retinue.__file__).parent)
caller, walks = threading.get_ident(), []


def ours(frame):
    while frame is not None:
        if frame.f_code.co_filename.startswith(SRC) and frame.f_code.co_name != "_go_on":  # the loop's thread itself
            yield frame.f_code.co_filename.removeprefix(SRC).lstrip("/")
        frame = frame.f_back


def look(frame, event, argument):
    if event == "call" and frame.f_code is Connection.send.__code__:
        walks.append([*ours(frame), *ours(sys._current_frames()[caller])][::-1])


threading.setprofile(look)  # of threads that begin from now on, as that of the loop does
Agent(PromptModel("openai:m", base_url=sys.argv[1], api_key="k"), trace=False).run("What is 2 + 2?")
print(json.dumps(walks[-1]))  # those before ask what the server is
"""


def test_a_question_is_eighteen_calls_from_the_socket(server: OpenAIServer) -> None:
    server.replies += ["Final Answer: 4"] * 4
    done = subprocess.run([sys.executable, "-c", PROGRAM, server.url], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    calls = json.loads(done.stdout.splitlines()[-1])
    assert len(calls) <= 18, calls
    assert [file for file in calls if f"`{file}`" not in TOUR] == []
