"""The person at the terminal: lines that they type, and their decisions on actions that need approval."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import click

from ..core.values import AgentAction, Always, Decision
from ..display.terminal import clean

_KEYS = ("a", "w", "e", "r", "m")
_MOST = 65_536  # bytes of a line
_TURN = asyncio.Lock()


async def decide(action: AgentAction, problem: str) -> Decision | None:
    """Return the person's decision on `action`; `None`, which parks the run, without a terminal or if they leave.

    Of several questions at once, one is asked after the other.
    """
    if not sys.stdin.isatty():
        return None
    given = action.tool_input
    shown = clean(given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, indent=2))
    async with _TURN:
        click.secho(f"\n{clean(problem)}:", fg="yellow", bold=True, err=True)
        click.echo("\n  ".join([f"  {clean(action.tool)}", *shown.splitlines()]), err=True)
        with terminal_echo(on=True), suppress(EOFError):
            return await _ask_decision(given)
    return None


async def _ask_decision(given: Any) -> Decision:
    options = "[a]pprove, al[w]ays, [e]dit, [r]eject, give the [m]odel an answer instead"
    while (key := (await _ask(options)).strip().lower()) not in _KEYS:
        click.secho(f"want one of {', '.join(_KEYS)}", fg="yellow", err=True)
    match key:
        case "a":
            return Decision("approve")
        case "w":
            return Decision("approve", always=await _ask_always(given))
        case "r":
            return Decision("reject", message=await _ask("why"))
        case "m":
            return Decision("respond", message=await _ask("what the model is told"))
    if isinstance(given, str):
        return Decision("edit", await _ask(f"new input [{clean(given)}]") or clean(given))
    given = json.dumps(given)
    while True:
        try:
            values = json.loads(await _ask(f"new input, as JSON [{given}]") or given)
        except ValueError as error:
            click.secho(f"not JSON: {error}", fg="yellow", err=True)
            continue
        if isinstance(values, dict):
            return Decision("edit", values)
        click.secho("want a JSON object", fg="yellow", err=True)


async def _ask_always(given: Any) -> Always:
    """Return how much of what is like this call is always approved."""
    names = sorted(given) if isinstance(given, dict) else []
    some = f", or NAME=PATTERN with * ({', '.join(map(clean, names))})" if names else ""
    while said := (await _ask(f"always, with this input [enter], with any [*]{some}")).strip():
        name, equals, pattern = said.partition("=")
        if said == "*":
            return "tool"
        if equals and name.strip() in names:
            return {name.strip(): pattern.strip()}
        click.secho(f"want nothing, *{some}", fg="yellow", err=True)
    return "call"


async def _ask(prompt: str) -> str:
    """Return the line that is typed. Raises `EOFError` if there is none. If the run is cancelled meanwhile, nothing
    waits for the next line, which is then somebody else's."""
    click.echo(f"{prompt}: ", nl=False, err=True)
    if sys.platform == "win32":  # where loops wait for sockets only
        return await asyncio.to_thread(input)
    loop = asyncio.get_running_loop()
    typed = asyncio.Event()
    loop.add_reader(sys.stdin, typed.set)
    try:
        await typed.wait()
    finally:
        loop.remove_reader(sys.stdin)
    line = os.read(sys.stdin.fileno(), _MOST)
    if not line:
        click.echo(err=True)
        raise EOFError
    return line.decode(sys.stdin.encoding or "utf-8", "replace").rstrip("\r\n")


@contextmanager
def terminal_echo(*, on: bool) -> Iterator[None]:
    """Show what is typed within the block, or do not. Does nothing on Windows, and where nobody types."""
    if sys.platform == "win32" or not sys.stdin.isatty():
        yield
        return
    import termios

    before = termios.tcgetattr(sys.stdin)
    changed = termios.tcgetattr(sys.stdin)
    changed[3] = changed[3] | termios.ECHO if on else changed[3] & ~termios.ECHO
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, changed)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
