"""Environment variables in parameters, resolved when something is built, and never stored in a spec.

`${NAME}` in a text stands for the variable NAME. A variable can also set a component's parameter: `SERP_PARAMS_API_KEY`
sets `api_key` of the component `Serp`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .places import Found, Path, unknown
from .registry import COMPONENTS, fits
from .scalars import scalar_or_text
from .specs import ComponentSpec, FileSpec

_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Resolved:
    """Resolved values, and what is missing: variables that are not set."""

    value: Any
    missing: tuple[Found, ...] = ()


def resolve(value: Any, environ: Mapping[str, str] = os.environ, path: Path = ()) -> Resolved:
    """Replace each `${NAME}` in the texts of `value`; the result stays text. `path` is the position of `value` in the
    file, for reports of missing variables."""
    missing: list[Found] = []

    def inner(value: Any, at: Path) -> Any:
        if isinstance(value, dict):
            return {key: inner(one, (*at, key)) for key, one in value.items()}
        if isinstance(value, list):
            return [inner(one, (*at, index)) for index, one in enumerate(value)]
        if not isinstance(value, str) or "${" not in value:
            return value
        missing.extend(Found((*path, *at), problem) for problem in _missing(value, environ))
        return _VARIABLE.sub(lambda found: environ.get(found[1], ""), value)

    return Resolved(inner(value, ()), tuple(missing))


def resolve_component(spec: FileSpec, index: int, environ: Mapping[str, str] = os.environ) -> Resolved:
    """Return the parameters of the file's component number `index`, with the environment applied."""
    component = (spec.components or [])[index]
    path: Path = ("components", index, "params")
    given = component.params or {}
    resolved = resolve(given, environ, path)
    value, wrong = dict(resolved.value), list(resolved.missing)
    from_environment = {name for name, one in given.items() if isinstance(one, str) and "${" in one}
    parameters = COMPONENTS[component.type].parameters
    for variable, name in _overrides(component, environ):
        if name not in parameters:
            wrong.append(Found(path, f"{variable}: {unknown(f'parameter of {component.type}', name, parameters)}"))
            continue
        wrong = [one for one in wrong if one.path != (*path, name)]
        from_environment.add(name)
        value[name] = environ[variable]
    for name in from_environment:
        if parameters[name].kind == "text" or any(one.path == (*path, name) for one in wrong):
            continue
        value[name] = scalar_or_text(value[name])
        if not fits(value[name], parameters[name].kind):
            wrong.append(
                Found((*path, name), f"{name}: the value in the environment is not of kind '{parameters[name].kind}'")
            )
    return Resolved(value, tuple(wrong))


def _missing(text: str, environ: Mapping[str, str]) -> Iterator[str]:
    for name in _VARIABLE.findall(text):
        if not _NAME.fullmatch(name):
            yield f"{'${' + name[:60] + '}'!r} is not a valid variable name; want letters, digits and underscores"
        elif name not in environ:
            yield f"the environment variable {name} is not set"


def _overrides(component: ComponentSpec, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    prefix = f"{re.sub(r'[^A-Za-z0-9]', '_', component.name)}_params_".upper()
    for variable in sorted(environ):
        if variable.startswith(prefix):
            yield variable, variable.removeprefix(prefix).lower()
