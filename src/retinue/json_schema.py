"""JSON Schema, bounded: a schema is held to a size, and to check a value costs no more than a multiple of its size.

A schema may come from a stranger, and is checked where everything else waits for it. So patterns are matched in linear
time, by RE2, and each keyword that is looked at is counted: references that branch at each level, or a million values
held against each other, end in `TooMuch`, always at the same place, so that a run that is replayed ends as it did.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from .errors import DataError

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

MAX_NODES = 2_000  # values in a schema
MAX_CHARS = 120_000  # characters of it, as JSON
MAX_PATTERN = 2_000  # characters of a pattern
MAX_MATCHED = 20_000  # characters of a string that is held against one
_BASE, _EACH = 5_000, 100  # what a check may cost: so much, and so much more for each value in what is checked,
_MOST = 500_000  # but no more than this
_MEMORY = 1 << 19  # bytes that RE2 may use for a pattern
_LITERAL = ("const", "enum", "default", "examples")  # what is in these is no schema
_UNICODE_ESCAPE = re.compile(r"((?<!\\)(?:\\\\)*)\\u([0-9a-fA-F]{4})")  # of ECMA-262, which RE2 does not know
_left: ContextVar[list[int]] = ContextVar("left")

Errors = Callable[[Any], "list[ValidationError]"]


class TooMuch(Exception):
    """To go on would take too long."""


def check_schema(schema: Mapping[str, Any]) -> None:
    """Raises `DataError` for what is no JSON Schema, is larger than 2,000 values, or has a pattern that cannot be
    matched in linear time: one with look-around or back-references."""
    from jsonschema.exceptions import best_match

    _bounded(schema)
    kind = _kind_of(schema)
    try:
        with _at_most(1_000 * MAX_NODES):
            error = best_match(_counted(kind)(kind.META_SCHEMA).iter_errors(schema))
    except (TooMuch, RecursionError) as too_much:
        raise DataError("not a JSON Schema that can be checked: it is too large") from too_much
    if error is not None:
        raise DataError(f"not a JSON Schema: {error.json_path}: {error.message:.300}")
    for pattern in _patterns(schema):
        compiled(pattern)


def errors_of(schema: Mapping[str, Any]) -> Errors:
    """What says how a value does not fit `schema`, which was checked. The function raises `TooMuch`."""
    from referencing import Registry

    validator = _counted(_kind_of(schema))(schema, registry=Registry())  # an empty registry fetches nothing

    def errors(value: Any) -> list[ValidationError]:
        try:
            with _at_most(min(_BASE + _EACH * size_of(value), _MOST)):
                return list(validator.iter_errors(value))
        except (RecursionError, ArithmeticError) as error:
            raise TooMuch from error

    return errors


def _kind_of(schema: Mapping[str, Any]) -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for

    named = schema if isinstance(schema.get("$schema"), str) else {}
    return validator_for(named, default=Draft202012Validator)


def size_of(value: Any) -> int:
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


@lru_cache(maxsize=128)
def compiled(pattern: str) -> Any:
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


def _bounded(schema: Mapping[str, Any]) -> None:
    try:
        text = json.dumps(schema)
        size = size_of(schema)
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(f"not a JSON Schema: $: {error}") from error
    if len(text) > MAX_CHARS or size > MAX_NODES + len(text) // 100:
        raise DataError(f"it is too large: want at most {MAX_NODES:,} values, and {MAX_CHARS:,} characters")
    if '"unevaluatedProperties"' in text and '"patternProperties"' in text:
        raise DataError("'unevaluatedProperties' and 'patternProperties' cannot be used together")


def _patterns(schema: Any) -> Iterator[str]:
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
            yield from _patterns(one)


# ── counting ─────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _at_most(cost: int) -> Iterator[None]:
    token = _left.set([cost])
    try:
        yield
    finally:
        _left.reset(token)


def _spend(cost: int) -> None:
    left = _left.get()
    left[0] -= cost
    if left[0] < 0:
        raise TooMuch


@cache
def _counted(kind: Any) -> Any:
    """A dialect's validator, which counts what it does and has keywords of ours where its own may not end."""
    from jsonschema.validators import extend

    checker = kind.TYPE_CHECKER
    own = {"pattern": _pattern, "patternProperties": _pattern_properties, "uniqueItems": _unique_items}
    keywords = {**kind.VALIDATORS, **{name: check for name, check in own.items() if name in kind.VALIDATORS}}
    keywords["additionalProperties"] = _additional_properties(kind.VALIDATORS["additionalProperties"])

    def is_boolean(_: Any, instance: Any) -> bool:  # which what looks for unevaluated properties asks at each step
        _spend(1)
        return bool(checker.is_type(instance, "boolean"))

    types = checker.redefine("boolean", is_boolean)
    return extend(  # type: ignore[no-untyped-call]
        kind, {name: _counting(check) for name, check in keywords.items()}, type_checker=types
    )


def _counting(check: Any) -> Any:
    def counting(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        _spend(1 + _width(value) + _width(instance))
        for error in check(validator, value, instance, schema) or ():
            _spend(1 + len(error.message) // 50)
            yield error

    return counting


def _width(value: Any) -> int:
    return len(value) if isinstance(value, dict | list) else 0


def _matches(pattern: str, text: str) -> bool:
    """Whether `pattern` is found in `text`."""
    try:
        found = compiled(pattern)
        _spend(1 + len(text) * found.programsize // 200)
        if len(text) > MAX_MATCHED:
            raise TooMuch
        return found.search(text) is not None
    except (DataError, UnicodeEncodeError) as error:
        raise TooMuch from error


def _pattern(validator: Any, pattern: str, instance: Any, _: Any) -> Iterator[Any]:
    if validator.is_type(instance, "string") and not _matches(pattern, instance):
        yield _error(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Mapping[str, Any], instance: Any, _: Any) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    for pattern, inner in patterns.items():
        for key, value in instance.items():
            if _matches(pattern, key):
                yield from validator.descend(value, inner, path=key, schema_path=pattern)


def _additional_properties(known: Any) -> Any:
    """That keyword: `known`, but beside `patternProperties`."""

    def check(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[Any]:
        patterns = schema.get("patternProperties")
        if not patterns or not validator.is_type(instance, "object"):
            yield from known(validator, wanted, instance, schema) or ()
            return
        described = {key for key in instance if any(_matches(pattern, key) for pattern in patterns)}
        rest = {key: value for key, value in instance.items() if key not in described}
        bare = {"properties": schema.get("properties", {})}
        yield from known(validator, wanted, rest, bare) or ()

    return check


def _unique_items(validator: Any, wanted: Any, instance: Any, _: Any) -> Iterator[Any]:
    if not wanted or not validator.is_type(instance, "array"):
        return
    _spend(size_of(instance))
    if len({_canonical(one) for one in instance}) < len(instance):
        yield _error(f"{instance!r} has non-unique elements")


def _canonical(value: Any) -> str:
    """The same for what JSON Schema calls equal: 1 and 1.0 are, 1 and true are not."""

    def plain(one: Any) -> Any:
        if isinstance(one, float) and one.is_integer():
            return int(one)
        if isinstance(one, dict):
            return {key: plain(inner) for key, inner in one.items()}
        return [plain(inner) for inner in one] if isinstance(one, list) else one

    return json.dumps(plain(value), sort_keys=True)


def _error(message: str) -> ValidationError:
    from jsonschema.exceptions import ValidationError

    return ValidationError(message)
