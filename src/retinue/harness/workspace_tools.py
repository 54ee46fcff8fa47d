"""The tools of a workspace: list, read, write, edit and search its files. What a model is shown is bounded, and says
how to read on. Files may change between equal calls, so no earlier result is reused (`polls`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from fnmatch import fnmatchcase
from typing import Any, Literal

from .._internal.concurrency import run_in_thread
from ..core.run_context import change_key, current_run
from ..core.schema.json_schema import compile_pattern
from ..core.tools.result import ToolReturn, take_file
from ..core.tools.tool import tool
from ..core.workspace import Workspace, WorkspaceChange, WorkspaceFile, normalize_path
from ..errors import DataError, NotDone

WORKSPACE_WORDS = (
    "You have a workspace: files under relative paths, which stay there between your steps. What users upload is in "
    "uploads/. Results that are longer than a screen belong in files."
)
_SHOWN, _MOST = 16_000, 17_000  # characters of what a model is shown at a time, with what is said about it
_LISTED, _FOUND, _WIDE = 400, 100, 400  # files; places; characters of a line that was found
_AT_ONCE, _SEARCHED = 100, 1_000_000  # files that are read together; bytes of one that is searched
_COMPARED, _BEGINNING, _LIKE = 2_000, 100, 0.5  # lines that are compared, their characters, and what is like another


@tool(effects="read", polls=True, max_result=_MOST)
async def list_files(folder: str = "") -> str:
    """List the files of the workspace with their sizes in bytes; of all folders, or of one."""
    below = f"{normalize_path(folder)}/" if folder.strip("./ ") else ""
    found = [one for one in await _find_workspace().list_files() if one.path.startswith(below)]
    found.sort(key=lambda one: ("/." in f"/{one.path}", one.path))  # hidden ones last
    lines = [f"{one.path} ({one.size:,})" for one in found[:_LISTED]]
    more = f"… {{}} of {len(found):,} files are shown: name a folder, or use search_files"
    return _join(lines, more, len(found)) or (f"There are no files in {below}." if below else "There are no files yet.")


@tool(effects="read", polls=True, max_result=_MOST)
async def read_file(path: str, first_line: int = 1, last_line: int | None = None) -> str:
    """Read a text file of the workspace, or some of its lines (the first is 1); look at an image or a PDF."""
    content = await _find_workspace().read_file(path)
    if (text := _decode(content)) is None:
        return take_file(content, path)
    lines = text.removesuffix("\n").split("\n")
    if not 1 <= first_line <= len(lines):
        raise NotDone(f"{path} has the lines 1 to {len(lines):,}, and no line {first_line:,}")
    wanted = lines[first_line - 1 : max(first_line, last_line or len(lines))]
    more = f"… {path} has {len(lines):,} lines, of which {first_line:,} to {{}} are shown"
    return _join(wanted, more, len(wanted), first_line - 1) or "(The file is empty.)"


@tool(effects="idempotent", polls=True)
async def write_file(path: str, content: str) -> ToolReturn:
    """Write a file of the workspace as a whole; what it had before is replaced."""
    written = content.encode("utf-8", "replace")
    return _describe(await _find_workspace().change_files({path: written}, change_key()), f"{path} is written.")


@tool(effects="idempotent", polls=True)
async def edit_file(path: str, old: str, new: str) -> ToolReturn:
    """Replace a text in a file of the workspace. `old` must occur exactly once, with the same blanks and line ends."""
    workspace, key = _find_workspace(), change_key()
    change = await workspace.find_change(key)
    if change is None:  # else an earlier drive of this run made it, and died
        if (text := _decode(await workspace.read_file(path))) is None:
            raise NotDone(f"{path} is no text, so it cannot be edited")
        if "\r\n" in text and "\r" not in old:
            old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
        if problem := await run_in_thread(_find_problem, text, old, new):
            raise NotDone(f"{path} is not changed: {problem}")
        change = await workspace.change_files({path: text.replace(old, new).encode("utf-8", "replace")}, key)
    return _describe(change, f"{path} is changed.")


@tool(effects="read", polls=True, max_result=_MOST)
async def search_files(pattern: str, among: Literal["contents", "names"] = "contents", files: str = "*") -> str:
    """Search the workspace: for lines that match a regular expression (RE2, such as `def \\w+_file|TODO`), in the
    files whose names match `files` (such as `*.py`); or, among names, for files such as `*test*`."""
    workspace = _find_workspace()
    there = [one for one in await workspace.list_files() if _matches(one.path, files)]
    if among == "names":
        found = [one.path for one in there if _matches(one.path, pattern)]
    else:
        found = await _search(workspace, [one for one in there if one.size <= _SEARCHED], pattern)
    more = "… there is more: {} are shown; say more exactly what you look for"
    return _join(found[:_FOUND], more, len(found)) or f"Nothing matches in {len(there):,} files."


WORKSPACE_TOOLS = (list_files, read_file, write_file, edit_file, search_files)
for _one in WORKSPACE_TOOLS:
    _one.something.needs_workspace = True


def _find_workspace() -> Workspace:
    if (workspace := current_run().workspace) is None:
        raise NotDone("this run has no workspace")
    return workspace


def _describe(change: WorkspaceChange, text: str) -> ToolReturn:
    return ToolReturn(text, {"workspace": change.data})


def _decode(content: bytes) -> str | None:
    """Return the text of a file, or `None` if it is none."""
    try:
        return None if b"\0" in content else content.decode()
    except UnicodeDecodeError:
        return None


def _join(lines: Sequence[str], more: str, total: int, before: int = 0) -> str:
    """Return as many lines as are shown at a time, and after them `more` with the number of the last one, if there are
    further ones of `total`."""
    shown, room = list[str](), _SHOWN
    for line in lines:
        if room < len(line) and shown:
            break
        cut = f" … ({len(line) - room:,} more characters of this line)" if len(line) > room else ""
        shown.append(line[:room] + cut)
        room -= len(line) + 1
    further = [more.format(f"{before + len(shown):,}")] if len(shown) < total else []
    return "\n".join([*shown, *further])


def _find_problem(text: str, old: str, new: str) -> str:
    """Return why `old` cannot be replaced in `text`, or an empty string."""
    if not old or old == new:
        return "`old` is empty" if not old else "`old` and `new` are the same"
    parts = text.split(old)
    if len(parts) > 2:
        places = [f"{old.join(parts[:at]).count(chr(10)) + 1:,}" for at in range(1, min(len(parts), 11))]
        return f"`old` occurs {len(parts) - 1:,} times, in lines {', '.join(places)}: give more of the text around it"
    there = " `new` is in it already." if new and new in text else ""
    return "" if len(parts) == 2 else f"`old` occurs 0 times.{there}{_show_nearest(text, old)}"


def _show_nearest(text: str, old: str) -> str:
    """Return where in a text a line is most like the first one of `old`, and what is there."""
    lines, wanted = text.splitlines(), old.strip().splitlines()
    matcher = SequenceMatcher(b=wanted[0].strip()[:_BEGINNING] if wanted else "", autojunk=False)
    best, place = _LIKE, -1
    for at, line in enumerate(lines[:_COMPARED]):
        matcher.set_seq1(line.strip()[:_BEGINNING])
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and (like := matcher.ratio()) > best:
            best, place = like, at
    if place < 0:
        return " Nothing in it is like that: read the file."
    shown = [line[:_WIDE] for line in lines[place : place + min(len(wanted), 20)]]
    return f" The nearest is in lines {place + 1:,} to {place + len(shown):,}:\n" + "\n".join(shown)


def _matches(path: str, pattern: str) -> bool:
    """Whether a path, or the name at its end, is like a pattern of file names."""
    return fnmatchcase(path, pattern) or fnmatchcase(path.rpartition("/")[2], pattern)


async def _search(workspace: Workspace, files: Sequence[WorkspaceFile], pattern: str) -> list[str]:
    """Return the lines that match, at least one more than are shown if there are more. RE2 takes time in proportion to
    the text, whatever a model asks for."""
    try:
        matcher = compile_pattern(pattern)
    except DataError as error:
        raise NotDone(str(error)) from error
    found: list[str] = []
    for start in range(0, len(files), _AT_ONCE):
        contents = await workspace.read_files([one.path for one in files[start : start + _AT_ONCE]])
        found += await run_in_thread(lambda some=contents: list(_match_lines(some, matcher)))
        if len(found) > _FOUND:
            break
    return found


def _match_lines(contents: Mapping[str, bytes], matcher: Any) -> Iterator[str]:
    for path, content in contents.items():
        for number, line in enumerate((_decode(content) or "").split("\n"), 1):
            if matcher.search(line):
                yield f"{path}:{number}: {line.strip()[:_WIDE]}"
