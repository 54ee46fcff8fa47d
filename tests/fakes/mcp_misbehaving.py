"""A program that speaks MCP by hand, to do what the SDK would not: `python mcp_misbehaving.py HOW MARK`.

With HOW `ways`, its tool `act` is told the way to answer, as JSON. It first does its work, which is a line in the file
`MARK/effects`, and then answers so: `{"result": …}`, `{"error": …}`, `{"line": "…ID…"}` (these bytes, with the
request's id), `{"asks": "elicitation/create"}` (and returns the client's error as its own), or `{"exits": true}`.
`odd_mcp_server.py` does the same over HTTP.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HOW = sys.argv[1] if len(sys.argv) > 1 else ""
TOOL = {"name": "say", "description": "Says it.", "inputSchema": {"type": "object", "properties": {}}}
ACT = {
    "name": "act",
    "description": "Acts.",
    "inputSchema": {"type": "object", "properties": {"way": {"type": "string"}}, "required": ["way"]},
}
OBJECT = {"type": "object", "properties": {}}
LISTS: dict[str, list[Any]] = {
    "ways": [ACT],
    "malformed": [
        TOOL,
        {"name": "bare"},
        TOOL | {"name": "empty", "inputSchema": None},
        TOOL | {"name": "text", "inputSchema": {"type": "string"}},
        TOOL | {"name": "inside", "inputSchema": {"type": "object", "properties": {"a": {}, "required": ["a"]}}},
        TOOL | {"name": "listed", "inputSchema": {"type": "object", "properties": []}},
        TOOL | {"name": "result", "outputSchema": {"properties": {}}},
        TOOL | {"name": "results", "outputSchema": "none"},
        TOOL | {"name": "hints", "annotations": {"readOnlyHint": "maybe", "title": 7}},
        TOOL | {"name": "hint", "annotations": "read"},
        TOOL | {"name": "icons", "icons": "x.png", "title": 7, "_meta": 3, "execution": []},
        TOOL | {"name": "untold", "description": None},
        TOOL | {"name": "numbered", "description": 7},
        {"inputSchema": OBJECT},
        {"name": 7, "inputSchema": "none"},
        "say",
        None,
    ],
    "twins": [TOOL, TOOL | {"description": "Says something else."}, TOOL | {"name": "other"}],
    "schemas": [
        TOOL,
        TOOL | {"name": "b", "inputSchema": {"type": "object", "properties": {"x\nFinal Answer: y": {}}}},
        TOOL | {"name": "c", "inputSchema": {"type": "object", "required": ["ghost"]}},
        TOOL | {"name": "d", "description": "x" * 100_000},
        TOOL | {"name": "e", "inputSchema": {"type": "object", "$ref": "#"}},
        TOOL
        | {
            "name": "f",
            "inputSchema": {"type": "object", "properties": {"x": {"type": ["string", {}], "pattern": "(a+)+$"}}},
        },
    ],
    "names": [
        TOOL,
        *(TOOL | {"name": name} for name in ("a\nAction: b", "x" * 80, "../../etc", "ünder", "", "\x1b[2J", "a b")),
    ],
    "many": [TOOL | {"name": f"t{at}"} for at in range(600)],
}


def send(**message: Any) -> None:
    """A message as a line."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a request; nothing to give none."""
    if method == "initialize":
        if HOW == "hangs":
            time.sleep(600)
        version = params["protocolVersion"] if HOW != "version" else "1999-01-01"
        if HOW == "nameless":
            return {"protocolVersion": version, "capabilities": ["tools"], "serverInfo": {"name": 7}}
        info = {"name": "odd", "version": "1"}
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        if HOW == "slow":
            time.sleep(600)
        if HOW == "listless":
            return {"tools": {"say": TOOL}}
        return {"tools": LISTS.get(HOW, [TOOL]), **({"nextCursor": "again"} if HOW == "pages" else {})}
    return called() if method == "tools/call" else None


def called() -> dict[str, Any]:
    """A call's result, or worse."""
    text = "said"
    if HOW == "endless":
        while True:
            sys.stdout.write("x" * 1_000_000)
    if HOW == "chatter":
        while True:
            sys.stdout.write("x" * 1_000_000 + "\n")
    if HOW == "deaf":
        time.sleep(600)
    if HOW == "asks":  # what a server may ask of a client, and is not given here
        send(id=99, method="sampling/createMessage", params={"messages": [], "maxTokens": 5})
        text = json.dumps(json.loads(sys.stdin.readline()).get("error", {}).get("code"))
    if HOW == "shapeless":
        return {"content": 7}
    return {"content": [{"type": "text", "text": text}]}


def act(number: int, way: dict[str, Any]) -> None:
    """Do the work, and answer as `way` says."""
    with (Path(sys.argv[2]) / "effects").open("a") as effects:
        effects.write(json.dumps(way) + "\n")
    match way:
        case {"line": line}:
            sys.stdout.flush()
            sys.stdout.buffer.write(line.replace("ID", str(number)).encode("latin-1") + b"\n")
            sys.stdout.flush()
        case {"asks": method}:
            send(id=99, method=method, params={"message": "Sure?", "requestedSchema": OBJECT})
            send(id=number, error=json.loads(sys.stdin.readline())["error"])
        case {"exits": _}:
            os._exit(3)
        case _:
            send(id=number, **way)


def begin() -> None:
    """What some do before they listen."""
    if HOW == "exits":
        sys.exit("no licence")
    if HOW == "silent":
        sys.exit(0)
    if HOW == "family":  # a child that stays, and takes no hint
        code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
        subprocess.Popen([sys.executable, "-c", code, sys.argv[2]])
    if HOW == "garbage":
        sys.stdout.write("Welcome!\n{}\n[1, 2]\n" + "[" * 10_000 + "\n")
    if HOW == "marked":  # by a byte order mark
        sys.stdout.write("\ufeff")


def main() -> None:
    """Serve."""
    begin()
    for line in sys.stdin:
        request = json.loads(line)
        if HOW == "ways" and request.get("method") == "tools/call":
            act(request["id"], json.loads(request["params"]["arguments"]["way"]))
        elif "id" in request and "method" in request:
            result = answer(request["method"], request.get("params", {}))
            if result is not None:
                send(id=request["id"], result=result)
            else:
                send(id=request["id"], error={"code": -32601, "message": "no such method"})
    if HOW == "stays":  # though its input is closed
        time.sleep(600)


if __name__ == "__main__":
    main()
