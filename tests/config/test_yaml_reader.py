"""Reading YAML: what scalars mean, where things stand, and that nothing but problems comes of any text."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings, strategies as st

from retinue import DataError
from retinue._internal import yaml_text as yaml_reader
from retinue._internal.source_text import Place, fail
from retinue._internal.yaml_text import read_file, read_text
from sampling import examples

DATA = Path(__file__).parents[1] / "data" / "formats"
WORDS = st.sampled_from(
    ["a", ":", ": ", "- ", "? ", "[", "]", "{", "}", ",", '"', "'", "&x ", "*x", "!", "<<", "|", ">", "%", "#", "---",
     "...", "\n", "  ", "\t", "\\", "é", "💡", "\r", "\u2028", "\ufeff", "\0", "no", "1"]
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"), ("on", "on"), ("yes", "yes"), ("off", "off"), ("true", True), ("False", False), ("tRUE", "tRUE"),
        ("null", None), ("~", None), ("", None), ("Null", None), ("12", 12), ("-7", -7), ("+3", 3), ("012", 12),
        ("0o17", 15), ("0x1F", 31), ("0b1", "0b1"), ("1_000", "1_000"), ("1:30", "1:30"), ("1.5", 1.5), (".5", 0.5),
        ("1.", 1.0), ("1e3", 1000.0), ("-.inf", -math.inf), (".Inf", math.inf), ("1.2.3", "1.2.3"), (".", "."),
        ("-", [None]), ("2024-01-01", "2024-01-01"), ("9999-99-99", "9999-99-99"), ("'12'", "12"), ('"no"', "no"),
        ("0o8", "0o8"), ("-0o7", "-0o7"), ("inf", "inf"), ("١٢", "١٢"),
    ],
)  # fmt: skip
def test_scalars_mean_what_yaml_1_2_says(text: str, value: Any) -> None:
    found = read_text(text)
    assert found.problems == ()
    assert found.value == value
    assert type(found.value) is type(value)


def test_not_a_number_is_one_too() -> None:
    assert math.isnan(read_text(".nan").value)


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    assert read_text(b"\xef\xbb\xbfa: 1").value == {"a": 1}
    assert read_text("\ufeffa: 1").keys[("a",)] == Place(1, 1)


def test_several_problems_are_found_in_one_reading() -> None:
    found = read_text("a: *x\nb: !t 1\n<<: {c: 1}\na: 2\n? [k]\n: v\nd: ok\n")
    assert [problem[1:3] for problem in found.problems] == [(1, 4), (2, 4), (3, 1), (4, 1), (5, 3)]
    assert found.value == {"a": None, "b": 1, "d": "ok"}


@pytest.mark.parametrize("path", sorted(DATA.iterdir()), ids=lambda path: path.name)
def test_the_seeds_files_mean_the_same_as_to_pyyaml(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = read_file(path)
    assert ours.problems == ()
    assert ours.value == yaml.safe_load(path.read_text("utf-8"))
    monkeypatch.setattr(yaml_reader, "_LOADER", yaml.SafeLoader)  # where libyaml is missing
    assert read_file(path) == ours


@settings(max_examples=examples(400))
@given(st.one_of(st.text(), st.binary(), st.lists(WORDS).map("".join)), st.booleans())
def test_nothing_but_problems_comes_of_any_text(text: str | bytes, in_python: bool) -> None:
    kept = yaml_reader._LOADER
    yaml_reader._LOADER = yaml.SafeLoader if in_python else kept
    try:
        found = read_text(text)
    finally:
        yaml_reader._LOADER = kept
    lines = text.count("\n") + text.count("\r") + 1 if isinstance(text, str) else math.inf
    assert all(1 <= problem.line <= lines and problem.column >= 1 for problem in found.problems)
    if found.problems:
        with pytest.raises(DataError, match=re.escape("<text>:1:1: " if not found.whole else "<text>:")[:7]):
            fail(found.problems)


TEXTS = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), max_size=10)  # no pairs of escapes
TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=examples(150))
@given(TREES, st.sampled_from([None, 1, 2]))
def test_places_are_right_and_json_is_yaml(tree: Any, indent: int | None) -> None:
    text = json.dumps(tree, indent=indent)
    found = read_text(text)
    assert found.problems == ()
    assert found.value == tree
    lines = text.splitlines()
    for path, place in found.keys.items():
        assert lines[place.line - 1][place.column - 1 :].startswith(json.dumps(path[-1]))
        assert path in found.values
    for path, place in found.values.items():
        value = tree
        for part in path:
            value = value[part]
        first = json.dumps(value)[:1] if isinstance(value, dict | list) else json.dumps(value)
        assert lines[place.line - 1][place.column - 1 :].startswith(first)


NAMES = st.lists(st.from_regex(r"[a-zé💡][a-z 💡]{0,5}[a-z]", fullmatch=True), unique=True, max_size=5)


@settings(max_examples=examples(100))
@given(NAMES, st.sampled_from(["\n", "\r\n", "\r"]), st.sampled_from(["", "# a comment 💡", "---"]))
def test_places_are_right_in_blocks(names: list[str], line_break: str, first: str) -> None:
    lines = [first, *(line for name in names for line in (f"{name}:", f"  - {name} : 1", f"    x{name}:"))]
    text = line_break.join(lines)
    found = read_text(text.encode())
    assert found.problems == ()
    for path, place in [*found.keys.items()]:
        assert lines[place.line - 1][place.column - 1 :].startswith(str(path[-1]))
    assert len(found.keys) == 3 * len(names)


def test_json_may_escape_a_character_as_two_halves(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text(r'{"a": "\ud83d\ude00", "b": "\\ud83d\\ude00", "c": "\u00e9"}', "ascii")
    assert read_file(file).value == {"a": "😀", "b": r"\ud83d\ude00", "c": "é"}
