"""Environment variables in files: resolved when something is built, and put in the place of secrets when it is written.

`${NAME}` in a text stands for the variable NAME. Templates (`core/context_templates.py`), which headers and queries may
have, stay as they are. A variable can also set a component's parameter: `SERP_PARAMS_API_KEY`
sets `api_key` of the component `Serp`. No spec holds a value of the environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Set
from typing import Any, NamedTuple

from .._internal.redaction import NAMES, PARAMETERS
from .._internal.source_text import Found, KeyPath
from .._internal.yaml_text import parse_scalar_or_text
from ..core.context_templates import describe_bad_template, is_template
from .problems import describe_unknown
from .registry import COMPONENTS, fits
from .specs import FileSpec

_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TEMPLATED: Set[str | int] = {"headers", "query"}  # where in a file templates may be
_LOGIN = re.compile(r"(?<=://)[^/@\s]*@")
_QUERY = re.compile(r"([?&]([^=&#\s]+)=)([^&#\s]+)")
_ONLY_VARIABLE = re.compile(r"(bearer |basic )?\$\{[^}]*\}", re.IGNORECASE)
_ASSIGNED = re.compile(r"([^=,\s]+)=([^,]*)")


class Resolved(NamedTuple):
    """Resolved values, and what is missing: variables that are not set."""

    value: Any
    missing: tuple[Found, ...] = ()


def resolve(value: Any, environ: Mapping[str, str] = os.environ, path: KeyPath = ()) -> Resolved:
    """Replace each `${NAME}` in the texts of `value`; the result stays text. `path` is the position of `value` in the
    file, for reports of missing variables."""
    missing: list[Found] = []

    def inner(value: Any, at: KeyPath) -> Any:
        if isinstance(value, dict):
            return {key: inner(one, (*at, key)) for key, one in value.items()}
        if isinstance(value, list):
            return [inner(one, (*at, index)) for index, one in enumerate(value)]
        if not isinstance(value, str) or "${" not in value:
            return value
        wrong = (_describe_bad_name(name, at, environ) for name in _VARIABLE.findall(value))
        missing.extend(Found(at, problem) for problem in wrong if problem)
        return _VARIABLE.sub(lambda found: found[0] if is_template(found[1]) else environ.get(found[1], ""), value)

    return Resolved(inner(value, path), tuple(missing))


def _describe_bad_name(name: str, at: KeyPath, environ: Mapping[str, str]) -> str:
    """Return why `${name}` cannot stand at this position, or an empty string."""
    if is_template(name):
        where = "can stand in headers only, and in the query of an HTTP tool's address"
        return "" if _TEMPLATED & {*at} else f"${{{name}}} {where}"
    if problem := describe_bad_template(f"${{{name}}}"):
        return problem
    if not _NAME.fullmatch(name):
        return f"{'${' + name[:60] + '}'!r} is not a valid variable name; want letters, digits and underscores"
    return "" if name in environ else f"the environment variable {name} is not set"


def resolve_component(spec: FileSpec, index: int, environ: Mapping[str, str] = os.environ) -> Resolved:
    """Return the parameters of the file's component number `index`, with the environment applied."""
    component = (spec.components or [])[index]
    path: KeyPath = ("components", index, "params")
    given, known = component.params or {}, COMPONENTS.get(component.type)
    parameters = known.parameters if known else {}  # unknown before code of one's own is imported: they are texts
    resolved = resolve(given, environ, path)
    value, wrong = dict(resolved.value), list(resolved.missing)
    from_environment = {name for name, one in given.items() if isinstance(one, str) and "${" in one}
    prefix = _make_variable_name(f"{component.name}_params_")
    for variable in sorted(one for one in environ if one.startswith(prefix)):
        name = variable.removeprefix(prefix).lower()
        if known and name not in parameters:
            unknown = describe_unknown(f"parameter of {component.type}", name, parameters)
            wrong.append(Found(path, f"{variable}: {unknown}"))
            continue
        wrong = [one for one in wrong if one.path != (*path, name)]
        from_environment.add(name)
        value[name] = environ[variable]
    for name in from_environment:
        kind, place = parameters[name].kind if name in parameters else "text", (*path, name)
        if kind == "text" or any(one.path == place for one in wrong):
            continue
        value[name] = parse_scalar_or_text(value[name])
        if not fits(value[name], kind):
            wrong.append(Found(place, f"{name}: the value in the environment is not of kind '{kind}'"))
    return Resolved(value, tuple(wrong))


def without_secrets(file: dict[str, Any]) -> dict[str, Any]:
    """Replace every secret in a file's value by a `${NAME}`. `${SERP_PARAMS_API_KEY}` stands for the parameter
    `api_key` of the component `Serp`, which can also be set by that variable."""
    clean = dict(file)
    for section in ("components", "agents"):
        if file.get(section):
            clean[section] = [
                item | {"params": mask_secrets(item["params"], f"{item['name']}_PARAMS")}
                if item.get("params")
                else item
                for item in file[section]
            ]
    if isinstance(file.get("tools"), dict):
        clean["tools"] = mask_secrets(file["tools"], "TOOLS")
    return clean


def mask_secrets(value: Any, name: str) -> Any:
    """Return any value of a file, or of an object's settings, with variables for its secrets. Their names begin with
    `name`, and derive from their position."""
    if isinstance(value, dict):
        return {key: _mask_entry(key, one, name) for key, one in value.items()}
    if isinstance(value, list):
        return [mask_secrets(one, f"{name}_{at}") for at, one in enumerate(value)]
    if not isinstance(value, str) or "://" not in value:
        return value

    def mask_key(found: re.Match[str]) -> str:
        secret = PARAMETERS.search(found[2]) and not _is_variable(found[3])
        return f"{found[1]}{_make_variable(f'{name}_KEY')}" if secret else found[0]

    def mask_login(found: re.Match[str]) -> str:
        return found[0] if _is_variable(found[0][:-1]) else f"{_make_variable(f'{name}_LOGIN')}@"

    return _QUERY.sub(mask_key, _LOGIN.sub(mask_login, value))


def _mask_entry(key: str, value: Any, name: str) -> Any:
    place, server = f"{name}_{key}", name.removesuffix("_PARAMS")
    if NAMES.search(key) and isinstance(value, str | int | float) and not isinstance(value, bool):
        return value if _is_variable(str(value)) else _make_variable(place)
    if key in ("env", "headers") and isinstance(value, dict):  # of an MCP server: any value may be a secret
        return {k: one if _is_variable(one) else _make_variable(f"{server}_{k}") for k, one in value.items()}
    if key == "args" and isinstance(value, list):
        return [_mask_argument(before, given, server) for before, given in zip(["", *value], value, strict=False)]
    if key == "env" and isinstance(value, str):
        return _ASSIGNED.sub(
            lambda found: found[0] if _is_variable(found[2].strip()) else f"{found[1]}=${{{found[1]}}}", value
        )
    return mask_secrets(value, place)


def _mask_argument(before: Any, given: Any, name: str) -> Any:
    """Replace a secret in an argument of a command, such as `--token secret` and `--token=secret`."""
    option, equals, value = str(given).partition("=")
    if equals and NAMES.search(option) and not _is_variable(value):
        return f"{option}={_make_variable(name + option)}"
    if str(before).startswith("-") and NAMES.search(str(before)) and not _is_variable(str(given)):
        return _make_variable(name + str(before))
    return mask_secrets(given, name)


def _is_variable(text: str) -> bool:
    """Whether a text is empty or only a variable."""
    return not text or _ONLY_VARIABLE.fullmatch(text) is not None


def _make_variable(name: str) -> str:
    return f"${{{_make_variable_name(name)}}}"


def _make_variable_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "_", name).upper()
