"""Results that are longer than what a model is shown at once: the whole is kept, the model gets the beginning, and
`read_result` reads on."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from ...errors import NotDone
from ..run_context import current_run
from ..run_texts import name_result
from ..user_records import fits_pattern
from ..values import AgentAction, Observation
from .tool import Tool

HEAD = 2_000  # characters that are shown of a result that can be read on
_AT_ONCE = 4_000  # characters that are read at once
_AROUND = 150  # characters before what was found
_NAME = re.compile(r"res_[0-9a-f]{16}")


async def cut_result(observation: Observation, most: int, *, reads_on: bool) -> Observation:
    """Keep a result of more than `most` characters, and return the observation with its beginning. If the model can
    call tools of any name (`reads_on`), it is told how to read on."""
    text, here = observation.text, current_run()
    if len(text) <= most:
        return observation
    if problem := await here.kept_texts.keep_result(observation.call_id, text):
        return shorten_result(observation, most, f", not kept: {problem}")
    if not reads_on:
        return replace(shorten_result(observation, most), size=len(text))
    shown = min(most // 2, HEAD)
    told = f"{text[:shown]} …\n{describe_rest(name_result(here.run, observation.call_id), shown, len(text))}"
    return replace(observation, text=told, size=len(text))


def shorten_result(observation: Observation, most: int, why: str = "") -> Observation:
    """Return an observation with at most so many characters of its result, which says how many there are more."""
    text, more = observation.text, len(observation.text) - most
    return observation if more <= 0 else replace(observation, text=f"{text[:most]} … ({more:,} more characters{why})")


def describe_rest(name: str, shown: int, size: int) -> str:
    """Return how to read on in a result."""
    on, find = f'{{"id": "{name}", "start": {shown}}}', f'{{"id": "{name}", "pattern": "words"}}'
    told = f"These are the first {shown:,} of {size:,} characters"
    return f"({told}. {READ_RESULT.name} reads on: {on} from a place, {find} the lines with words.)"


def find_name(text: str) -> str:
    """Return the name with which a shortened result is read on; empty for one that was not shortened."""
    names = _NAME.findall(text[-400:])
    return names[-1] if names else ""


async def read_result(
    id: str,  # noqa: A002 -- as a model is told
    start: int = 0,
    end: int | None = None,
    pattern: str = "",
) -> str:
    """Read on in a long result of a tool: at most 4,000 characters from `start` (before `end`), or the lines that have
    the `pattern`, in which each * stands for any text.

    Args:
        id: The result's id, as it was told.
        start: The first character, from 0.
        end: The character before which to end.
        pattern: Words to look for.
    """
    text = await _find_text(id)
    if pattern:
        return _find_lines(text, pattern, start)
    start = min(max(0, start), len(text))
    last = min(len(text), start + _AT_ONCE, len(text) if end is None else max(start, end))
    return f"(characters {start:,} to {last:,} of {len(text):,})\n{text[start:last]}"


async def _find_text(name: str) -> str:
    """Return a whole result by its name, or by the id of a call of this run. Raises `NotDone`."""
    here, earlier = current_run(), here_calls()
    if name in earlier:
        seen = earlier[name][1]
        name = find_name(seen.text) if seen.size else ""
        if not name:
            return seen.text
    text = await here.kept_texts.find_result(name) if _NAME.fullmatch(name) else None
    if text is None:
        raise NotDone(f"there is no result {name[:40]!r}; its id is told where it was shortened, such as res_0123…")
    return text


def here_calls() -> dict[str, tuple[AgentAction, Observation]]:
    """Return the calls of this run so far, by their ids."""
    call = current_run().call
    return {} if call is None else {action.id: (action, seen) for _, action, seen in call.earlier}


def _find_lines(text: str, pattern: str, start: int) -> str:
    """Return the lines with the pattern, each after the place of its first character; of long ones, what is around."""
    wanted, found, at, more, room = f"*{pattern.lower()}*", list[str](), 0, 0, _AT_ONCE
    first = next(filter(None, pattern.lower().split("*")), "")
    for line in text.splitlines(keepends=True):
        if at >= start and fits_pattern(wanted, line.lower()):
            begin = max(0, line.lower().find(first) - _AROUND) if len(line) > 4 * _AROUND else 0
            shown = f"{at + begin}: {line[begin : begin + 4 * _AROUND].rstrip()}"
            more += room < len(shown)
            found += [shown] if room >= len(shown) else []
            room -= len(shown)
        at += len(line)
    rest = f"\n({more:,} more lines; look from a later start)" if more else ""
    return "\n".join(found) + rest if found else f"(No line has {pattern!r:.100}.)"


READ_RESULT: Any = Tool("read_result", read_result, effects="read", max_result=2 * _AT_ONCE)
"""The tool, which each run knows; a model is told of it once it can need it."""
