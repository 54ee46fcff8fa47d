"""Loads agents and pipelines from files, or from the environment, and saves them: the core of `load_from_yaml` and
`save_to_yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .._internal.files import replace_file
from .._internal.yaml_io import YamlSerializable
from .._internal.yaml_text import dump_value, parse_scalar_or_text, read_text
from ..core.loop.effects import Human
from ..errors import DataError, UsageError
from ..tools.packages import lock_file, parse_requirements
from .builder import Builder
from .export import SpecWriter
from .file_check import check_spec, load_spec
from .problems import describe_unknown
from .references import list_exposed
from .registry import TOOLS
from .specs import FileSpec
from .tool_files import list_tool_files, read_tool_file, resolve_existing_path

_HEAD = "# Written by Retinue. Secrets are not included: set the variables that stand for them.\n"
OPEA_NAMES = ("AGENT_NAME", "agent_name")
_OPEA_TEXTS = (
    "role", "role_description", "strategy", "model", "llm_model_id", "llm_engine", "llm_endpoint_url", "custom_prompt",
    "tools", "memory_type",
)  # fmt: skip
_OPEA_VALUES = (
    "temperature", "top_p", "top_k", "repetition_penalty", "max_new_tokens", "recursion_limit", "timeout", "stream",
    "with_memory", "require_human_feedback",
)  # fmt: skip


def load(path: str | Path, section: str, name: str | None = None, human: Human | None = None) -> Any:
    """Build the part called `name` in the file's `section` ("agents" or "pipelines"); `name` may be omitted if there is
    only one. Groups and chains are agents, too. Raises `DataError` with all problems of the file, and `UsageError` if
    the name is needed."""
    spec = load_spec(path)
    choice = select_agent(spec, name) if section == "agents" else select_part(spec, section, name)
    return Builder(spec, human).get(choice)


def select_agent(spec: FileSpec, name: str | None) -> str:
    """Return `name` if an agent, group or chain is called that; without it, the only one that a server would
    offer."""
    teams: list[str] = [one.name for one in (*(spec.groups or ()), *(spec.chains or ()))]
    if name is not None and name in teams:
        return name
    offered = [one.name for one in list_exposed(spec)]
    if name is not None or not (offered or teams):
        return select_part(spec, "agents", name)
    if len(offered) != 1:
        raise UsageError(f"{spec.source.file} has several agents; say which: {', '.join(offered or teams)}")
    return offered[0]


def select_part(spec: FileSpec, section: str, name: str | None) -> str:
    """Return `name`, or the name of the only part."""
    names: list[str] = [item.name for item in getattr(spec, section) or ()]
    if name is None:
        if not names:
            raise DataError(f"{spec.source.file}: there are no {section}")
        if len(names) > 1:
            raise UsageError(f"{spec.source.file} has several {section}; say which: {', '.join(names)}")
        return names[0]
    if name not in names:
        raise DataError(f"{spec.source.file}: {describe_unknown(section[:-1], name, names)}")
    return name


def read_spec_from_environment(environ: Mapping[str, str]) -> FileSpec:
    """Return a file with the agent that `environ` describes, as in OPEA's RFC on agents and its compose files; empty
    variables count as unset. Raises `UsageError` if it describes none, and `DataError` with all problems."""
    given = {name: value for name, value in environ.items() if value.strip()}
    params: dict[str, Any] = {name: given[name] for name in _OPEA_TEXTS if name in given}
    if not params:
        raise UsageError(
            "give a FILE of agents, or describe one in the environment: strategy, llm_engine, llm_endpoint_url, model, "
            "tools and so on (OPEA's RFC on agents)"
        )
    path, here = Path(given.get("tools", "")), Path.cwd()
    if path.is_absolute() and path.is_relative_to(here):  # as in OPEA's Compose files; no other is allowed
        params["tools"] = path.relative_to(here).as_posix()
    params |= {name: parse_scalar_or_text(given[name].strip()) for name in _OPEA_VALUES if name in given}
    if "api_key" in given:
        params["api_key"] = "${api_key}"  # resolved when the agent is built, so no spec holds it
    name = next((given[one] for one in OPEA_NAMES if one in given), "opea-agent")  # the model's id in OPEA
    text = dump_value({"agents": [{"name": name, "params": params}]})
    return check_spec(read_text(text, "environment"))


def save(something: YamlSerializable, path: str | Path) -> None:
    """Write `something` to `path` atomically. Raises `UsageError` for what a file cannot express."""
    path = Path(path)
    file = SpecWriter(path.resolve().parent)
    file.add(something, something.name)
    text = f"{_HEAD}{dump_value(file.build_file_value())}"
    try:
        replace_file(path, text)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error


def list_dependencies(path: str | Path) -> dict[Path, tuple[str, ...]]:
    """Return the requirements of each tool that has any, by lock file. `path` is a file of agents or a folder of tool
    files. Raises `DataError` with all problems."""
    path = Path(path)
    folder, named, entries = path, list[Path](), list[tuple[Path, Any]]()
    if path.is_dir():
        named = [path]
    else:
        folder, spec = path.parent, load_spec(path)
        for tools in (spec.tools, *(agent.params.tools for agent in spec.agents or ())):
            if isinstance(tools, dict):
                entries.append((folder, tools))
                continue
            texts = [one for one in ([tools] if isinstance(tools, str) else tools or ()) if isinstance(one, str)]
            found = [one for one in texts if one not in TOOLS and (folder / one).exists()]
            named += [resolve_existing_path(folder, one) for one in found]
    files = [file for one in named for file in list_tool_files(one) if file.suffix != ".py"]
    entries += [(file.parent, read_tool_file(file)[0]) for file in files]
    wanted = {
        lock_file(folder, name): parse_requirements(entry.pip_dependencies or "")
        for folder, tools in entries
        for name, entry in tools.items()
    }
    return {file: requirements for file, requirements in wanted.items() if requirements}
