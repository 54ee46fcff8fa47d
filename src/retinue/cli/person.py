"""The person at the terminal: lines that they type, and their decisions on actions that need approval."""

from __future__ import annotations

import asyncio
import json
import os
import select
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click

from ..core.values import AgentAction, Decision
from ..display.terminal import clean

_KEYS = ("a", "e", "r", "m")
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
        with _typed_lines() as typed:
            return await _ask_in_thread(action, typed)


async def _ask_in_thread(action: AgentAction, typed: _TypedLines) -> Decision | None:
    """Ask in a daemon thread, which does not keep the process alive if the run is cancelled meanwhile."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Decision | None] = loop.create_future()

    def settle(decision: Decision | None) -> None:
        if not done.done():
            done.set_result(decision)

    def ask() -> None:
        decision = None
        try:
            with suppress(click.Abort, EOFError):
                decision = _ask(action, typed)
        finally:  # whatever happened, nobody may wait forever
            loop.call_soon_threadsafe(settle, decision)

    threading.Thread(target=ask, name="person", daemon=True).start()
    return await done


def _ask(action: AgentAction, typed: _TypedLines) -> Decision:
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


class _TypedLines:
    """Asks for lines in another thread; `interrupted` becomes readable when none is wanted any more.

    A thread that waits for a line cannot be stopped otherwise, and would take the next line from whoever asks then.
    """

    def __init__(self, interrupted: int) -> None:
        self._interrupted = interrupted

    def ask(self, prompt: str) -> str:
        """Return the line typed. Raises `click.Abort` if there is no more, or none is wanted any more."""
        click.echo(f"{prompt}: ", nl=False, err=True)
        if sys.platform == "win32":  # where only sockets can be waited for
            return input()
        here = sys.stdin.fileno()
        ready, _, _ = select.select([here, self._interrupted], [], [])
        line = os.read(here, _MOST) if self._interrupted not in ready else b""
        if not line:
            click.echo(err=True)
            raise click.Abort
        return line.decode(sys.stdin.encoding or "utf-8", "replace").rstrip("\r\n")


@contextmanager
def _typed_lines() -> Iterator[_TypedLines]:
    """Lines may be asked for within the block; its end interrupts who waits for one."""
    interrupted, interrupting = os.pipe()
    try:
        with terminal_echo(on=True):
            yield _TypedLines(interrupted)
    finally:
        os.close(interrupting)  # so the other end is at its end, which `select` notices


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
