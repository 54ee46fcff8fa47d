"""YAML 1.2: read to plain values with positions, strictly and within bounds, and written.

The reader consumes parser events, so tags construct nothing, and stops at the first event beyond a limit.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import yaml

from .source_text import KeyPath, Place, Problem, Source

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
    if file.endswith(".py"):
        return _refuse_source(file, "this is Python code; want a file of agents here, in YAML")
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
            return _refuse_source(file, f"not UTF-8: the byte 0x{bad:02x}; save it as UTF-8", _find_end(before))
    elif len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        return _refuse_source(file, f"larger than {MAX_BYTES:,} bytes")
    text = text.removeprefix("\ufeff")
    if text.lstrip()[:1] in ("{", "["):  # JSON escapes a character beyond U+FFFF as two halves, which YAML lacks
        text = _HALVES.sub(lambda found: f"{found[1]}{json.loads(f'{chr(34)}{found[2]}{chr(34)}')}", text)
    if forbidden := _FORBIDDEN.search(text):
        message = f"the character U+{ord(forbidden[0]):04X} is not allowed in YAML"
        return _refuse_source(file, message, _find_end(text[: forbidden.start()]))
    reader = _Reader(file)
    whole = reader.read(text)
    problems = sorted(dict.fromkeys(reader.problems), key=lambda problem: problem[1:3])
    return Source(file, reader.value, reader.keys, reader.values, tuple(problems), whole)


def _refuse_source(file: str, message: str, place: Place = Place(1, 1)) -> Source:
    return Source(file, problems=(Problem(file, *place, message),), whole=False)


def _find_end(text: str) -> Place:
    """Return the position after `text`."""
    lines = _BREAK.split(text)
    return Place(len(lines), len(lines[-1]) + 1)


class _Stop(Exception):
    """Stops reading."""


class _Reader:
    """Builds the value of a document from parser events. Within a key, or under a refused one, `path` is `None`: what
    is there is checked and dropped."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.value: Any = None
        self.keys: dict[KeyPath, Place] = {}
        self.values: dict[KeyPath, Place] = {}
        self.problems: list[Problem] = []
        self._nodes = 0
        self._depth = 0
        self._place = Place(1, 1)  # of the latest event

    def read(self, text: str) -> bool:
        """Read `text`. Return whether its end was reached."""
        self._events = self._follow_events(text)
        documents = 0
        try:
            for event in self._events:
                if isinstance(event, yaml.NodeEvent):
                    self.value = self._read_node(event, ())
                elif isinstance(event, yaml.DocumentStartEvent):
                    documents += 1
                    if documents > 1:
                        self._stop("a second document begins here; only one is allowed")
        except _Stop:
            return False
        except yaml.YAMLError as error:
            self._add_syntax_problem(error, text)
            return False
        except (ValueError, OverflowError) as error:  # raised by PyYAML for invalid escapes
            self.problems.append(Problem(self.file, *self._place, f"cannot be read: {error}"))
            return False
        return True

    def _follow_events(self, text: str) -> Iterator[Any]:
        events: Iterable[Any] = yaml.parse(text, Loader=_LOADER)
        for event in events:
            self._place = Place(event.start_mark.line + 1, event.start_mark.column + 1)
            yield event

    def _read_node(self, event: Any, path: KeyPath | None) -> Any:
        """Return the value that begins with `event`."""
        self._check_node(event)
        if path is not None:  # an empty value has no position, but its key has
            empty = isinstance(event, yaml.ScalarEvent) and not event.style and not event.value
            self.values[path] = self.keys.get(path, self._place) if empty else self._place
        match event:
            case yaml.AliasEvent():
                self._add_problem("aliases (*) are not allowed; write the value out")
                return None
            case yaml.ScalarEvent():
                try:
                    return event.value if event.style else parse_scalar(event.value)
                except ValueError as error:
                    self._add_problem(f"{error} is too long")
                    return None
        if self._depth >= MAX_DEPTH:
            self._stop(f"nested deeper than {MAX_DEPTH} levels")
        self._depth += 1
        value = self._read_mapping(path) if isinstance(event, yaml.MappingStartEvent) else self._read_list(path)
        self._depth -= 1
        return value

    def _read_list(self, path: KeyPath | None) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._read_node(event, None if path is None else (*path, len(items))))
        return items

    def _read_mapping(self, path: KeyPath | None) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._read_key(event, mapping, path)
            inner = None if key is None or path is None else (*path, key)
            if inner is not None:
                self.keys[inner] = self._place
            value = self._read_node(next(self._events), inner)
            if key is not None:
                mapping[key] = value
        return mapping

    def _read_key(self, event: Any, mapping: Mapping[str, Any], path: KeyPath | None) -> str | None:
        """Return the key that begins with `event`, or `None` if it is refused."""
        if not isinstance(event, yaml.ScalarEvent):
            if not isinstance(event, yaml.AliasEvent):
                self._add_problem("a key must be a text")
            self._read_node(event, None)
            return None
        self._check_node(event)
        key: str = event.value
        if not event.style and key in ("", "<<"):
            merge = "merge keys (<<) are not allowed; write the keys out"
            self._add_problem(merge if key else "a key is missing before the ':'")
            return None
        if key in mapping:
            first = "" if path is None else f" (first in line {self.keys[(*path, key)].line})"
            self._add_problem(f"the key {key[:60]!r} appears twice here{first}")
            return None
        return key

    def _check_node(self, event: Any) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            self._stop(f"more than {MAX_NODES:,} values")
        if event.anchor is not None and not isinstance(event, yaml.AliasEvent):
            self._add_problem("anchors (&) are not allowed; write the value out")
        if getattr(event, "tag", None) is not None:
            self._add_problem(
                "tags (!) are not allowed; values are texts, numbers, true, false, null, lists and mappings"
            )

    def _add_syntax_problem(self, error: yaml.YAMLError, text: str) -> None:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        place = Place(mark.line + 1, mark.column + 1) if mark else self._place
        said = str(getattr(error, "problem", None) or error)
        message = _PLAINER.get(said, said)
        place = min(place, _find_end(text))  # libyaml counts the end of the text as an additional line
        if _BREAK.split(text)[place.line - 1][place.column - 1 :].startswith("\t"):
            message = "tabs cannot be used for indentation; use spaces"
        self.problems.append(Problem(self.file, *place, message))

    def _add_problem(self, message: str) -> None:
        self.problems.append(Problem(self.file, *self._place, message))
        if len(self.problems) >= MAX_PROBLEMS:
            self._stop(f"stopped reading after {MAX_PROBLEMS} problems")

    def _stop(self, message: str) -> NoReturn:
        self.problems.append(Problem(self.file, *self._place, message))
        raise _Stop


class _Dumper(yaml.SafeDumper):
    """Writes strings so that YAML 1.1 and 1.2 read them as strings, and never uses aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    try:
        plain = not _ESCAPED.search(text) and isinstance(parse_scalar(text), str)
    except ValueError:
        plain = False
    style = None if "\n" not in text else "|"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style if plain else '"')


_Dumper.add_representer(str, _represent_text)


def dump_value(value: Any) -> str:
    """Return plain dicts, lists and scalars as YAML."""
    return yaml.dump(value, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=120)
