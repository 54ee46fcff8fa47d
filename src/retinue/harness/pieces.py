"""What the pieces of a harness bring: their tools, and what a model is told of them."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.tools.tool import Tool
from .helpers import Helpers
from .sandbox import Sandbox
from .shell import SHELL_WORDS, make_run_command, run_command
from .skills import Skill, describe_skills, make_read_skill
from .todos import write_todos
from .workspace_tools import WORKSPACE_TOOLS, WORKSPACE_WORDS


def list_tools(
    files: bool, shell: bool | Sandbox, skills: Sequence[Skill], todos: bool, helpers: bool | Helpers
) -> list[Tool]:
    """Return the tools of these pieces; `files`: those of a workspace."""
    helpers = Helpers() if helpers is True else helpers
    return [
        *(WORKSPACE_TOOLS if files else ()),
        *([_make_shell(shell, skills)] if shell is not False else ()),
        *([make_read_skill(skills)] if skills else ()),
        *([write_todos] if todos else ()),
        *(helpers.tools if helpers else ()),
    ]


def _make_shell(shell: bool | Sandbox, skills: Sequence[Skill]) -> Tool:
    if shell is True and not skills:
        return run_command
    mounts = {f"skills/{one.name}": one.copy_verified for one in skills}
    return make_run_command(shell if isinstance(shell, Sandbox) else Sandbox(), mounts)


def write_instructions(files: bool, commands: bool, skills: Sequence[Skill]) -> str:
    """Return what a model is told of these pieces, beyond the descriptions of the tools."""
    words = WORKSPACE_WORDS if files else "", SHELL_WORDS if commands else "", describe_skills(skills, mounted=commands)
    return "\n\n".join(filter(None, words))
