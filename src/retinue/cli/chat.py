"""`retinue chat`: a conversation with an agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from .._internal.sync_bridge import run_to_completion
from ..agent import Agent
from ..display.run_tree import View
from ..display.terminal import clean
from ..errors import RetinueError, UsageError
from .chat_commands import obey
from .conversation import Conversation
from .error_line import show_error
from .question_agent import AgentOptions, agent_options
from .question_source import Questions, questions
from .run_options import VERBOSE_OPTION, log_option


@click.command("chat")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--agent", help="Which agent of FILE, if it has several.")
@agent_options
@VERBOSE_OPTION
@log_option
@click.pass_context
def command(context: click.Context, /, file: Path | None, agent: str | None, *, verbose: bool, **options: Any) -> int:
    """Talk with an agent of FILE, or with one that can calculate and, with --passages, search.

    Each question is answered with the conversation so far in mind. Alt-Enter, or a backslash at the end of a line,
    begins a new line. Ctrl-C stops an answer, and Ctrl-D leaves. Without a terminal, each line is a question.
    """
    talking = _of_file(context, file, agent) if file else _of_options(agent, options)
    asked = questions()
    conversation = Conversation(talking, View(verbose=verbose, head=not asked.typed))
    if asked.typed:
        tools = ", ".join(tool.name for tool in talking.tools)
        click.secho(f"{talking.name} · {talking.model.name}{f' · {tools}' if tools else ''} · /help", dim=True)
        for question in talking.questions:
            click.secho(f"  {clean(question)}", dim=True)
    return run_to_completion(_talk(conversation, asked))


def _of_file(context: click.Context, file: Path, agent: str | None) -> Agent:
    from ..config.price_file import use_prices
    from ..config.yaml_files import load
    from .approval_prompt import decide

    for name in AgentOptions.__slots__:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = next(one.opts[0] for one in context.command.params if one.name == name)
            raise UsageError(f"{option} is for a chat without a file; {file} says it of its agents")
    use_prices(beside=file)
    found: Agent = load(file, "agents", agent, human=decide)
    return found


def _of_options(agent: str | None, options: dict[str, Any]) -> Agent:
    if agent is not None:
        raise UsageError("--agent names an agent of a file: retinue chat FILE --agent NAME")
    return AgentOptions(**options).agent()


async def _talk(conversation: Conversation, asked: Questions) -> int:
    """Answer questions and obey commands, as long as there are any. Return 0 if a person asked them, or the last one
    was answered."""
    answered = True
    async for text in asked:
        if text.startswith("/"):
            if not _obeyed(text, conversation):
                break
        else:
            answered = await _answered(text, conversation)
    return 0 if answered or asked.typed else 1


def _obeyed(text: str, conversation: Conversation) -> bool:
    """Return whether the chat goes on after a command."""
    try:
        return obey(text, conversation)
    except UsageError as error:
        show_error(str(error))
        return True


async def _answered(text: str, conversation: Conversation) -> bool:
    try:
        return await conversation.ask(text)
    except RetinueError as error:
        show_error(str(error))
        return False
