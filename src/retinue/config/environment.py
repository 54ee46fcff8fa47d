"""Environment variables in parameters, resolved when something is built, and never stored in a spec.

`${NAME}` in a text stands for the variable NAME. A variable can also set a component's parameter: `SERP_PARAMS_API_KEY`
sets `api_key` of the component `Serp`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .places import Found, Path, unknown
from .registry import COMPONENTS, fits
from .scalars import scalar
from .specs import ComponentSpec, FileSpec

_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Resolved:
    """Resolved values. `origins` maps each value from the environment to the file's text (`None` if absent), which is
    what may be shown or written back. `missing` lists unset variables."""

    value: Any
    origins: Mapping[Path, str | None]
    missing: tuple[Found, ...] = ()

    def original(self) -> Any:
        """Return the values as in the file, without anything from the environment."""
        return _original(self.value, self.origins, ())


def resolve(value: Any, environ: Mapping[str, str], path: Path = ()) -> Resolved:
    """Replace each `${NAME}` in the texts of `value`; the result stays text. `path` is the position of `value` in the
    file, for reports of missing variables."""
    origins: dict[Path, str | None] = {}
    missing: list[Found] = []

    def inner(value: Any, at: Path) -> Any:
        if isinstance(value, dict):
            return {key: inner(one, (*at, key)) for key, one in value.items()}
        if isinstance(value, list):
            return [inner(one, (*at, index)) for index, one in enumerate(value)]
        if not isinstance(value, str) or "${" not in value:
            return value
        origins[at] = value
        missing.extend(Found((*path, *at), problem) for problem in _missing(value, environ))
        return _VARIABLE.sub(lambda found: environ.get(found[1], ""), value)

    return Resolved(inner(value, ()), origins, tuple(missing))


def resolve_component(spec: FileSpec, index: int, environ: Mapping[str, str]) -> Resolved:
    """Return the parameters of the file's component number `index`, with the environment applied."""
    component = (spec.components or [])[index]
    path: Path = ("components", index, "params")
    resolved = resolve(component.params or {}, environ, path)
    value, origins, wrong = dict(resolved.value), dict(resolved.origins), list(resolved.missing)
    parameters = COMPONENTS[component.type].parameters
    for variable, name in _overrides(component, environ):
        if name not in parameters:
            wrong.append(Found(path, f"{variable}: {unknown(f'parameter of {component.type}', name, parameters)}"))
            continue
        wrong = [one for one in wrong if one.path != (*path, name)]
        origins[(name,)] = (component.params or {}).get(name)
        value[name] = environ[variable]
    for at in [at for at in origins if len(at) == 1]:
        name, text = str(at[0]), value[str(at[0])]
        if parameters[name].kind == "text" or any(one.path == (*path, name) for one in wrong):
            continue
        value[name] = _meant(text)
        if not fits(value[name], parameters[name].kind):
            wrong.append(
                Found((*path, name), f"{name}: the value in the environment is not of kind '{parameters[name].kind}'")
            )
    return Resolved(value, origins, tuple(wrong))


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


def _meant(text: str) -> Any:
    try:
        return scalar(text)
    except ValueError:
        return text


def _original(value: Any, origins: Mapping[Path, str | None], path: Path) -> Any:
    if path in origins:
        return origins[path]
    if isinstance(value, dict):
        kept = {key: _original(one, origins, (*path, key)) for key, one in value.items()}
        return {key: one for key, one in kept.items() if one is not None or (*path, key) not in origins}
    if isinstance(value, list):
        return [_original(one, origins, (*path, index)) for index, one in enumerate(value)]
    return value
