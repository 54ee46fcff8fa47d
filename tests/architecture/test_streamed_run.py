"""A streamed run's way through the server, from its request to the model's socket and back, is short.

What counts are the functions of ours that are on the stack of the event loop wherever the request changes hands:

- it is written to the database, and its run is started;
- the run asks the model;
- what came of it is written, and published to who reads it;
- that is read, becomes events of the stream, and is sent to the client.

What the database does (`store/`, `_internal/thread_pool.py`) is not counted: it ends at the functions that hand work to
it. With all functions of ours that are on the stack of any thread where a statement is executed or committed, it is 78.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from fakes.openai_server import OpenAIServer

PROGRAM = """
import json, sys, tempfile, threading
from pathlib import Path

import retinue
from fakes.app_server import Serving
from retinue import Agent, PromptModel

SRC = str(Path(retinue.__file__).parent)
CHANGES = {  # places at which the request changes hands
    "Database.write", "Database.submit", "Runs.start", "Connection.send", "Subscriptions.publish", "_Reader.take",
    "StepProjection.tell", "frame",
}
way, measured = {}, threading.Event()


def ours(frame):
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(SRC):
            yield f"{file.removeprefix(SRC)[1:]} {frame.f_code.co_qualname}"
        frame = frame.f_back


def look(frame, event, argument):
    if event != "call" or not measured.is_set():
        return
    name, own = frame.f_code.co_qualname, frame.f_code.co_filename.startswith(SRC)
    if (own and name in CHANGES) or name == "RequestResponseCycle.send":
        way.update(dict.fromkeys([*ours(frame)][::-1]))


threading.setprofile(look)  # of the server's thread, which begins below
agent = Agent(PromptModel("openai:m", base_url=sys.argv[1], api_key="k"), name="agent-1")
with tempfile.TemporaryDirectory() as folder, Serving(Path(folder), {"agent-1": agent}) as served:
    assistant = served.ask("POST", "/v1/assistants", {"model": "agent-1"}).body["id"]
    for last in (False, True):  # the first one asks what the model's server is
        said = {"messages": [{"role": "user", "content": "What is 2 + 2?"}]}
        thread = served.ask("POST", "/v1/threads", said).body["id"]
        if last:
            measured.set()
        answer = served.ask("POST", f"/v1/threads/{thread}/runs", {"assistant_id": assistant, "stream": True})
        measured.clear()
        assert "thread.message.completed" in answer.text, answer.text
print(json.dumps(list(way)))
"""
INSIDE = ("store/", "_internal/")  # the database's own, and plumbing
LATE = "runs/log_writer.py LogWriter._tell_now"  # a timer that goes off on a busy machine only
HANDED = ("store/database.py Database.write", "store/database.py Database.submit", "_internal/supervision.py supervise")


def test_a_streamed_run_passes_at_most_forty_five_of_our_functions(server: OpenAIServer) -> None:
    server.replies += ["Four."] * 4  # one piece: how pieces are gathered depends on when they come
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", PROGRAM, server.url], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    passed = [one for one in json.loads(done.stdout.splitlines()[-1]) if one != LATE]
    way = [one for one in passed if one in HANDED or not one.startswith(INSIDE)]
    assert {"net/http1.py Connection.send", "server/run_session.py RunSession.follow"} <= set(way)
    assert len(way) <= 45, "\n".join(way)
