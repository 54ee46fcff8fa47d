"""Specs as YAML again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st

from fakes.config_files import SEED, opea
from retinue._internal.yaml_text import dump_value, read_text
from retinue.config import dump, load_spec
from sampling import examples

SCALARS = st.sampled_from(
    ["no", "0o17", "1e3", "1_000", "1:30", "~", "", "<<", "=", "012", "- a", "a: b", "x\n\n y \n"]
)
TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9) | SCALARS, inner, max_size=4),
    max_leaves=15,
)


@settings(max_examples=examples(300))
@given(TREES)
@example(["\x85", "\u2028", "\ufeff", "💡", "a\r\nb", "\t", " a", "\n", "a\n "])
def test_what_is_written_is_read_as_the_same(tree: Any) -> None:
    found = read_text(dump_value(tree))
    assert found.problems == ()
    assert found.value == tree


@pytest.mark.parametrize("name", ["haystack", "opea"])
def test_a_spec_is_saved_as_what_loads_as_the_same(name: str, tmp_path: Path) -> None:
    spec = load_spec(SEED if name == "haystack" else opea(tmp_path))
    path = tmp_path / "again.yml"
    path.write_text(dump(spec), "utf-8")
    assert load_spec(path).model_dump() == spec.model_dump()


def test_variables_stay_variables(tmp_path: Path) -> None:
    path = tmp_path / "a.yml"
    path.write_text("components:\n  - {name: S, type: SerpAPIComponent, params: {api_key: '${KEY}'}}\n")
    assert "api_key: ${KEY}\n" in dump(load_spec(path))
