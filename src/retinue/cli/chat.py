"""`retinue chat`: a conversation with an agent."""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click
from click.core import ParameterSource

from .._internal.message_text import suggest_name
from .._internal.sync_bridge import run_to_completion
from ..agent import Agent, Run
from ..config.agent_code import Target
from ..core.values import Message
from ..display.run_tree import RunTree, View
from ..display.terminal import clean, put
from ..errors import RetinueError, UsageError
from ..memory.recall import recall_history, remember, without_turns
from .ask import AgentOptions, agent_options, load_agent
from .chat_input import Lines, Typed, open_questions
from .option_types import AGENTS
from .output import show_error
from .person import terminal_echo
from .run_output import VERBOSE_OPTION, log_option, show_run


@click.command("chat")
@click.argument("file", type=AGENTS, required=False)
@click.option("--agent", help="Which agent of FILE, if it has several.")
@agent_options
@VERBOSE_OPTION
@log_option
@click.pass_context
def command(context: click.Context, /, file: Target | None, agent: str | None, *, verbose: bool, **options: Any) -> int:
    """Talk with an agent of FILE, or with one that can calculate and, with --passages, search.

    Each question is answered with the conversation so far in mind. Alt-Enter, or a backslash at the end of a line,
    begins a new line. Ctrl-C stops an answer, and Ctrl-D leaves. Without a terminal, each line is a question.
    """
    for option in context.command.params if file else ():
        if option.name in options and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE:
            raise UsageError(f"{option.opts[0]} is for a chat without a file; {file} says it of its agents")
    if agent is not None and not file:
        raise UsageError("--agent names an agent of a file: retinue chat FILE --agent NAME")
    talking = load_agent(file, agent) if file else AgentOptions(**options).agent()
    asked = open_questions()
    conversation = Conversation(talking, View(verbose=verbose, head=not asked.typed))
    if asked.typed:
        tools = ", ".join(tool.name for tool in talking.tools)
        click.secho(f"{talking.name} · {talking.model.name}{f' · {tools}' if tools else ''} · /help", dim=True)
        for question in talking.questions:
            click.secho(f"  {clean(question)}", dim=True)
    return run_to_completion(_talk(conversation, asked))


async def _talk(conversation: Conversation, asked: Lines | Typed) -> int:
    """Answer questions and obey commands, as long as there are any. Return 0 if a person asked them, or the last one
    was answered."""
    answered = True
    async for text in asked:
        try:
            if not text.startswith("/"):
                answered = False
                answered = await conversation.ask(text)
            elif not conversation.obey(text):
                break
        except RetinueError as error:
            show_error(str(error))
    return 0 if answered or asked.typed else 1


class Turn(NamedTuple):
    """A question and its answer."""

    question: str
    answer: str


class Conversation:
    """An agent, and the questions that it answered so far. A question without an answer is none of its turns."""

    def __init__(self, agent: Agent, view: View) -> None:
        self._memories = agent.memories
        self._agent = agent.with_memory(()) if agent.memories else agent  # so that no turn is told twice
        self._last: Run | None = None
        self._turns: list[Turn] = []
        self._thread = uuid.uuid4().hex  # whose files each run finds again
        self._view = view

    async def ask(self, question: str) -> bool:
        """Answer a question and show the run. Return whether it is answered. Raises `RetinueError` if the run
        cannot begin, or the model never replies."""
        history = list(self._history())
        if self._memories:
            found = await recall_history(self._memories, question)
            history = [*without_turns(found, history), *history]
        self._last = run = self._agent.start(question, history=history, thread=self._thread)
        with terminal_echo(on=False):
            await show_run(run, self._view)
        await remember(self._memories, run.log)
        if run.result.text:
            self._turns.append(Turn(question, run.result.text))
        return run.result.answered

    def _history(self) -> Iterator[Message]:
        for turn in self._turns:
            yield Message("user", turn.question)
            yield Message("assistant", turn.answer)

    def obey(self, text: str) -> bool:
        """Do what a line says that begins with a slash. Return whether the chat goes on. Raises `UsageError`."""
        name, _, words = text.partition(" ")
        if name not in _COMMANDS:
            raise UsageError(f"no command {clean(name)!r}; {suggest_name(name, _COMMANDS)}")
        _, _, work = _COMMANDS[name]
        if work is not None:
            work(self, words.strip())
        return work is not None

    def help(self, words: str) -> None:
        """Say what can be typed."""
        for name, (argument, says, _) in _COMMANDS.items():
            click.echo(f"  {f'{name} {argument}':<11} {says}")
        click.secho(
            "  Alt-Enter, or a backslash at the end of a line, begins a new line. Ctrl-C stops an answer.", dim=True
        )

    def begin_anew(self, words: str) -> None:
        """Forget the turns. What the agent remembers by its memories stays."""
        self._turns.clear()
        click.secho("a new conversation", dim=True)

    def show_last(self, words: str) -> None:
        """Show the last run with all its texts in full."""
        if self._last is None or not self._last.log:
            raise UsageError("nothing was asked yet")
        view = replace(self._view, most=0, head=True)
        RunTree(sys.stdout, partial(put, sys.stdout), view).show_result(self._last.result)

    def switch_verbose(self, words: str) -> None:
        """Show prompts and replies from now on, or no longer."""
        self._view = replace(self._view, verbose=not self._view.verbose)
        shown = "are shown word for word" if self._view.verbose else "are not shown"
        click.secho(f"prompts and replies {shown} from now on", dim=True)

    def save(self, words: str) -> None:
        """Save the conversation in a new file."""
        if not words:
            raise UsageError("say where: /save conversation.md, or /save conversation.json")
        path = Path(words).expanduser()
        try:
            with path.open("x", encoding="utf-8", errors="replace") as file:
                file.write(self._to_json() if path.suffix == ".json" else self._to_markdown())
        except FileExistsError as error:
            raise UsageError(f"{words} exists; give another name") from error
        except OSError as error:
            raise UsageError(f"{words} cannot be written: {error.strerror}") from error
        click.secho(f"saved in {words}", dim=True)

    def _to_json(self) -> str:
        turns = [turn._asdict() for turn in self._turns]
        return json.dumps({"agent": self._agent.name, "turns": turns}, ensure_ascii=False, indent=2) + "\n"

    def _to_markdown(self) -> str:
        return "\n".join(
            f"**You:** {clean(turn.question)}\n\n**{self._agent.name}:** {clean(turn.answer)}\n" for turn in self._turns
        )


_COMMANDS: dict[str, tuple[str, str, Callable[[Conversation, str], None] | None]] = {
    "/help": ("", "show this", Conversation.help),
    "/new": ("", "begin a new conversation", Conversation.begin_anew),
    "/trace": ("", "show the whole last run, with its texts in full", Conversation.show_last),
    "/verbose": ("", "show prompts and replies word for word, or no longer", Conversation.switch_verbose),
    "/save": ("FILE", "save the conversation: as JSON if FILE ends in .json, else as Markdown", Conversation.save),
    "/quit": ("", "leave, as Ctrl-D does", None),
}
