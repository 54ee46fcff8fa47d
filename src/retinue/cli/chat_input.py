"""Where the questions of a chat come from: a person at a terminal, who edits lines, or standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import click

from .._internal.files import find_state_folder
from ..errors import UsageError

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import History
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

_MISSING = "chatting at a terminal needs the extra 'chat': pip install 'retinue[chat]' (lines from a pipe do not)"


def open_questions() -> Lines | Typed:
    """Return the questions of standard input. Raises `UsageError` at a terminal without the extra."""
    return Typed() if sys.stdin.isatty() and sys.stdout.isatty() else Lines()


class Lines:
    """Each line of standard input that is not blank is a question."""

    typed = False

    async def __aiter__(self) -> AsyncIterator[str]:
        for line in sys.stdin:
            if line.strip():
                yield line.strip()


class Typed:
    """A person types the questions. Raises `UsageError` without the extra."""

    typed = True

    def __init__(self) -> None:
        try:
            from prompt_toolkit import PromptSession
        except ModuleNotFoundError as error:
            raise UsageError(_MISSING) from error
        self._session: PromptSession[str] = PromptSession(
            history=_history(), key_bindings=_keys(), multiline=True, prompt_continuation="  "
        )

    async def __aiter__(self) -> AsyncIterator[str]:
        """Yield what is typed, until Ctrl-D, or Ctrl-C twice at an empty prompt."""
        encoding = sys.stdout.encoding or "ascii"
        sign = "› ".encode(encoding, "replace").decode(encoding).replace("?", ">")
        leaves = False
        while True:
            click.echo()
            try:
                text = await self._session.prompt_async(sign)
            except EOFError:
                return
            except _Interrupted as interrupted:
                if interrupted.empty and leaves:
                    return
                leaves = interrupted.empty
                if leaves:
                    click.secho("Ctrl-C again, or Ctrl-D, leaves", dim=True)
                continue
            leaves = False
            if text.strip():
                yield text.strip()


class _Interrupted(Exception):
    """Ctrl-C was pressed; `empty`: when nothing was typed."""

    def __init__(self, *, empty: bool) -> None:
        self.empty = empty


def _keys() -> KeyBindings:
    """Return the keys that mean something else than usual: Enter ends a question of any number of lines."""
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.is_cursor_at_the_end and buffer.text.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-c")
    def _(event: KeyPressEvent) -> None:
        event.app.exit(exception=_Interrupted(empty=not event.current_buffer.text))

    return keys


def _history() -> History:
    """Return the history of what was typed, which only the user can read; of this chat alone if it cannot be kept."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    path = find_state_folder() / "chat_history"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))
