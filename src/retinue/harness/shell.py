"""The tool `run_command`: a shell in a sandbox, with the files of the workspace as its folder.

A command that only reads gets them read-only, so that it may be repeated after a crash. Any other is `once`: if it is
unknown whether it ran to its end, a person decides. A command that fails has run: its exit code is a result."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from .._internal.concurrency import run_in_thread
from ..core.run_context import RunContext, change_key
from ..core.tools.result import ToolReturn
from ..core.tools.tool import Tool
from ..core.workspace import ChangedFile, Workspace, WorkspaceChange
from ..errors import NotDone, ToolError, UsageError
from .checkout import Checkout, check_out
from .command_effects import find_effects
from .sandbox import Sandbox

_LISTED, _LEFT = 40, 10  # files that a result names: changed ones, and those that are not kept
_SECONDS = 60.0  # of a command, unless the model says otherwise
_Seconds = Annotated[float, Field(gt=0)]
Mounts = Mapping[str, Callable[[], Path]]
SHELL_WORDS = (
    "run_command runs shell commands in a sandbox, in the folder of the workspace. Each starts anew: what it started "
    "ends with it, and only the files of the workspace stay (no links, no empty folders)."
)


def make_run_command(sandbox: Sandbox = Sandbox(), mounts: Mounts | None = None) -> Tool:
    """Return the tool `run_command` with these limits. `mounts` give folders that commands find, read-only, at paths
    of the workspace; one that raises `UsageError` refuses the command."""

    async def run_command(command: str, seconds: _Seconds = _SECONDS, *, context: RunContext[Any]) -> ToolReturn:
        if context.workspace is None:
            raise NotDone("this agent has no workspace, in which commands run: give it Harness(workspace=True)")
        return await run_in_workspace(context.workspace, command, seconds, sandbox, mounts or {}, context.report)

    run_command.needs_workspace = True  # type: ignore[attr-defined]
    network = f"It reaches {', '.join(sandbox.network)} over HTTPS" if sandbox.network else "It has no network"
    return Tool(
        "run_command",
        run_command,
        "Run a shell command in the folder of the workspace, in a sandbox. The result is its exit code, its output and "
        f"which files it changed. {network}, and no terminal. Whatever it starts ends with it, after `seconds` at the "
        f"latest (at most {sandbox.seconds:g}).",
        effects="once",
        effects_of=find_effects,
        timeout=math.inf,  # the sandbox has its own
        polls=True,
        max_result=int(sandbox.output) + 8_000,
    )


async def run_in_workspace(
    workspace: Workspace,
    command: str,
    seconds: float,
    sandbox: Sandbox,
    mounts: Mounts,
    tell: Callable[[str], None] | None = None,
) -> ToolReturn:
    """Run a command with the files of a workspace, and keep what it changed as one version. Raises `NotDone` if it was
    not run."""
    changes = find_effects({"command": command}) != "read"
    async with check_out(workspace, int(sandbox.disk)) as checkout:
        try:
            folders = {path: await run_in_thread(find_folder) for path, find_folder in mounts.items()}
        except (UsageError, OSError) as error:
            raise NotDone(f"the command was not run: {error}") from error
        end = await sandbox.run(command, checkout.base, seconds=seconds, changes=changes, mounts=folders, tell=tell)
        stopped = f"Stopped: {end.stopped}. " if end.stopped else ""
        said = [f"{stopped}Exit code {end.exit} after {end.seconds:.1f} s.", end.output.strip("\n")]
        data: dict[str, Any] = {"command": {"exit": end.exit, "seconds": end.seconds, "cut": end.left_out > 0}}
        if changes:
            change, left = await _keep_changes(workspace, checkout, sandbox)
            files = [] if change is None else [_describe_file(one) for one in change.files]
            said += [_list_some("Files changed", files, _LISTED), _list_some("Not kept", left, _LEFT)]
            data |= {"workspace": change.data} if change is not None else {}
    return ToolReturn("\n".join(filter(None, said)), data)


async def _keep_changes(
    workspace: Workspace, checkout: Checkout, sandbox: Sandbox
) -> tuple[WorkspaceChange | None, list[str]]:
    """Make what a command changed a version of the workspace. Return it, and what is not kept, with the reasons."""
    problem = await run_in_thread(sandbox.find_excess, checkout.base)
    if not problem:
        changed, left = await run_in_thread(checkout.collect)
        # With a key of its own: a command that a person lets run again has run again, and its files are those of now.
        key = f"{change_key()}/{secrets.token_hex(4)}"
        try:
            change = await workspace.change_files(changed, key) if changed else None
        except (UsageError, ToolError) as error:
            problem = str(error)
        else:
            checkout.accept(changed, change.version if change is not None else 0)
            return change, left
    checkout.is_spoilt = True
    return None, [f"all that it changed, since {problem}; the files are as they were before"]


def _describe_file(file: ChangedFile) -> str:
    return f"{file.path} ({'removed' if file.size is None else f'{file.size:,} bytes'})"


def _list_some(title: str, items: Sequence[str], most: int) -> str:
    more = f" and {len(items) - most:,} more" if len(items) > most else ""
    return f"{title}: {', '.join(items[:most])}{more}." if items else ""


run_command = make_run_command()
