"""Texts that would run a script, or load something, on a page that took them for anything but text."""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import insert

from fakes.app_server import Serving
from fakes.kept_runs import new_run
from retinue.core.events import (
    Asked,
    Called,
    Compacted,
    Event,
    Finished,
    Observed,
    Paused,
    Replied,
    Resumed,
    Retried,
    Started,
)
from retinue.core.serialization import dump
from retinue.core.values import AgentAction, Decision, Message, Observation, Reply, Usage
from retinue.store.run_queries import insert_run
from retinue.store.tables import events

_DO = "window.__pwned=1"
CORPUS = (
    f"<script>{_DO}</script>",
    f"<img src=x onerror={_DO}>",
    f"<svg onload={_DO}>",
    "\"><iframe srcdoc='<script>parent.__pwned=1</script>'></iframe>",
    f"'-{_DO}-'",
    f"`${{{_DO}}}`",
    f"${{{_DO}}}",
    f"{{{{constructor.constructor('{_DO}')()}}}}",
    f"javascript:{_DO}",
    f"[a](javascript:{_DO}) ![i](https://evil.example/x.png)",
    f"<a href=javascript:{_DO}>click</a>",
    "<link rel=stylesheet href=https://evil.example/x.css><style>@import 'https://evil.example/y.css'</style>",
    "<meta http-equiv=refresh content='0;url=https://evil.example/'>",
    "<base href=https://evil.example/><form action=https://evil.example><button>send</button></form>",
    f"<math><mtext></form><form><mglyph><style></math><img src onerror={_DO}>",
    f"<details open ontoggle={_DO}><object data=https://evil.example></object></details>",
    f"<template><script>{_DO}</script></template><noscript><p title='</noscript><img src onerror={_DO}>'>",
    f"\u202e<script>{_DO}</script>\u2028{_DO}\u2029",
    f"data:text/html,<script>{_DO}</script> https://evil.example/ //evil.example/x",
    '{"__proto__": {"innerHTML": "<img src=x onerror=window.__pwned=1>"}, "constructor": null, "type": "script"}',
)


def hostile_log(text: str) -> list[Event]:
    """A log with the text wherever a log has text."""
    action = AgentAction(text, {text: text, "__html": text}, text, "call_1_0")
    command = AgentAction("run_command", {"command": text}, text, "call_1_1")
    planned = AgentAction("write_todos", {"items": text}, text, "call_1_2")
    done: dict[str, Any] = {
        "command": {"exit": 1, "seconds": 0.1, "cut": True},
        "workspace": {"version": 1, "changed": [{"path": text, "size": 1, "was": None}]},
    }
    said = Message("assistant", text, (action,), text, text)
    return [
        Started(text, text, text, text, (text,), instructions=text, history=(Message("user", text),)),
        Asked(1, 0, (Message("system", text), said, Message("tool", text, (), text, text)), problem=text),
        Retried(1, text, 1.0),
        Replied(1, Reply(text, Usage(1, 1), calls=(action,))),
        Paused(1, action, text),
        Resumed(1, "call_1_0", Decision("edit", {text: text}, text)),
        Called(1, action),
        Observed(1, Observation("call_1_0", text, "failed", note=text)),
        Called(1, command),
        Observed(1, Observation("call_1_1", f"\x1b]8;;https://evil.example\x07{text}", data=done)),
        Called(1, planned),
        Observed(1, Observation("call_1_2", text, data={"todos": [{"text": text, "status": text}]})),
        Compacted(2, 0, "summary", (0, 1, 2), (text, "", text), 9, 5),
        Asked(2, 1, (Message("user", text),)),
        Replied(2, Reply(text)),
        Finished(text, {"output": text, text: text}),
    ]


def add_hostile_run(served: Serving, text: str, number: int, tenant: str = "default") -> str:
    """A stored run of such a log; its id."""
    run = f"run_{number:024x}"
    now = int(time.time())
    row = new_run(run, tenant=tenant, thread_id=None, kind="response", created_at=now, status="failed", holds=False)
    log = [
        {"run_id": run, "seq": at, "epoch": 0, "at": now + at * 0.5, "kind": kind, "payload": payload}
        for at, (kind, payload) in enumerate(map(dump, hostile_log(text)), 1)
    ]
    with served.database.engine.begin() as connection:
        insert_run(connection, row._replace(agent=text, request={"model": text}, metadata={"x": text}, started_at=now))
        connection.execute(insert(events), log)
    return run
