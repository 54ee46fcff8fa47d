"""`Harness`: which of the pieces for long work an agent has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.tools.tool import Tool
from ..errors import UsageError
from .folder_workspace import FolderWorkspace, temporary_workspace

if TYPE_CHECKING:
    from .helpers import Helpers
    from .sandbox import Sandbox
    from .skills import Skill


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Harness:
    """The pieces for long work. `Harness()` has all of them; each can be had alone.

    Args:
        workspace: Where the files of a run are: `True`, where the run is kept; a path, in this folder (only in
            process); `False`, nowhere.
        shell: Whether it runs commands, in a `Sandbox` of the default limits, or of these; needs a workspace.
        skills: Folders, each of which is a skill or has some beneath (docs/skills.md).
        pins: The file of approved skills (`retinue.pins.json`), written by `retinue skills pin`. A skill that is not as
            it was approved there is refused. Without it, skills are trusted as they are first read.
        agents_files: Files of the workspace that a model is shown as a run begins, as notes that are not the user's
            words: `("AGENTS.md",)`.
        todos: Whether the model keeps a list of what is to do, which people see.
        helpers: Whether it gives tasks to helpers; `Helpers` says how many.

    Raises `UsageError` for a shell without a workspace, and `DataError` for skills that cannot be used, with all
    problems, one a line.
    """

    workspace: bool | str | Path = True
    shell: bool | Sandbox = True
    skills: str | Path | Sequence[str | Path] = ()
    pins: str | Path | None = None
    agents_files: str | Sequence[str] = ()
    todos: bool = True
    helpers: bool | Helpers = True
    found_skills: tuple[Skill, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.shell is not False and self.workspace is False:
            raise UsageError("harness: the shell runs commands in a workspace: give it one, or say shell=False")
        for name in ("skills", "agents_files"):
            given = getattr(self, name)
            object.__setattr__(self, name, (given,) if isinstance(given, str | Path) else tuple(given))
        object.__setattr__(self, "found_skills", self._find_skills() if self.skills else ())

    def _find_skills(self) -> tuple[Skill, ...]:
        from .skills import load_skills

        return load_skills(self.skills, None if self.pins is None else Path(self.pins))  # type: ignore[arg-type]

    @property
    def tools(self) -> list[Tool]:
        """The tools of its pieces."""
        from .pieces import list_tools  # which are imported when an agent has them

        return list_tools(self.workspace is not False, self.shell, self.found_skills, self.todos, self.helpers)

    @property
    def instructions(self) -> str:
        """What a model is told of its pieces, beyond the descriptions of the tools."""
        from .pieces import write_instructions

        return write_instructions(self.workspace is not False, self.shell is not False, self.found_skills)

    @property
    def folder(self) -> Path | None:
        """The folder that is the workspace, if one is."""
        return None if isinstance(self.workspace, bool) else Path(self.workspace)


def read_harness(given: Harness | bool | None) -> Harness | None:
    """Return the harness that an agent is given; `True` is one with all pieces."""
    return (Harness() if given else None) if isinstance(given, bool) else given


def wants_workspace(harness: Harness | None, tools: Iterable[Tool]) -> bool:
    """Whether an agent has a workspace: by its harness, or by one of the tools alone."""
    own = any(getattr(tool.something, "needs_workspace", False) for tool in tools)
    return own or (harness is not None and harness.workspace is not False)


def open_folder(harness: Harness | None, owner: object, name: str, version: int) -> FolderWorkspace:
    """Return the workspace of a run where nothing is stored: the folder of its agent, or a temporary one of this
    `name`. `version` is that of an earlier drive. Raises `UsageError` if there can be none."""
    if harness is not None and harness.folder is not None:
        return FolderWorkspace(harness.folder, version)
    return temporary_workspace(harness or owner, name)
