"""YAML 1.2: read to plain values with positions, strictly and within bounds, and written.

The reader consumes parser events, so nothing recurses and tags construct nothing, and it stops at the first event
beyond a limit.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from .problems import KeyPath, Place, Problem, Source
from .specs import FileSpec

MAX_DIGITS = 400  # per integer
MAX_BYTES = 1_000_000
MAX_DEPTH = 50
MAX_NODES = 20_000
MAX_PROBLEMS = 50
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_HALVES = re.compile(r"(?<!\\)((?:\\\\)*)(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})")
_BREAK = re.compile(r"\r\n|\r|\n")
_BOMS = {
    codecs.BOM_UTF32_LE: "UTF-32", codecs.BOM_UTF32_BE: "UTF-32", codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}  # fmt: skip
_PLAINER = {
    "mapping values are not allowed in this context": "a ':' is not allowed; quote the text or fix the indentation",
    "could not find expected ':'": "want 'key: value' here; a ':' is missing",
    "did not find expected key": "want a key here; fix the indentation, or quote the text",
    "did not find expected '-' indicator": "want '- ' here, for the list's next item; fix the indentation",
    "did not find expected ',' or ']'": "want ',' or ']' here",
    "did not find expected ',' or '}'": "want ',' or '}' here",
    "did not find expected node content": "want a value here",
    "did not find expected <document start>": "unexpected text after the end of the value",
    "found unexpected end of stream": "the closing quote is missing",
    "found character that cannot start any token": "a text cannot begin with this character; quote it",
    "block sequence entries are not allowed in this context": "'- ' is not allowed; begin the list on its own line",
}
_HOW = {
    "anchor": "anchors (&) are not allowed; write the value out",
    "alias": "aliases (*) are not allowed; write the value out",
    "tag": "tags (!) are not allowed; values are texts, numbers, true, false, null, lists and mappings",
    "merge": "merge keys (<<) are not allowed; write the keys out",
}
_ESCAPED = re.compile("[^\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd]")
_INT = re.compile(r"[-+]?[0-9]+")
_BASED_INT = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WORDS = {"": None, "~": None} | {
    form: value
    for word, value in (("null", None), ("true", True), ("false", False))
    for form in (word, word.title(), word.upper())
}


def parse_scalar(text: str) -> Any:
    """Return the value of an unquoted scalar in YAML 1.2's core schema. Raises `ValueError` for too many digits."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    if _INT.fullmatch(text) or _BASED_INT.fullmatch(text):
        if len(text) > MAX_DIGITS:
            raise ValueError(f"a number of {len(text):,} digits")
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    if not _FLOAT.fullmatch(text):
        return text
    return float(text if text[-1] in "0123456789." else text.replace(".", ""))  # .inf and .nan are Python's inf and nan


def parse_scalar_or_text(text: str) -> Any:
    """Return the value of an unquoted scalar; a number that is too long stays a text."""
    try:
        return parse_scalar(text)
    except ValueError:
        return text


def read_file(path: str | Path) -> Source:
    """Read the YAML file at `path`. Never raises: problems are in the source's `problems`."""
    file = str(path)
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):
            return _refuse_source(file, "not a file")
        with Path(path).open("rb") as opened:
            data = opened.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return _refuse_source(file, "there is no such file")
    except OSError as error:
        return _refuse_source(file, os.strerror(error.errno) if error.errno else str(error))
    except ValueError:  # a NUL in the path
        return _refuse_source(file.replace("\0", "\\0"), "not a valid path")
    return read_text(data, file)


def read_text(text: str | bytes, file: str = "<text>") -> Source:
    """Parse the YAML in `text`. Never raises: problems are in the source's `problems`."""
    if isinstance(text, bytes):
        if len(text) > MAX_BYTES:
            return _refuse_source(file, f"larger than {MAX_BYTES:,} bytes")
        for bom, name in _BOMS.items():
            if text.startswith(bom):
                return _refuse_source(file, f"written in {name}; save it as UTF-8")
        try:
            text = bytes(text).decode()
        except UnicodeDecodeError as error:
            bad = error.object[error.start]
            before = error.object[: error.start].decode(errors="replace").removeprefix("\ufeff")
            return _refuse_source(file, f"not UTF-8: the byte 0x{bad:02x}; save it as UTF-8", _end(before))
    elif len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        return _refuse_source(file, f"larger than {MAX_BYTES:,} bytes")
    text = text.removeprefix("\ufeff")
    if text.lstrip()[:1] in ("{", "["):  # JSON escapes a character beyond U+FFFF as two halves, which YAML lacks
        text = _HALVES.sub(lambda found: f"{found[1]}{json.loads(f'{chr(34)}{found[2]}{chr(34)}')}", text)
    if forbidden := _FORBIDDEN.search(text):
        message = f"the character U+{ord(forbidden[0]):04X} is not allowed in YAML"
        return _refuse_source(file, message, _end(text[: forbidden.start()]))
    reader = _Reader(file)
    whole = reader.read(yaml.parse(text, Loader=_LOADER), text)
    problems = sorted(dict.fromkeys(reader.problems), key=lambda problem: problem[1:3])
    return Source(file, reader.value, reader.keys, reader.values, tuple(problems), whole)


class _Stop(Exception):
    """Stops reading."""


@dataclass(slots=True)
class _Open:
    """An open mapping or list. `path` is `None` if its content is dropped: inside a key, or under a refused key."""

    value: Any
    path: KeyPath | None
    is_key: bool = False
    key: str | None = None
    skip: bool = False  # drop the next value


class _Reader:
    """Builds the value from parser events."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.value: Any = None
        self.keys: dict[KeyPath, Place] = {}
        self.values: dict[KeyPath, Place] = {}
        self.problems: list[Problem] = []
        self._open: list[_Open] = []
        self._nodes = 0
        self._documents = 0
        self._place = Place(1, 1)

    def read(self, events: Iterable[Any], text: str) -> bool:
        """Read all events. Return whether the end was reached."""
        try:
            for event in events:
                mark = event.start_mark
                self._place = Place(mark.line + 1, mark.column + 1)
                self._read_event(event)
        except _Stop:
            return False
        except yaml.YAMLError as error:
            self._add_syntax_problem(error, text)
            return False
        except (ValueError, OverflowError) as error:  # raised by PyYAML for invalid escapes
            self.problems.append(Problem(self.file, *self._place, f"cannot be read: {error}"))
            return False
        return True

    def _add_syntax_problem(self, error: yaml.YAMLError, text: str) -> None:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        place = Place(mark.line + 1, mark.column + 1) if mark else self._place
        said = str(getattr(error, "problem", None) or error)
        message = _PLAINER.get(said, said)
        place = min(place, _end(text))  # libyaml counts the end of the text as an additional line
        if _BREAK.split(text)[place.line - 1][place.column - 1 :].startswith("\t"):
            message = "tabs cannot be used for indentation; use spaces"
        self.problems.append(Problem(self.file, *place, message))

    def _read_event(self, event: Any) -> None:
        match event:
            case yaml.ScalarEvent():
                self._count(event)
                self._read_scalar(event)
            case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                self._count(event)
                self._begin({} if isinstance(event, yaml.MappingStartEvent) else [])
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                self._end()
            case yaml.AliasEvent():
                self._count(event)
                self._add_problem(_HOW["alias"])
                self._put(None)
            case yaml.DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    self._add_problem("a second document begins here; only one is allowed")
                    raise _Stop

    def _count(self, event: Any) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            self._add_problem(f"more than {MAX_NODES:,} values")
            raise _Stop
        if event.anchor is not None and not isinstance(event, yaml.AliasEvent):
            self._add_problem(_HOW["anchor"])
        if getattr(event, "tag", None) is not None:
            self._add_problem(_HOW["tag"])

    @property
    def _awaits_key(self) -> bool:
        top = self._open[-1] if self._open else None
        return top is not None and isinstance(top.value, dict) and top.key is None and not top.skip

    def _read_scalar(self, event: Any) -> None:
        plain = not event.style
        if self._awaits_key:
            self._read_key(event.value, plain=plain)
            return
        top = self._open[-1] if self._open else None
        if plain and not event.value and top and top.key is not None and top.path is not None:
            self._place = self.keys[(*top.path, top.key)]  # an empty value has no position, but its key has
        try:
            self._put(parse_scalar(event.value) if plain else event.value)
        except ValueError as error:
            self._add_problem(f"{error} is too long")
            self._put(None)

    def _read_key(self, key: str, *, plain: bool) -> None:
        top = self._open[-1]
        if plain and key in ("", "<<"):
            self._add_problem(_HOW["merge"] if key else "a key is missing before the ':'")
            top.skip = True
        elif key in top.value:
            first = f" (first in line {self.keys[(*top.path, key)].line})" if top.path is not None else ""
            self._add_problem(f"the key {key[:60]!r} appears twice here{first}")
            top.skip = True
        else:
            top.key = key
            if top.path is not None:
                self.keys[(*top.path, key)] = self._place

    def _begin(self, value: Any) -> None:
        if len(self._open) >= MAX_DEPTH:
            self._add_problem(f"nested deeper than {MAX_DEPTH} levels")
            raise _Stop
        if self._awaits_key:
            self._add_problem("a key must be a text")
            self._open.append(_Open(value, None, is_key=True))
            return
        self._open.append(_Open(value, self._put(value)))

    def _end(self) -> None:
        if self._open.pop().is_key:
            self._open[-1].skip = True

    def _put(self, value: Any) -> KeyPath | None:
        """Store `value` at its place. Return its path, if it is kept."""
        if self._awaits_key:  # an alias as a key
            self._open[-1].skip = True
            return None
        if not self._open:
            path: KeyPath | None = ()
            self.value = value
        else:
            path = self._put_into(self._open[-1], value)
        if path is not None:
            self.values[path] = self._place
        return path

    def _put_into(self, top: _Open, value: Any) -> KeyPath | None:
        if isinstance(top.value, list):
            top.value.append(value)
            return None if top.path is None else (*top.path, len(top.value) - 1)
        if top.skip:
            top.skip = False
            return None
        assert top.key is not None
        top.value[top.key] = value
        key, top.key = top.key, None
        return None if top.path is None else (*top.path, key)

    def _add_problem(self, message: str) -> None:
        self.problems.append(Problem(self.file, *self._place, message))
        if len(self.problems) >= MAX_PROBLEMS:
            self.problems.append(Problem(self.file, *self._place, f"stopped reading after {MAX_PROBLEMS} problems"))
            raise _Stop


def _refuse_source(file: str, message: str, place: Place = Place(1, 1)) -> Source:
    return Source(file, problems=(Problem(file, *place, message),), whole=False)


def _end(text: str) -> Place:
    """Return the position after `text`."""
    lines = _BREAK.split(text)
    return Place(len(lines), len(lines[-1]) + 1)


class _Dumper(yaml.SafeDumper):
    """Writes strings so that YAML 1.1 and 1.2 read them as strings, and never uses aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = "|" if "\n" in text else None
    if _ESCAPED.search(text) or not _is_text(text):
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _is_text(text: str) -> bool:
    try:
        return isinstance(parse_scalar(text), str)
    except ValueError:
        return False


_Dumper.add_representer(str, _represent_text)


def dump(spec: FileSpec) -> str:
    """Return `spec` as YAML, with only the keys that were given. `${NAME}` is kept as it is."""
    return dump_value(spec.model_dump(exclude_unset=True))


def dump_value(value: Any) -> str:
    """Return plain dicts, lists and scalars as YAML."""
    return yaml.dump(value, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=120)
