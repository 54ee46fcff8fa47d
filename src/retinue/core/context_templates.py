"""Templates in headers and queries: `${user.id}`, `${user.secret:NAME}` and the like stand for what the context of a
run says. They are filled for each call, so no file, specification or log holds what they stand for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal, cast

from ..errors import NotDone
from .run_context import current_run

_PLACE = re.compile(r"\$\{([^}]*)\}")
_FIELDS = {"user.id": "user", "tenant.id": "tenant", "thread.id": "thread", "run.id": "run"}
_NAMED = re.compile(r"metadata\.(?P<metadata>[\w-]{1,64})|(?P<of>user|tenant)\.secret:(?P<secret>[A-Za-z_]\w{0,63})")
_KNOWN = ", ".join(f"${{{one}}}" for one in (*_FIELDS, "metadata.NAME", "user.secret:NAME", "tenant.secret:NAME"))


def is_template(name: str) -> bool:
    """Whether `${name}` stands for something of a run's context."""
    return name in _FIELDS or _NAMED.fullmatch(name) is not None


def has_template(text: str) -> bool:
    """Whether a text has a template in it."""
    return any(map(is_template, _PLACE.findall(text)))


def is_bound(text: str) -> bool:
    """Whether a text says for which user, or tenant, a call is."""
    return any(is_template(one) and one.startswith(("user.", "tenant.")) for one in _PLACE.findall(text))


def describe_bad_template(text: str) -> str:
    """Return what is wrong with the first template in a text that is none, or an empty string. What may be the name of
    an environment variable is not looked at."""
    wrong = (one for one in _PLACE.findall(text) if re.search(r"[.:]", one) and not is_template(one))
    found = next(wrong, None)
    return "" if found is None else f"{'${' + found[:80] + '}'!r} is unknown; there are {_KNOWN}"


async def fill_template(text: str, encode: Callable[[str], str] = str) -> str:
    """Return a text with the values of the current run, each encoded. Raises `NotDone` if the run lacks one."""
    values = {one: await _find_value(one) for one in _PLACE.findall(text) if is_template(one)}
    return _PLACE.sub(lambda found: encode(values[found[1]]) if found[1] in values else found[0], text)


async def fill_headers(headers: Mapping[str, str], *, leave_out: bool = False) -> dict[str, str]:
    """Return headers with the values of the current run; `leave_out` those that it lacks. Raises `NotDone`, also for
    values that no header can have."""
    filled = dict(headers)
    for name in [name for name, text in headers.items() if has_template(text)]:
        try:
            filled[name] = await fill_template(headers[name])
        except NotDone:
            if not leave_out:
                raise
            del filled[name]
            continue
        if not (filled[name].isascii() and filled[name].isprintable()):  # above all no line breaks
            raise NotDone(f"what is set for the header {name} cannot be sent: want printable ASCII on one line")
    return filled


async def _find_value(name: str) -> str:
    here, found = current_run(), _NAMED.fullmatch(name)
    if found is not None and found["secret"]:
        return await here.secret(found["secret"], of=cast(Literal["user", "tenant"], found["of"]))
    value: str = getattr(here, _FIELDS[name]) if found is None else here.metadata.get(found["metadata"], "")
    if not value:
        raise NotDone(f"it needs ${{{name}}}, which this run does not have")
    return value
