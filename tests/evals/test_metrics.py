"""HotpotQA's metrics."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from retinue.evals.marks import compute_f1, is_exact_match, normalize_answer


@pytest.mark.parametrize(
    ("answer", "same"),
    [
        ("The  Beatles!", "beatles"),
        ("a cat, an owl & the dog", "cat owl dog"),
        ("U.S.A.", "usa"),
        ("theatre, another", "theatre another"),
        ("1,234", "1234"),
        ("José\n", "josé"),
        ("the", ""),
        ("", ""),
    ],
)
def test_case_punctuation_articles_and_space_do_not_count(answer: str, same: str) -> None:
    assert normalize_answer(answer) == same


@pytest.mark.parametrize(
    ("answer", "gold", "exact", "score"),
    [
        ("Jane Campion", "Jane Campion", True, 1.0),
        ("the Jane Campion.", "jane campion", True, 1.0),
        ("Campion", "Jane Campion", False, 2 / 3),
        ("Campion Jane", "Jane Campion", False, 1.0),
        ("born in New Zealand", "New Zealand", False, 2 / 3),
        ("Peter Jackson", "Jane Campion", False, 0.0),
        ("very very good", "very good", False, 0.8),
        ("", "Jane Campion", False, 0.0),
        ("yes", "Yes.", True, 1.0),
        ("yes", "no", False, 0.0),
        ("yes, it is", "yes", False, 0.0),
        ("no", "no idea", False, 0.0),
        ("noanswer", "noanswer found", False, 0.0),
        ("no idea", "no clue", False, 0.5),
    ],
)
def test_exact_match_and_f1(answer: str, gold: str, exact: bool, score: float) -> None:
    assert is_exact_match(answer, gold) is exact
    assert compute_f1(answer, gold) == pytest.approx(score)


WORDS = st.lists(st.sampled_from("yes no the a cat dog 47".split())).map(" ".join)


@given(WORDS | st.text(), WORDS | st.text())
def test_f1_is_a_symmetric_share(answer: str, gold: str) -> None:
    assert 0.0 <= compute_f1(answer, gold) <= 1.0
    assert compute_f1(answer, gold) == compute_f1(gold, answer)
    if is_exact_match(answer, gold) and normalize_answer(gold):
        assert compute_f1(answer, gold) == 1.0
