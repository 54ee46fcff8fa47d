"""`Harness`: which of the pieces for long work an agent has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..core.tools.tool import Tool
from ..errors import UsageError
from .folder_workspace import FolderWorkspace, temporary_workspace
from .sandbox import Sandbox
from .shell import SHELL_WORDS, make_run_command, run_command
from .workspace_tools import WORKSPACE_TOOLS, WORKSPACE_WORDS


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Harness:
    """The pieces for long work. `Harness()` has all of them; each can be had alone.

    Args:
        workspace: Where the files of a run are: `True`, where the run is kept; a path, in this folder (only in
            process); `False`, nowhere.
        shell: Whether it runs commands, in a `Sandbox` of the default limits, or of these; needs a workspace.

    Raises `UsageError` for a shell without a workspace.
    """

    workspace: bool | str | Path = True
    shell: bool | Sandbox = True

    def __post_init__(self) -> None:
        if self.shell is not False and self.workspace is False:
            raise UsageError("harness: the shell runs commands in a workspace: give it one, or say shell=False")

    @property
    def tools(self) -> list[Tool]:
        """The tools of its pieces."""
        return [*(WORKSPACE_TOOLS if self.workspace is not False else ()), *self._shell_tools]

    @property
    def instructions(self) -> str:
        """What a model is told of its pieces, beyond the descriptions of the tools."""
        files = WORKSPACE_WORDS if self.workspace is not False else ""
        return "\n".join(filter(None, (files, SHELL_WORDS if self.shell is not False else "")))

    @property
    def _shell_tools(self) -> list[Tool]:
        if isinstance(self.shell, Sandbox):
            return [make_run_command(self.shell)]
        return [run_command] if self.shell else []

    @property
    def folder(self) -> Path | None:
        """The folder that is the workspace, if one is."""
        return None if isinstance(self.workspace, bool) else Path(self.workspace)


def read_harness(given: Harness | bool | None) -> Harness | None:
    """Return the harness that an agent is given; `True` is one with all pieces."""
    return (Harness() if given else None) if isinstance(given, bool) else given


def wants_workspace(harness: Harness | None, tools: Iterable[Tool]) -> bool:
    """Whether an agent has a workspace: by its harness, or by one of the tools alone."""
    own = [one.something for one in WORKSPACE_TOOLS]
    return bool(harness and harness.workspace is not False) or any(
        getattr(tool.something, "needs_workspace", False) or tool.something is one for tool in tools for one in own
    )


def open_folder(harness: Harness | None, owner: object, name: str, version: int) -> FolderWorkspace:
    """Return the workspace of a run where nothing is stored: the folder of its agent, or a temporary one of this
    `name`. `version` is that of an earlier drive. Raises `UsageError` if there can be none."""
    if harness is not None and harness.folder is not None:
        return FolderWorkspace(harness.folder, version)
    return temporary_workspace(harness or owner, name)
