"""The rules of a site's `robots.txt` for this program (RFC 9309).

The file comes from a stranger, so matching takes linear time whatever its patterns are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .url_policy import quote_path

AGENT = "retinue"
MAX_FILE = 512_000  # bytes, of which RFC 9309 wants at least 500 KiB read
_TOKEN = re.compile(r"[A-Za-z_-]+")
_ESCAPE = re.compile(r"%[0-9a-fA-F]{2}")


@dataclass(frozen=True, slots=True)
class Robots:
    """Rules: a pattern of paths, and whether these may be read. The longest pattern that fits a path decides."""

    rules: tuple[tuple[str, bool], ...] = ()

    @classmethod
    def read(cls, text: str) -> Robots:
        """Return the rules for `AGENT` in the text of a file, or else those for `*`. Nothing in it is an error."""
        groups: dict[str, list[tuple[str, bool]]] = {}
        agents: list[str] = []
        begun = False  # the agents of a group are complete
        for line in text.removeprefix("\ufeff").splitlines():
            key, colon, value = (part.strip() for part in line.partition("#")[0].partition(":"))
            if key.lower() == "user-agent" and colon:
                agents, begun = ([] if begun else agents), False
                token = _TOKEN.match(value)
                agents.append("*" if value.startswith("*") else token[0].lower() if token else "")
                groups.setdefault(agents[-1], [])
            elif key.lower() in ("allow", "disallow") and colon:
                begun = True
                for agent in agents if value else ():
                    groups[agent].append((_normalize(value), key.lower() == "allow"))
        return cls(tuple(groups.get(AGENT, groups.get("*", ()))))

    def is_allowed(self, path: str) -> bool:
        """Return whether `path`, with its query, may be read."""
        path = _normalize(path)
        fitting = [(len(pattern), allowed) for pattern, allowed in self.rules if _is_match(pattern, path)]
        return max(fitting, default=(0, True))[1]


FORBIDDEN = Robots((("/", False),))
"""Nothing may be read, because the server failed to say what may be."""


def _normalize(path: str) -> str:
    return _ESCAPE.sub(lambda found: found[0].upper(), quote_path(path))


def _is_match(pattern: str, path: str) -> bool:
    """Whether `pattern` fits the beginning of `path`; `*` is any text, and `$` at the end is the path's end."""
    first, *pieces = pattern.removesuffix("$").split("*")
    if not path.startswith(first):
        return False
    at, last = len(first), pieces.pop() if pieces else None
    for piece in pieces:
        at = path.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    if not pattern.endswith("$"):
        return last is None or path.find(last, at) >= 0
    return at == len(path) if last is None else path.endswith(last) and len(path) - len(last) >= at
