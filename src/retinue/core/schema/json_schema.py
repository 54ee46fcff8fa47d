"""JSON Schema with bounded cost: schemas are limited in size, and checking a value costs at most a multiple of its
size.

Schemas may come from strangers and are checked on the event loop. So patterns are matched in linear time by RE2, and
every keyword evaluation is counted: references that branch at each level, or a million values compared with each other,
end in `TooMuch`. They always end at the same point, so that replay is deterministic.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from ...errors import DataError

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError


MAX_PATTERN = 2_000  # characters of a pattern
MAX_MATCHED = 20_000  # characters of a string that is held against one
_MEMORY = 1 << 19  # bytes that RE2 may use for a pattern
_UNICODE_ESCAPE = re.compile(r"((?<!\\)(?:\\\\)*)\\u([0-9a-fA-F]{4})")  # of ECMA-262, which RE2 does not know


class TooMuch(Exception):
    """To go on would take too long."""


class _Check:
    """A check under way: what it may still cost, and what was wrong with values to which references were followed.
    `dynamic`: what a reference leads to may depend on those that were followed before, so it is followed each time."""

    def __init__(self, left: int, dynamic: bool) -> None:
        self.left = left
        self.dynamic = dynamic
        self.following: set[tuple[int, int]] = set()
        self.known: dict[tuple[int, int], ValidationError | None] = {}


_checking: ContextVar[_Check] = ContextVar("checking")


@contextmanager
def at_most(cost: int, *, dynamic: bool = False) -> Iterator[None]:
    """Let a check in the block cost no more than this; beyond it raises `TooMuch`. `dynamic`: the schema has dynamic
    references."""
    token = _checking.set(_Check(cost, dynamic))
    try:
        yield
    finally:
        _checking.reset(token)


def _spend(cost: int) -> None:
    check = _checking.get()
    check.left -= cost
    if check.left < 0:
        raise TooMuch


@cache
def make_counting_validator(kind: Any) -> Any:
    """A dialect's validator, which counts what it does and has keywords of ours where its own may not end."""
    from jsonschema.validators import extend

    checker = kind.TYPE_CHECKER
    own = {
        "pattern": _check_pattern,
        "patternProperties": _check_pattern_properties,
        "uniqueItems": _check_unique_items,
    }
    own["$ref"] = _check_ref(kind.VALIDATORS["$ref"])
    keywords = {**kind.VALIDATORS, **{name: check for name, check in own.items() if name in kind.VALIDATORS}}
    keywords["additionalProperties"] = _check_additional_properties(kind.VALIDATORS["additionalProperties"])

    def is_boolean(_: Any, instance: Any) -> bool:  # which what looks for unevaluated properties asks at each step
        _spend(1)
        return bool(checker.is_type(instance, "boolean"))

    types = checker.redefine("boolean", is_boolean)
    return extend(  # type: ignore[no-untyped-call]
        kind, {name: _count_keyword(check) for name, check in keywords.items()}, type_checker=types
    )


def _count_keyword(check: Any) -> Any:
    def counting(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        _spend(1 + _measure_width(value) + _measure_width(instance))
        for error in check(validator, value, instance, schema) or ():
            _spend(1 + len(error.message) // 50)
            yield error

    return counting


def _measure_width(value: Any) -> int:
    return len(value) if isinstance(value, dict | list) else 0


@lru_cache(maxsize=128)
def compile_pattern(pattern: str) -> Any:
    """`pattern` for RE2. Raises `DataError` for one that it cannot match, or only slowly."""
    import re2

    options = re2.Options()
    options.max_mem = _MEMORY
    options.log_errors = False
    if len(pattern) > MAX_PATTERN:
        raise DataError(f"the pattern {pattern[:40]!r}… has more than {MAX_PATTERN:,} characters")
    try:
        return re2.compile(_UNICODE_ESCAPE.sub(r"\1\\x{\2}", pattern), options)
    except (re2.error, UnicodeEncodeError) as error:
        why = error.args[0].decode("utf-8", "replace") if isinstance(error, re2.error) else str(error)
        raise DataError(
            f"the pattern {pattern[:80]!r} cannot be matched in linear time ({why}); "
            "want a shorter one, or one without look-around and back-references"
        ) from error


def _is_match(pattern: str, text: str) -> bool:
    """Whether `pattern` is found in `text`."""
    try:
        found = compile_pattern(pattern)
        _spend(1 + len(text) * found.programsize // 200)
        if len(text) > MAX_MATCHED:
            raise TooMuch
        return found.search(text) is not None
    except (DataError, UnicodeEncodeError) as error:
        raise TooMuch from error


def _check_pattern(validator: Any, pattern: str, instance: Any, _: Any) -> Iterator[Any]:
    if validator.is_type(instance, "string") and not _is_match(pattern, instance):
        yield _make_error(f"{instance!r} does not match {pattern!r}")


def _check_pattern_properties(validator: Any, patterns: Mapping[str, Any], instance: Any, _: Any) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    for pattern, inner in patterns.items():
        for key, value in instance.items():
            if _is_match(pattern, key):
                yield from validator.descend(value, inner, path=key, schema_path=pattern)


def _check_additional_properties(known: Any) -> Any:
    """That keyword: `known`, but beside `patternProperties`."""

    def check(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[Any]:
        patterns = schema.get("patternProperties")
        if not patterns or not validator.is_type(instance, "object"):
            yield from known(validator, wanted, instance, schema) or ()
            return
        described = {key for key in instance if any(_is_match(pattern, key) for pattern in patterns)}
        rest = {key: value for key, value in instance.items() if key not in described}
        bare = {"properties": schema.get("properties", {})}
        yield from known(validator, wanted, rest, bare) or ()

    return check


def _check_ref(follow: Any) -> Any:
    """That keyword: a value is held against what it refers to once, also where references branch at each level."""

    def check(validator: Any, reference: str, instance: Any, schema: Any) -> Iterator[Any]:
        checking, key = _checking.get(), (id(schema), id(instance))
        known = checking.known
        if checking.dynamic:
            yield from follow(validator, reference, instance, schema)
        elif key in checking.following:  # it leads to itself, of the same value
            raise TooMuch
        elif key not in known:
            checking.following.add(key)
            found = list(follow(validator, reference, instance, schema))
            checking.following.remove(key)
            known[key] = next((_make_error(error.message, error.relative_path) for error in found), None)
            yield from found
        elif (first := known[key]) is not None:  # the rest was said before
            yield _make_error(first.message, first.path)

    return check


def _check_unique_items(validator: Any, wanted: Any, instance: Any, _: Any) -> Iterator[Any]:
    if not wanted or not validator.is_type(instance, "array"):
        return
    _spend(count_values(instance))
    if len({_write_canonical(one) for one in instance}) < len(instance):
        yield _make_error(f"{instance!r} has non-unique elements")


def count_values(value: Any) -> int:
    """The number of values in `value`; a long text counts as several."""
    size, left = 0, [value]
    while left:
        one = left.pop()
        size += 1
        if isinstance(one, Mapping):
            left += one.values()
            size += sum(map(len, one)) // 100
        elif isinstance(one, list | tuple):
            left += one
        elif isinstance(one, str):
            size += len(one) // 100
    return size


def _write_canonical(value: Any) -> str:
    """The same for what JSON Schema calls equal: 1 and 1.0 are, 1 and true are not."""

    def plain(one: Any) -> Any:
        if isinstance(one, float) and one.is_integer():
            return int(one)
        if isinstance(one, dict):
            return {key: plain(inner) for key, inner in one.items()}
        return [plain(inner) for inner in one] if isinstance(one, list) else one

    return json.dumps(plain(value), sort_keys=True)


def _make_error(message: str, path: Iterable[str | int] = ()) -> ValidationError:
    from jsonschema.exceptions import ValidationError

    return ValidationError(message, path=path)


MAX_NODES = 2_000  # values in a schema
MAX_CHARS = 120_000  # characters of a schema, as JSON
_BASE, _EACH = 5_000, 100  # cost limit of a check: a base, plus an amount for each value that is checked,
_MOST = 500_000  # up to this maximum
_MERGED = ("properties", "$defs")
_RECURSIVE, _ITSELF = '"$recursiveRef": "#"', '"$ref": "#"'
_DYNAMIC = ('"$dynamicRef"', '"$recursiveRef"')
_LITERAL = ("const", "enum", "default", "examples")  # their contents are not schemas

Errors = Callable[[Any], "list[ValidationError]"]


def check_schema(schema: Mapping[str, Any]) -> None:
    """Raise `DataError` unless `schema` is a JSON Schema of at most 2,000 values with patterns that match in linear
    time.

    Look-around and back-references do not.
    """
    from jsonschema.exceptions import best_match

    _check_size(schema)
    kind = _choose_validator(schema)
    try:
        with at_most(1_000 * MAX_NODES):
            error = best_match(make_counting_validator(kind)(_flatten_metaschema(kind)).iter_errors(schema))
    except (TooMuch, RecursionError) as too_much:
        raise DataError("cannot check this JSON Schema: it is too large") from too_much
    if error is not None:
        raise DataError(f"not a JSON Schema: {error.json_path}: {error.message:.300}")
    for pattern in _find_patterns(schema):
        compile_pattern(pattern)


def make_validator(schema: Mapping[str, Any]) -> Errors:
    """Return a function that yields why a value does not fit a checked `schema`. The function raises `TooMuch`."""
    from referencing import Registry

    validator = make_counting_validator(_choose_validator(schema))(
        schema, registry=Registry()
    )  # an empty registry fetches nothing
    text = json.dumps(schema)
    dynamic = any(keyword in text for keyword in _DYNAMIC)

    def errors(value: Any) -> list[ValidationError]:
        try:
            with at_most(min(_BASE + _EACH * count_values(value), _MOST), dynamic=dynamic):
                return list(validator.iter_errors(value))
        except (RecursionError, ArithmeticError) as error:
            raise TooMuch from error

    return errors


@cache
def _flatten_metaschema(kind: Any) -> dict[str, Any]:
    """Return a dialect's metaschema as a single schema.

    Dialects from 2019 on split it into seven vocabularies, each of which would visit every part of a schema.
    """
    from jsonschema_specifications import REGISTRY

    meta: dict[str, Any] = kind.META_SCHEMA
    if "allOf" not in meta:
        return meta
    resolver = REGISTRY.resolver(meta["$id"])
    parts = [resolver.lookup(one["$ref"]).contents for one in meta["allOf"]] + [meta]
    merged = {name: {key: value for part in parts for key, value in part.get(name, {}).items()} for name in _MERGED}
    text = json.dumps({"$schema": meta["$schema"], "type": meta["type"], **merged})
    flat: dict[str, Any] = json.loads(text.replace('"$dynamicRef": "#meta"', _ITSELF).replace(_RECURSIVE, _ITSELF))
    return flat


def _choose_validator(schema: Mapping[str, Any]) -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for

    named = schema if isinstance(schema.get("$schema"), str) else {}
    return validator_for(named, default=Draft202012Validator)


def _check_size(schema: Mapping[str, Any]) -> None:
    try:
        text = json.dumps(schema)
        size = count_values(schema)
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(f"not a JSON Schema: $: {error}") from error
    if len(text) > MAX_CHARS or size > MAX_NODES + len(text) // 100:
        raise DataError(f"it is too large: want at most {MAX_NODES:,} values, and {MAX_CHARS:,} characters")
    if '"unevaluatedProperties"' in text and '"patternProperties"' in text:
        raise DataError("'unevaluatedProperties' and 'patternProperties' cannot be used together")


def _find_patterns(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        if isinstance(schema.get("pattern"), str):
            yield schema["pattern"]
        if isinstance(schema.get("patternProperties"), Mapping):
            yield from schema["patternProperties"]
    if isinstance(schema, Mapping | list):
        inner = (
            [value for key, value in schema.items() if key not in _LITERAL] if isinstance(schema, Mapping) else schema
        )
        for one in inner:
            yield from _find_patterns(one)
