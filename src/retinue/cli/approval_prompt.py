"""Asks the person at the terminal to approve, edit, reject or answer an action."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import click

from ..core.values import AgentAction, Decision
from ..display.terminal import clean

_KEYS = {"a": "approve", "e": "edit", "r": "reject", "m": "respond"}


async def decide(action: AgentAction, problem: str) -> Decision | None:
    """Return the person's decision on `action`; `None`, which parks the run, without a terminal."""
    if not sys.stdin.isatty():
        return None
    click.secho(f"\n{clean(problem)}:", fg="yellow", bold=True, err=True)
    click.echo(f"  {clean(action.tool)}\n{_shown(action.tool_input)}", err=True)
    return await _in_thread(partial(_ask, action))


def _shown(tool_input: Any) -> str:
    text = tool_input if isinstance(tool_input, str) else json.dumps(tool_input, ensure_ascii=False, indent=2)
    return "\n".join(f"  {line}" for line in clean(text).splitlines())


def _ask(action: AgentAction) -> Decision:
    options = "[a]pprove, [e]dit, [r]eject, give the [m]odel an answer instead"
    key = click.prompt(options, type=click.Choice(list(_KEYS)), show_choices=False, err=True)
    if key == "a":
        return Decision("approve")
    if key == "r":
        return Decision("reject", message=click.prompt("why", default="", show_default=False, err=True))
    if key == "m":
        return Decision("respond", message=click.prompt("what the model is told", err=True))
    if isinstance(action.tool_input, str):
        return Decision("edit", click.prompt("new input", default=clean(action.tool_input), err=True))
    while True:
        text = click.prompt("new input, as JSON", default=json.dumps(action.tool_input), err=True)
        try:
            values = json.loads(text)
        except ValueError as error:
            click.secho(f"not JSON: {error}", fg="yellow", err=True)
            continue
        if isinstance(values, dict):
            return Decision("edit", values)
        click.secho("want a JSON object", fg="yellow", err=True)


async def _in_thread(work: Callable[[], Decision]) -> Decision | None:
    """Return the result of `work`, or `None` if the person left. Its daemon thread does not keep the process alive if
    the run is cancelled meanwhile."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Decision | None] = loop.create_future()

    def settle(decision: Decision | None) -> None:
        if not done.done():
            done.set_result(decision)

    def run() -> None:
        decision = None
        try:
            with contextlib.suppress(click.Abort, EOFError):
                decision = work()
        finally:  # whatever happened, nobody may wait forever
            loop.call_soon_threadsafe(settle, decision)

    threading.Thread(target=run, name="person", daemon=True).start()
    return await done
