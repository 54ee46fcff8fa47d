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
from .typed_lines import TypedLines, typed_lines

_KEYS = ("a", "e", "r", "m")
_TURN = asyncio.Lock()


async def decide(action: AgentAction, problem: str) -> Decision | None:
    """Return the person's decision on `action`; `None`, which parks the run, without a terminal.

    Of several questions at once, one is asked after the other.
    """
    if not sys.stdin.isatty():
        return None
    async with _TURN:
        click.secho(f"\n{clean(problem)}:", fg="yellow", bold=True, err=True)
        click.echo(f"  {clean(action.tool)}\n{_shown(action.tool_input)}", err=True)
        with typed_lines() as typed:
            return await _in_thread(partial(_ask, action, typed))


def _shown(tool_input: Any) -> str:
    text = tool_input if isinstance(tool_input, str) else json.dumps(tool_input, ensure_ascii=False, indent=2)
    return "\n".join(f"  {line}" for line in clean(text).splitlines())


def _ask(action: AgentAction, typed: TypedLines) -> Decision:
    options = "[a]pprove, [e]dit, [r]eject, give the [m]odel an answer instead"
    while (key := typed.ask(options).strip().lower()) not in _KEYS:
        click.secho(f"want one of {', '.join(_KEYS)}", fg="yellow", err=True)
    if key == "a":
        return Decision("approve")
    if key == "r":
        return Decision("reject", message=typed.ask("why"))
    if key == "m":
        return Decision("respond", message=typed.ask("what the model is told"))
    if isinstance(action.tool_input, str):
        given = clean(action.tool_input)
        return Decision("edit", typed.ask(f"new input [{given}]") or given)
    while True:
        given = json.dumps(action.tool_input)
        try:
            values = json.loads(typed.ask(f"new input, as JSON [{given}]") or given)
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
