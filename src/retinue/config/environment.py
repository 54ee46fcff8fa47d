"""Environment variables in files: resolved when something is built, and put in the place of secrets when it is written.

`${NAME}` in a text stands for the variable NAME. A variable can also set a component's parameter: `SERP_PARAMS_API_KEY`
sets `api_key` of the component `Serp`. No spec holds a value of the environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .._internal.redaction import NAMES, PARAMETERS
from .problems import Found, KeyPath, describe_unknown
from .registry import COMPONENTS, fits
from .specs import ComponentSpec, FileSpec
from .yaml_text import parse_scalar_or_text

_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LOGIN = re.compile(r"(?<=://)[^/@\s]*@")
_QUERY = re.compile(r"([?&]([^=&#\s]+)=)([^&#\s]+)")
_ONLY_VARIABLE = re.compile(r"(bearer |basic )?\$\{[^}]*\}", re.IGNORECASE)
_ASSIGNED = re.compile(r"([^=,\s]+)=([^,]*)")


@dataclass(frozen=True, slots=True)
class Resolved:
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
        missing.extend(Found((*path, *at), problem) for problem in _find_missing_variables(value, environ))
        return _VARIABLE.sub(lambda found: environ.get(found[1], ""), value)

    return Resolved(inner(value, ()), tuple(missing))


def resolve_component(spec: FileSpec, index: int, environ: Mapping[str, str] = os.environ) -> Resolved:
    """Return the parameters of the file's component number `index`, with the environment applied."""
    component = (spec.components or [])[index]
    path: KeyPath = ("components", index, "params")
    given = component.params or {}
    resolved = resolve(given, environ, path)
    value, wrong = dict(resolved.value), list(resolved.missing)
    from_environment = {name for name, one in given.items() if isinstance(one, str) and "${" in one}
    parameters = COMPONENTS[component.type].parameters
    for variable, name in _find_overrides(component, environ):
        if name not in parameters:
            wrong.append(
                Found(path, f"{variable}: {describe_unknown(f'parameter of {component.type}', name, parameters)}")
            )
            continue
        wrong = [one for one in wrong if one.path != (*path, name)]
        from_environment.add(name)
        value[name] = environ[variable]
    for name in from_environment:
        if parameters[name].kind == "text" or any(one.path == (*path, name) for one in wrong):
            continue
        value[name] = parse_scalar_or_text(value[name])
        if not fits(value[name], parameters[name].kind):
            wrong.append(
                Found((*path, name), f"{name}: the value in the environment is not of kind '{parameters[name].kind}'")
            )
    return Resolved(value, tuple(wrong))


def _find_missing_variables(text: str, environ: Mapping[str, str]) -> Iterator[str]:
    for name in _VARIABLE.findall(text):
        if not _NAME.fullmatch(name):
            yield f"{'${' + name[:60] + '}'!r} is not a valid variable name; want letters, digits and underscores"
        elif name not in environ:
            yield f"the environment variable {name} is not set"


def _find_overrides(component: ComponentSpec, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    prefix = f"{re.sub(r'[^A-Za-z0-9]', '_', component.name)}_params_".upper()
    for variable in sorted(environ):
        if variable.startswith(prefix):
            yield variable, variable.removeprefix(prefix).lower()


def without_secrets(file: dict[str, Any]) -> dict[str, Any]:
    """Replace every secret in a file's value by a `${NAME}`. `${SERP_PARAMS_API_KEY}` stands for the parameter
    `api_key` of the component `Serp`, which can also be set by that variable."""
    clean = dict(file)
    for section in ("components", "agents"):
        if file.get(section):
            clean[section] = [_clean_item(item) for item in file[section]]
    if isinstance(file.get("tools"), dict):
        clean["tools"] = _clean_value(file["tools"], "TOOLS")
    return clean


def mask_secrets(value: Any, name: str) -> Any:
    """Any value of a file, or of an object's settings, in which every secret is a variable that begins with `name`."""
    return _clean_value(value, name)


def _clean_item(item: dict[str, Any]) -> dict[str, Any]:
    return item | {"params": _clean_value(item["params"], f"{item['name']}_PARAMS")} if item.get("params") else item


def _clean_value(value: Any, name: str) -> Any:
    """Replace secrets in `value`; `name` derives from its position in the file."""
    if isinstance(value, dict):
        return {key: _clean_entry(key, one, name) for key, one in value.items()}
    if isinstance(value, list):
        return [_clean_value(one, f"{name}_{at}") for at, one in enumerate(value)]
    if isinstance(value, str):
        return _clean_address(value, _make_variable_name(name)) if "://" in value else value
    return value


def _clean_address(text: str, name: str) -> str:
    text = _LOGIN.sub(lambda found: found[0] if _is_variable(found[0][:-1]) else f"${{{name}_LOGIN}}@", text)
    return _QUERY.sub(lambda found: f"{found[1]}${{{name}_KEY}}" if _is_secret(found[2], found[3]) else found[0], text)


def _is_secret(parameter: str, value: str) -> bool:
    return PARAMETERS.search(parameter) is not None and not _is_variable(value)


def _is_variable(text: str) -> bool:
    """Whether a text is empty or only a variable."""
    return not text or _ONLY_VARIABLE.fullmatch(text) is not None


def _clean_entry(key: str, value: Any, name: str) -> Any:
    place = f"{name}_{key}"
    if NAMES.search(key) and isinstance(value, str | int | float) and not isinstance(value, bool):
        return value if _is_variable(str(value)) else f"${{{_make_variable_name(place)}}}"
    if key in ("env", "headers") and isinstance(value, dict):  # of an MCP server: any value may be a secret
        server = name.removesuffix("_PARAMS")
        return {
            k: one if _is_variable(one) else f"${{{_make_variable_name(f'{server}_{k}')}}}" for k, one in value.items()
        }
    if key == "args" and isinstance(value, list):
        return _clean_arguments(value, name.removesuffix("_PARAMS"))
    if key == "env" and isinstance(value, str):
        return _ASSIGNED.sub(
            lambda found: found[0] if _is_variable(found[2].strip()) else f"{found[1]}=${{{found[1]}}}",
            value,
        )
    return _clean_value(value, place)


def _clean_arguments(args: list[Any], name: str) -> list[Any]:
    """Replace secrets in a command's arguments, such as `--token secret` and `--token=secret`."""
    clean: list[Any] = []
    for before, given in zip(["", *args], args, strict=False):
        option, equals, value = str(given).partition("=")
        if equals and NAMES.search(option) and not _is_variable(value):
            clean.append(f"{option}=${{{_make_variable_name(name + option)}}}")
        elif str(before).startswith("-") and NAMES.search(str(before)) and not _is_variable(str(given)):
            clean.append(f"${{{_make_variable_name(name + str(before))}}}")
        else:
            clean.append(_clean_value(given, name))
    return clean


def _make_variable_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "_", name).upper()
