"""What can be typed in a chat beside questions."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import click

from .._internal.message_text import suggest_name
from ..display.terminal import clean
from ..errors import UsageError
from .conversation import Conversation

_KEYS = "Alt-Enter, or a backslash before Enter, begins a new line. Ctrl-C stops a run."
Work = Callable[[Conversation, str], bool]


def obey(text: str, conversation: Conversation) -> bool:
    """Do what a line says that begins with a slash. Return whether the chat goes on. Raises `UsageError`."""
    name, _, words = text.partition(" ")
    if name not in _WORK:
        raise UsageError(f"no command {clean(name)!r}; {suggest_name(name, _WORK)}")
    return _WORK[name](conversation, words.strip())


def _help(conversation: Conversation, words: str) -> bool:
    for name, says in _HELP.items():
        click.echo(f"  {name:<11} {says}")
    click.secho(
        "  Alt-Enter, or a backslash at the end of a line, begins a new line. Ctrl-C stops an answer.", dim=True
    )
    return True


def _new(conversation: Conversation, words: str) -> bool:
    conversation.begin_anew()
    click.secho("a new conversation", dim=True)
    return True


def _trace(conversation: Conversation, words: str) -> bool:
    if not conversation.show_last(sys.stdout):
        raise UsageError("nothing was asked yet")
    return True


def _verbose(conversation: Conversation, words: str) -> bool:
    conversation.view = replace(conversation.view, verbose=not conversation.view.verbose)
    shown = "are shown word for word" if conversation.view.verbose else "are not shown"
    click.secho(f"prompts and replies {shown} from now on", dim=True)
    return True


def _save(conversation: Conversation, words: str) -> bool:
    if not words:
        raise UsageError("say where: /save conversation.md, or /save conversation.json")
    path = Path(words).expanduser()
    text = _as_json(conversation) if path.suffix == ".json" else _as_markdown(conversation)
    try:
        with path.open("x", encoding="utf-8", errors="replace") as file:
            file.write(text)
    except FileExistsError as error:
        raise UsageError(f"{words} exists; give another name") from error
    except OSError as error:
        raise UsageError(f"{words} cannot be written: {error.strerror}") from error
    click.secho(f"saved in {words}", dim=True)
    return True


def _quit(conversation: Conversation, words: str) -> bool:
    return False


def _as_json(conversation: Conversation) -> str:
    turns = [turn._asdict() for turn in conversation.turns]
    return json.dumps({"agent": conversation.agent, "turns": turns}, ensure_ascii=False, indent=2) + "\n"


def _as_markdown(conversation: Conversation) -> str:
    said = [f"**You:** {clean(turn.question)}\n\n**{conversation.agent}:** {clean(turn.answer)}\n"
            for turn in conversation.turns]  # fmt: skip
    return "\n".join(said)


_HELP: Mapping[str, str] = {
    "/help": "show this",
    "/new": "begin a new conversation",
    "/trace": "show the whole last run, with its texts in full",
    "/verbose": "show prompts and replies word for word, or no longer",
    "/save FILE": "save the conversation: as JSON if FILE ends in .json, else as Markdown",
    "/quit": "leave, as Ctrl-D does",
}
_WORK: Mapping[str, Work] = {
    "/help": _help,
    "/new": _new,
    "/trace": _trace,
    "/verbose": _verbose,
    "/save": _save,
    "/quit": _quit,
}
