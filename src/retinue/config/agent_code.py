"""What a command's FILE names: a file of agents, or Python code with agents (`app.py`, `app.py:agents`,
`package.module:agent`). Code is imported once, as `python app.py` would run it."""

from __future__ import annotations

import ast
import copy
import importlib
import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from .._internal.containment import call_contained, describe_error, is_own_error
from .._internal.message_text import suggest_name
from .._internal.source_text import Problem
from ..agent import Agent
from ..errors import DataError, ForeignExit, UsageError
from ..pipelines import Pipeline
from ..run.handoff import Handoff
from ..teams import MessageGroup

_USUAL = ("agents", "agent", "app")  # what is served of code of which no name is given
_NAME = r"[A-Za-z_]\w*"
_OF_FILE = re.compile(rf"(.+\.py)(?::({_NAME}))?", re.DOTALL)
OF_MODULE = re.compile(rf"({_NAME}(?:\.{_NAME})*):({_NAME})", re.ASCII)
_PACKAGE = Path(__file__).parents[1]
_WANTED = "an Agent, a team, a Pipeline, a list or dict of these, or a function that makes them"
_loading: ContextVar[str] = ContextVar("LOADING", default="")


@dataclass(frozen=True, slots=True)
class Target:
    """A file of agents, or Python code: then it is `code`, of which the `module` is imported (if empty, the file), and
    `name` is what it calls its agents, if that was said."""

    file: Path
    code: bool = False
    module: str = ""
    name: str = ""

    @classmethod
    def parse(cls, text: str | Path) -> Target:
        """Read what follows a command, such as `app.py:agents`. Whether it is there is not looked at."""
        given = str(text)
        if of_file := _OF_FILE.fullmatch(given):
            return cls(Path(of_file[1]), True, name=of_file[2] or "")
        if (of_module := OF_MODULE.fullmatch(given)) and not of_module[1].endswith((".yml", ".yaml")):
            folder = Path(*of_module[1].split("."))
            file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
            return cls(file, True, of_module[1], of_module[2])
        return cls(Path(given))

    def __str__(self) -> str:
        return ":".join(filter(None, (self.module or str(self.file), self.name)))

    @property
    def folder(self) -> Path:
        """The folder that is on `sys.path` while code is imported, and in which the files of agents are."""
        return Path.cwd() if self.module else self.file.resolve().parent


def load_code(target: Target | str | Path) -> dict[str, Agent | Pipeline]:
    """Import code, and return the agents and pipelines that it names, by their names. Raises `DataError` that says in
    which line of the code something is wrong, and `UsageError` if it is not clear what is meant."""
    target = target if isinstance(target, Target) else Target.parse(target)
    module = _import(target)
    if target.name and not hasattr(module, target.name):
        near = suggest_name(target.name, [one for one in vars(module) if not one.startswith("_")])
        raise DataError(f"{target.file}: there is no {target.name!r}; {near}")
    name = target.name or _choose(module, target)
    with told_by_its_line(str(target.file), target.folder):
        return gather(getattr(module, name), f"{target.file}: {name}")


def load_agent_code(target: Target, name: str | None) -> Agent:
    """Import code, and return the agent called `name`, or the only one. Raises as `load_code` does."""
    there = {called: one for called, one in load_code(target).items() if isinstance(one, Agent)}
    if name is None and len(there) == 1:
        return next(iter(there.values()))
    if name not in there:
        wrong = f"no agent {name!r}" if name else "say which agent"
        raise UsageError(f"{target}: {wrong}; {suggest_name(name or '', there)}")
    return there[name]


def check_code(target: Target) -> list[Problem]:
    """Return what is wrong with code, as far as it can be told without importing it: its syntax, or that it does not
    have the name. Raises `DataError` if the file cannot be read."""
    try:
        names = set(list_definitions(target.file, imported=True))
    except SyntaxError as error:
        return [Problem(str(target.file), error.lineno or 1, error.offset or 1, error.msg)]
    if target.name and not names & {target.name, "*"}:
        message = f"there is no {target.name!r}; {suggest_name(target.name, sorted(names))}"
        return [Problem(str(target.file), 1, 1, message)]
    return []


def list_definitions(file: Path, *, imported: bool = False) -> Iterator[str]:
    """Yield the names that a Python file defines at its top, and those that it imports if these are asked for. It is
    parsed, not imported. Raises `SyntaxError`, and `DataError` if it cannot be read."""
    try:
        body: list[ast.stmt] = ast.parse(file.read_bytes()).body
    except (OSError, ValueError) as error:
        raise DataError(f"{file}: {getattr(error, 'strerror', None) or error}") from error
    while body:
        match one := body.pop(0):
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield one.name
            case ast.Assign() | ast.AnnAssign():
                targets = one.targets if isinstance(one, ast.Assign) else [one.target]
                yield from (name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)
                            and isinstance(name.ctx, ast.Store))  # fmt: skip
            case ast.Import() | ast.ImportFrom() if imported:
                yield from ((name.asname or name.name).partition(".")[0] for name in one.names)
            case ast.If() | ast.Try() | ast.With():
                body = [inner for inner in ast.iter_child_nodes(one) if isinstance(inner, ast.stmt)] + body


def gather(given: Any, place: str = "agents") -> dict[str, Agent | Pipeline]:
    """Return agents, teams and pipelines by name: of one, of a list, of a dict (whose names they get), or of a function
    that makes them. Raises `UsageError`, which begins with the `place`."""
    if inspect.isroutine(given):
        given = call_contained(given)
    if inspect.iscoroutine(given):
        given.close()
        raise UsageError(f"{place}: the function is async; want one that is not")
    if isinstance(given, Mapping | list | tuple):
        several = given.items() if isinstance(given, Mapping) else enumerate(given)
        made = [_as_served(one, f"{place}[{key!r}]", key) for key, one in several]
    else:
        made = [_as_served(given, place)]
    if not made:
        raise UsageError(f"{place}: there are no agents and no pipelines to serve")
    found = {one.name: one for one in made}
    if len(found) < len(made):
        twice = next(one.name for at, one in enumerate(made) if one.name in [other.name for other in made[:at]])
        raise UsageError(f"{place}: two are called {twice!r}; give them names: Agent(…, name=…), or a dict")
    return found


def _as_served(given: Any, place: str, name: Any = 0) -> Agent | Pipeline:
    """Return an agent or a pipeline, under `name` if that is a text."""
    one: Agent | Pipeline = given.compile() if isinstance(given, MessageGroup) else given
    if not isinstance(one, Agent | Pipeline):
        kind = f"the class {given.__name__}" if isinstance(given, type) else f"of the type {type(given).__name__}"
        raise UsageError(f"{place} is {kind}; want {_WANTED}")
    if isinstance(name, str) and name != one.name:
        one = copy.copy(one)
        one.name = name
    return one


def _choose(module: ModuleType, target: Target) -> str:
    """Return what code calls its agents: `agents`, `agent` or `app`; or else the only one that is no other's member."""
    kinds = Agent | Pipeline | MessageGroup
    for name in _USUAL:
        one = getattr(module, name, None)
        if isinstance(one, kinds | list | tuple | dict) or inspect.isfunction(one):
            return name
    there = {name: one for name, one in vars(module).items() if isinstance(one, kinds)}
    members = {id(member) for one in there.values() if isinstance(one, Agent) for member in _list_members(one)}
    tops = {id(one): name for name, one in reversed(there.items()) if id(one) not in members}
    if len(tops) == 1:
        return next(iter(tops.values()))
    if not there:
        raise UsageError(f"{target}: it makes no agent; want `agent = Agent(…)`, or {target.file}:NAME of {_WANTED}")
    several = ", ".join(reversed(tops.values()))
    raise UsageError(f"{target} has several agents; say which, as in {target.file}:{several.split(',')[0]}: {several}")


def _list_members(agent: Agent) -> Iterator[Agent]:
    for tool in agent.tools:
        member = tool.something.agent if isinstance(tool.something, Handoff) else tool.something
        if isinstance(member, Agent):
            yield member


def _import(target: Target) -> ModuleType:
    """Import code. A file gets the name that `import` would give it, unless another module has that already."""
    folder = str(target.folder)
    if not target.module and not target.file.is_file():
        raise DataError(f"{target.file}: there is no such file")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    loading = _loading.set(str(target.file))
    try:
        with told_by_its_line(str(target.file), target.folder):
            if target.module:
                return call_contained(importlib.import_module, target.module)
            return call_contained(_import_file, target.file.resolve())
    finally:
        _loading.reset(loading)


def _import_file(file: Path) -> ModuleType:
    known = sys.modules.get(file.stem)
    if known is not None and getattr(known, "__file__", None) == str(file):
        return known
    name = file.stem if known is None else f"retinue_app_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise DataError(f"{file} is not a Python file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def check_not_loading(called: str) -> None:
    """Raise `UsageError` if code that is being imported wants to be served by itself, too."""
    if _loading.get():
        raise UsageError(f'{called} is called while the file is imported: put it under `if __name__ == "__main__":`')


@contextmanager
def told_by_its_line(place: str, folder: Path) -> Iterator[None]:
    """Have errors of a user's code, which is in `folder`, told by where they are in it, without our own frames. The
    `place` stands for code of which no line is known."""
    try:
        yield
    except Exception as error:
        raised = error.__cause__ if isinstance(error, ForeignExit) and error.__cause__ else error
        said = str(error) if is_own_error(error) else describe_error(raised)
        line = _find_line(raised, folder)
        if isinstance(raised, SyntaxError) and raised.filename and raised.lineno:
            line, said = (Path(raised.filename), raised.lineno), f"{type(raised).__name__}: {raised.msg}"
        if line is None:
            own = said if said.startswith(place) else f"{place}: {said}"
            raise (UsageError if isinstance(error, UsageError) else DataError)(own) from error
        raise DataError(f"{_shorten(line[0])}:{line[1]}: {said}") from error


def _find_line(error: BaseException, folder: Path) -> tuple[Path, int] | None:
    """Return the innermost line of the user's code that an error came through."""
    found: tuple[Path, int] | None = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = Path(frame.f_code.co_filename)
        own = file.is_absolute() and file.is_relative_to(folder) and not file.is_relative_to(_PACKAGE)
        if own and "site-packages" not in file.parts:
            found = file, line
    return found


def _shorten(file: Path) -> Path:
    return file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file
