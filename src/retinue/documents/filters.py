"""Filters on documents: `where` as data, translated to SQL.

>>> condition({"kind": "page", "year": {"gte": 2020}})[1][:2]
['$."kind"', 'page']
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from .._internal.message_text import suggestion
from ..errors import UsageError
from ..tools.keyword_search import storable

Where = Mapping[str, Any]
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_COMPARISONS = {"eq": "=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_OPERATORS = (*_COMPARISONS, "ne", "in")
_LARGEST = 2**63


def sql_condition(where: Where | None) -> tuple[str, list[Any]]:
    """Return the SQL condition on a row's `meta`, and its parameters. No text of `where` becomes part of the SQL.

    `{"url": "…"}` is equality, `{"year": {"gte": 2020, "lt": 2025}}` compares; all conditions must hold. Operators: eq,
    ne, gt, gte, lt, lte, in (with a list). Texts are compared only with texts, numbers only with numbers, and `None`
    equals a missing value. Raises `UsageError` for an invalid key, operator or value.
    """
    texts, bound = ["1"], []
    for key, wanted in (where or {}).items():
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            raise UsageError(f"where: {str(key)[:80]!r} is not a key (want letters, digits, '_', '.', '-'; at most 64)")
        for operator, value in wanted.items() if isinstance(wanted, Mapping) else [("eq", wanted)]:
            for text, values in _compared(key, operator, value):
                texts.append(text)
                bound += values
    return " AND ".join(texts), bound


def _compared(key: str, operator: str, value: Any) -> Iterator[tuple[str, list[Any]]]:
    if operator not in _OPERATORS:
        raise UsageError(f"where: {key}: no operator {str(operator)[:80]!r}; {suggestion(str(operator), _OPERATORS)}")
    if operator == "in":
        if not isinstance(value, list | tuple | set | frozenset):
            raise UsageError(f"where: {key}: 'in' requires a list of values, not {value!r:.80}")
        texts = [storable(one) for one in value if isinstance(one, str)]
        each = [_comparison(key, "eq", one) for one in value if not isinstance(one, str)]
        each += [_among(key, texts)] if texts else []
        yield f"({' OR '.join(text for text, _ in each) or '0'})", [one for _, values in each for one in values]
    elif operator == "ne":
        text, values = _comparison(key, "eq", value)
        yield f"NOT ({text})", values
    else:
        yield _comparison(key, operator, value)


def _among(key: str, texts: list[str]) -> tuple[str, list[Any]]:
    """Match any of the texts; a single list avoids SQLite's limit on nested comparisons."""
    path = f'$."{key}"'
    text = "json_type(meta, ?) = 'text' AND json_extract(meta, ?) IN (SELECT value FROM json_each(?))"
    return f"coalesce({text}, 0)", [path, path, json.dumps(texts)]


def _comparison(key: str, operator: str, value: Any) -> tuple[str, list[Any]]:
    """Compare a value; `coalesce` turns SQL's NULL (the key is missing) into false, so that it can be negated."""
    path = f'$."{key}"'
    if operator == "eq" and (value is None or isinstance(value, bool)):
        return "coalesce(json_type(meta, ?), 'null') = ?", [path, {None: "null", True: "true", False: "false"}[value]]
    if isinstance(value, str):
        kinds, value = "'text'", storable(value)
    elif isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value):
        kinds, value = "'integer', 'real'", value if abs(value) < _LARGEST else float(value)
    else:
        raise UsageError(f"where: {key}: {value!r:.80} cannot be compared (want a text or a number)")
    return (
        f"coalesce(json_type(meta, ?) IN ({kinds}) AND json_extract(meta, ?) {_COMPARISONS[operator]} ?, 0)",
        [path, path, value],
    )
