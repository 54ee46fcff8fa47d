"""Figures, tables and plots: their numbers, and what they do with configurations that answered little or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as ET

import pytest

from retinue import Agent, PromptModel
from retinue.evals.comparison import Figures, Run, compute_figures
from retinue.evals.marks import Marks
from retinue.evals.questions import Question
from retinue.evals.report import build_tables, draw_shares_plot, trade_plot, write_html_report, write_markdown_report

SVG = "{http://www.w3.org/2000/svg}"
RESULT = Agent(PromptModel(script=[{"finish": "x"}])).run("?")
QUESTIONS = [Question(f"q{at}", f"Question {at}?", ("x",), tags=("even",) if at % 2 == 0 else ()) for at in range(10)]


def runs(rights: Sequence[bool], seconds: float = 1.0) -> list[Run]:
    return [
        Run(question, RESULT, Marks({"right": right}, {"f1": float(right), "seconds": seconds + at / 10}))
        for at, (question, right) in enumerate(zip(QUESTIONS, rights, strict=False))
    ]


def compared() -> Figures:
    given = {"a": runs([True] * 8 + [False] * 2), "b | <i>": runs([False] * 5 + [True] * 5, 2.0), "none": []}
    return compute_figures("some set", QUESTIONS, given, {"none": 10})


def test_figures_of_each_configuration_tag_and_pair() -> None:
    found = compared()
    first, second, none = found.configurations
    assert (first.shares["right"].count, first.shares["right"].of) == (8, 10)
    assert first.means["seconds"].mean == pytest.approx(1.45)
    assert first.stop_reasons == {"ANSWER": 10}
    assert (none.questions, none.failed, none.shares) == (0, 10, {})
    assert [one.questions for one in found.tags["even"]] == [5, 5, 0]
    (pair,) = found.pairs  # with the one that answered nothing there is nothing to compare
    assert (pair.both, pair.only_first, pair.only_second, pair.neither) == (3, 5, 2, 0)
    assert pair.right.p == pytest.approx(58 / 128)  # 2 of 7 or fewer, twice
    assert pair.right.mean == pytest.approx(-0.3)
    assert pair.right.low <= -0.3 <= pair.right.high
    assert pair.amounts["seconds"].mean == pytest.approx(1.0)
    assert pair.amounts["seconds"].p == pytest.approx(2 / 2**10)
    assert second.shares["right"].share == 0.5


def test_only_questions_of_both_are_compared() -> None:
    found = compute_figures("s", QUESTIONS, {"a": runs([True] * 10), "b": runs([True, False])}, {})
    (pair,) = found.pairs
    assert (pair.both, pair.only_first, pair.right.of) == (1, 1, 2)


def test_tables_show_what_there_is() -> None:
    answers, costs, tags, paired = build_tables(compared())
    assert answers.head == ["configuration", "questions", "right", "F1"]
    assert answers.rows[0][:3] == ["a", "10", "80.0% (49.0–94.3)"]
    assert answers.rows[2] == ["none", "0 (10 more have no answer)", "", ""]
    assert costs.head == ["configuration", "seconds", "unparseable replies", "stop reasons"]
    assert tags.rows == [["even", "5", "80.0% (37.6–96.4)", "40.0% (11.8–76.9)", ""]]
    assert paired.rows[0][:2] == ["a → b | <i>", "3 / 5 / 2 / 0"]
    assert paired.rows[0][-1] == "+1.00 (+1.00 to +1.00), p = 0.002"


def test_markdown_cannot_be_forged_by_names() -> None:
    report = write_markdown_report(compared(), ["about `x` [y](http://evil.test)"])
    assert "| b \\| &lt;i&gt; | 10 |" in report
    assert "- about \\`x\\` \\[y](http://evil.test)" in report
    head, *rows = (line for line in report.splitlines() if line.startswith(("| configuration | questions", "| b \\| ")))
    assert head.count("|") == rows[0].replace("\\|", "").count("|")


def drawn(svg: str) -> ET.Element:
    found = ET.fromstring(svg)
    _, _, width, height = map(float, found.attrib["viewBox"].split())
    for one in found.iter(f"{SVG}circle"):
        assert 0 <= float(one.attrib["cx"]) <= width
        assert 0 <= float(one.attrib["cy"]) <= height
    for one in found.iter(f"{SVG}line"):
        assert 0 <= float(one.attrib["x1"]) <= float(one.attrib["x2"]) <= width
    return found


def test_shares_are_drawn_where_they_are() -> None:
    svg = drawn(draw_shares_plot(compared()))
    xs = [float(one.attrib["cx"]) for one in svg.iter(f"{SVG}circle")]
    assert len(xs) == 4  # two configurations, over all questions and over those of the tag
    assert xs[0] == xs[2]  # 80 % both times
    assert (xs[0] - xs[1]) / (xs[0] - xs[3]) == pytest.approx((0.8 - 0.5) / (0.8 - 0.4), abs=0.01)
    assert "b | <i> (10)" in [one.text for one in svg.iter(f"{SVG}text")]


def test_what_is_taken_is_drawn_against_what_is_right() -> None:
    svg = drawn(trade_plot(compared(), "seconds", "seconds a question"))
    (first, second) = svg.iter(f"{SVG}circle")
    assert float(first.attrib["cx"]) < float(second.attrib["cx"])
    assert float(first.attrib["cy"]) < float(second.attrib["cy"])  # upwards is better
    assert list(drawn(trade_plot(compared(), "cost", "cost")).iter(f"{SVG}circle")) == []


def test_reports_of_nothing_are_reports() -> None:
    nothing = compute_figures("s", QUESTIONS, {"a": []}, {"a": 10})
    assert "10 more have no answer" in write_markdown_report(nothing, [])
    page = "".join(write_html_report(nothing, [], QUESTIONS, {"a": []}))
    assert page.count("<details>") == len(QUESTIONS)
    drawn(draw_shares_plot(nothing))
