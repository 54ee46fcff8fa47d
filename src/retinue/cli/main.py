"""The command's entry point: runs the subcommand, and turns every error into one line and an exit status."""

from __future__ import annotations

import codecs
import io
import json
import logging
import os
import shutil
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Any

import click

from .. import __version__
from .._internal.message_text import find_nearest
from ..errors import RetinueError
from ..telemetry.activation import disable, enable_from_environment
from .output import show_error

_GROUPS = {
    "Ask": {
        "ask": "Answer a question with an agent that calculates and searches.",
        "run": "Answer a question with an agent of a file.",
        "chat": "Talk with an agent.",
        "trace": "Show a past run, or one in progress.",
        "eval": "Learn how good agents are, on a dataset of questions.",
    },
    "Write a file of agents": {
        "init": "Create a folder of agents from a template.",
        "check": "List all problems of a file of agents.",
        "tools": "Show an agent's tools as the model sees them.",
        "lock": "Lock and install the packages of a file's tools.",
        "pin": "Review the tools of a file's MCP servers, and approve them.",
        "skills": "List, check and approve agents' skills.",
        "draw": "Draw a pipeline of a file.",
        "schema": "Print the JSON Schema of files of agents.",
    },
    "Models, and texts to search": {
        "models": "List, fetch and remove model weights.",
        "index": "Make a folder's files searchable for agents.",
        "search": "Search an index.",
    },
    "Serve": {
        "serve": "Serve a file's agents and pipelines to OpenAI clients.",
        "worker": "Drive the runs of servers that share a database.",
        "up": "Try a file on a cluster on this machine.",
        "studio": "Look at the runs of a database in a browser.",
        "mcp": "Serve a file's agents, pipelines or tools to MCP clients.",
    },
    "Look after a server": {
        "runs": "List a server's runs; cancel, resume, fork, replay and keep them.",
        "keys": "Make, list and revoke API keys of a server.",
        "secrets": "Set secrets of users, which tools use for them.",
        "quotas": "Limit what tenants use, and see what they used.",
        "policies": "See and revoke what people always allow users' agents.",
        "audit": "See who did what, and check the log of it.",
        "database": "Migrate, back up and restore a server's database.",
    },
}
_RECORDED = ("ask", "run", "chat", "eval", "serve", "worker", "mcp")  # by telemetry, if the environment says so
_MODULES = {  # of commands that are not their module's `command`
    **{"run": "ask", "search": "index", "worker": "serve"},
    **dict.fromkeys(("check", "tools", "lock", "pin", "draw", "schema"), "agent_files"),
}
_COMMANDS = {name: says for group in _GROUPS.values() for name, says in group.items()}
_USUAL = 50  # columns, below which click's own layout does not go
_LEAST = 24


class _Layout(click.HelpFormatter):
    """Click's layout of `--help`, in which nothing is wider than a narrow terminal, too."""

    def __init__(self, indent_increment: int = 2, width: int | None = None, max_width: int | None = None) -> None:
        columns = shutil.get_terminal_size().columns - 2
        narrow = max(columns, _LEAST) if columns < _USUAL else None
        super().__init__(indent_increment, width or narrow, max_width)

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write names and what they mean side by side; a name that is too long has a line of its own."""
        super().write_dl(list(rows), col_max if self.width >= _USUAL else self.width // 4, col_spacing)


class _Context(click.Context):
    formatter_class = _Layout


class _Lazy(click.Group):
    """Loads subcommands from the modules beside this one; `--help` imports none of them."""

    context_class = _Context

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            near = find_nearest(cmd_name, _COMMANDS)
            ctx.fail(f"No such command {cmd_name!r}." + (f" Did you mean {near!r}?" if near else ""))
        if cmd_name not in ("serve", "studio", "worker"):  # which have options for logging
            _show_warnings()
        if cmd_name in _RECORDED:
            enable_from_environment(lambda problem: click.echo(f"retinue: {problem}", err=True))
        module = import_module(f".{_MODULES.get(cmd_name, cmd_name)}", __package__)
        command: click.Command = getattr(module, cmd_name if cmd_name in _MODULES else "command")
        command.context_class = _Context
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in _GROUPS.items():
            with formatter.section(title):
                formatter.write_dl(list(commands.items()))


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="retinue")
def cli() -> None:
    """Agents that decide, act and observe, on any language model.

    To begin: retinue ask "What is 15% of 1234?"
    """


def main(arguments: list[str] | None = None) -> int:
    """Run the command line. Return the exit status: 0 for success, 1 for no answer, 2 for a usage error, 130 for
    Ctrl-C."""
    _escape_what_cannot_be_shown()
    try:
        status: Any = cli.main(args=arguments, prog_name="retinue", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return 130
    except RetinueError as error:
        return show_error(str(error))
    except BrokenPipeError:  # the reader of our output is gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:  # a bug of ours; the user gets a line, not a traceback
        if os.environ.get("RETINUE_DEBUG"):
            raise
        return show_error(f"unexpected {type(error).__name__}: {error} (RETINUE_DEBUG=1 shows where; please report it)")
    finally:
        disable()
    return status if isinstance(status, int) else 0


def _escape_what_cannot_be_shown() -> None:
    """Let output in another encoding than UTF-8 escape what that lacks as JSON does, instead of ending the program."""
    codecs.register_error("retinue-escape", _escape)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and codecs.lookup(stream.encoding).name != "utf-8":
            stream.reconfigure(errors="retinue-escape")


def _escape(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def _show_warnings() -> None:
    """Print logged warnings and errors. The commands themselves show the progress of runs."""
    handler = logging.StreamHandler()
    handler.addFilter(lambda record: record.name.startswith("retinue.") and record.name != "retinue.run_log")
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[handler])
