"""Which commands only read: those of a short list, joined by pipes and the like, without redirections, variables and
substitutions. When in doubt, a command counts as one that changes something.

It is not a fence. A command that counts as reading gets its folder read-only and no network, so it cannot do more."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from ..core.tools.tool import Effects

_READING = frozenset(
    "[ basename cat cd cmp comm cut date df diff dirname du echo egrep false fgrep file find fold grep head hexdump id "
    "jq ls md5sum nl od paste printf pwd realpath rg seq sha1sum sha256sum sort stat strings tac tail test tr tree "
    "true type uname uniq wc which xxd".split()
)
_GIT = frozenset("blame describe diff grep log ls-files ls-tree rev-parse shortlog show status".split())
_WRITING_OPTIONS: Mapping[str, str] = {
    "find": r"-(?:delete|exec|ok|fprint|fls).*",
    "sort": r"-\w*o.*|--[oc].*",
    "tree": r"-\w*o.*",
    "rg": r"--pre.*",
    "date": r"-\w*s.*|--set.*",
    "git": r"--ou.*|-O.*|--open.*|--ext-diff|--textconv",
}
_TOKEN = re.compile(
    r"""[ \t]*(?:(?P<quiet>[12]?(?:>&1|> ?/dev/null)(?=[\s;|&]|$))|(?P<joint>\|\|?|&&|;)"""
    r"""|(?P<word>(?:'[^'\n]*'|"[^"$`\\\n]*"|\\[^\n]|[\w./,:=@%+~*?^\[\]-])+))"""
)


def find_effects(arguments: Mapping[str, Any]) -> Effects:
    """Return the effects of a command."""
    return "read" if all(map(_only_reads, _split_parts(str(arguments["command"]).strip()))) else "once"


def _split_parts(command: str) -> Iterator[list[str]]:
    """Yield the words of each part of a command; no words for one that is not as simple as that."""
    words: list[str] = []
    at = 0
    while at < len(command):
        found = _TOKEN.match(command, at)
        if found is None:
            yield []
            return
        at = found.end()
        if found["joint"]:
            yield words
            words = []
        elif found["word"]:
            words += shlex.split(found["word"])
    yield words


def _only_reads(words: list[str]) -> bool:
    if not words:
        return False
    name, rest = words[0], words[1:]
    if name == "git" and not (rest and rest[0] in _GIT):
        return False
    if name == "uniq" and sum(not one.startswith("-") for one in rest) > 1:  # the second is what it writes to
        return False
    writes = re.compile(_WRITING_OPTIONS.get(name, "(?!)"))
    return (name in _READING or name == "git") and not any(map(writes.fullmatch, rest))
