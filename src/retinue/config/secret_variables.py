"""Replaces secrets in exported files by the variables that will hold them."""

from __future__ import annotations

import re
from typing import Any

from .._internal.redaction import NAMES, PARAMETERS

_LOGIN = re.compile(r"(?<=://)[^/@\s]*@")
_QUERY = re.compile(r"([?&]([^=&#\s]+)=)([^&#\s]+)")
_VARIABLE = re.compile(r"(bearer |basic )?\$\{[^}]*\}", re.IGNORECASE)
_ASSIGNED = re.compile(r"([^=,\s]+)=([^,]*)")


def without_secrets(file: dict[str, Any]) -> dict[str, Any]:
    """Replace every secret in a file's value by a `${NAME}`. `${SERP_PARAMS_API_KEY}` stands for the parameter
    `api_key` of the component `Serp`, which can also be set by that variable."""
    clean = dict(file)
    for section in ("components", "agents"):
        if file.get(section):
            clean[section] = [_cleaned(item) for item in file[section]]
    if isinstance(file.get("tools"), dict):
        clean["tools"] = _inner(file["tools"], "TOOLS")
    return clean


def value_without_secrets(value: Any, name: str) -> Any:
    """Any value of a file, or of an object's settings, in which every secret is a variable that begins with `name`."""
    return _inner(value, name)


def _cleaned(item: dict[str, Any]) -> dict[str, Any]:
    return item | {"params": _inner(item["params"], f"{item['name']}_PARAMS")} if item.get("params") else item


def _inner(value: Any, name: str) -> Any:
    """Replace secrets in `value`; `name` derives from its position in the file."""
    if isinstance(value, dict):
        return {key: _entry(key, one, name) for key, one in value.items()}
    if isinstance(value, list):
        return [_inner(one, f"{name}_{at}") for at, one in enumerate(value)]
    if isinstance(value, str):
        return _address(value, _upper(name)) if "://" in value else value
    return value


def _address(text: str, name: str) -> str:
    text = _LOGIN.sub(lambda found: found[0] if _refers(found[0][:-1]) else f"${{{name}_LOGIN}}@", text)
    return _QUERY.sub(lambda found: f"{found[1]}${{{name}_KEY}}" if _is_secret(found[2], found[3]) else found[0], text)


def _is_secret(parameter: str, value: str) -> bool:
    return PARAMETERS.search(parameter) is not None and not _refers(value)


def _refers(text: str) -> bool:
    """Whether a text is empty or only a variable."""
    return not text or _VARIABLE.fullmatch(text) is not None


def _entry(key: str, value: Any, name: str) -> Any:
    place = f"{name}_{key}"
    if NAMES.search(key) and isinstance(value, str | int | float) and not isinstance(value, bool):
        return value if _refers(str(value)) else f"${{{_upper(place)}}}"
    if key in ("env", "headers") and isinstance(value, dict):  # of an MCP server: any value may be a secret
        server = name.removesuffix("_PARAMS")
        return {k: one if _refers(one) else f"${{{_upper(f'{server}_{k}')}}}" for k, one in value.items()}
    if key == "args" and isinstance(value, list):
        return _arguments(value, name.removesuffix("_PARAMS"))
    if key == "env" and isinstance(value, str):
        return _ASSIGNED.sub(
            lambda found: found[0] if _refers(found[2].strip()) else f"{found[1]}=${{{found[1]}}}",
            value,
        )
    return _inner(value, place)


def _arguments(args: list[Any], name: str) -> list[Any]:
    """Replace secrets in a command's arguments, such as `--token secret` and `--token=secret`."""
    clean: list[Any] = []
    for before, given in zip(["", *args], args, strict=False):
        option, equals, value = str(given).partition("=")
        if equals and NAMES.search(option) and not _refers(value):
            clean.append(f"{option}=${{{_upper(name + option)}}}")
        elif str(before).startswith("-") and NAMES.search(str(before)) and not _refers(str(given)):
            clean.append(f"${{{_upper(name + str(before))}}}")
        else:
            clean.append(_inner(given, name))
    return clean


def _upper(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "_", name).upper()
