"""The evaluation: it goes on where it was interrupted, and its report holds the numbers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from bench.hotpotqa import Answered, evaluate, report
from bench.report import chart, levels, replace_section
from bench.search_methods import SEARCHES

from retinue import Agent, Budget, PromptModel, Tool
from retinue.evals.questions import Question

FILM = Question("q1", "Who directed The Piano?", ("Jane Campion",))
RIVER = Question("q2", "Is the Seine a river?\u2028", ("yes",))
SEARCH = Tool("Search", lambda query: "[The Piano] directed by Jane Campion", "facts", effects="read")


def director() -> dict[str, Any]:
    return {"when": "The Piano\\?", "call": {"tool": "Search", "input": "The Piano"}}


SCRIPT = (director(), {"when": "directed by", "finish": "Campion"}, {"when": "Seine", "finish": "Yes, \u2028é"})


def agent(script: Sequence[Any] = SCRIPT, budget: Budget = Budget()) -> Agent:
    return Agent(PromptModel(script=script), [SEARCH], budget=budget)


def evaluated(kept: Path, *asked: Question, by: Agent | None = None) -> list[Answered]:
    return asyncio.run(evaluate(by or agent(), asked, kept))


def refusing() -> Agent:
    """Fails if it is asked anything."""
    return agent([{"when": "^never$", "finish": "x"}])


def lines(kept: Path) -> list[str]:
    return kept.read_text(encoding="utf-8").strip("\n").split("\n")


def test_answers_are_scored_counted_and_kept(tmp_path: Path) -> None:
    kept = tmp_path / "answers.jsonl"
    film, river = evaluated(kept, FILM, RIVER)
    assert (film.answer, film.exact) == ("Campion", False)
    assert film.f1 == pytest.approx(2 / 3)
    assert (film.stop_reason, film.replies, film.searches, film.unreadable) == ("ANSWER", 2, 1, 0)
    assert film.input_tokens > film.output_tokens > 0
    assert (river.replies, river.searches) == (1, 0)
    assert [Answered(**json.loads(line)) for line in lines(kept)] == [film, river]


def test_an_interrupted_evaluation_asks_only_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "answers.jsonl"
    (first,) = evaluated(kept, FILM)
    assert "Who directed The Piano?" in capsys.readouterr().out
    both = evaluated(kept, FILM, RIVER)
    assert both[0] == first
    said = capsys.readouterr().out
    assert "Is the Seine a river?" in said
    assert "Who directed" not in said
    assert evaluated(kept, FILM, RIVER, by=refusing()) == both
    assert capsys.readouterr().out == ""
    assert len(lines(kept)) == 2


def test_a_changed_setup_starts_anew_and_the_old_one_can_still_go_on(tmp_path: Path) -> None:
    kept = tmp_path / "answers.jsonl"
    old = evaluated(kept, FILM)
    new = evaluated(kept, FILM, by=agent(budget=Budget(steps=1)))
    assert new[0].setup != old[0].setup
    assert len(lines(kept)) == 2
    assert evaluated(kept, FILM, by=refusing()) == old


def test_each_way_of_searching_has_answers_of_its_own(tmp_path: Path) -> None:
    kept = tmp_path / "answers.jsonl"
    (plain,) = evaluated(kept, FILM)
    (best,) = asyncio.run(evaluate(agent(), [FILM], kept, "best"))
    assert best.setup != plain.setup
    assert asyncio.run(evaluate(refusing(), [FILM], kept, "best")) == [best]


@pytest.mark.parametrize("cut", [1, 5, 200])
def test_a_last_line_cut_short_is_asked_again_once(tmp_path: Path, cut: int) -> None:
    kept = tmp_path / "answers.jsonl"
    whole = evaluated(kept, FILM, RIVER)
    kept.write_bytes(kept.read_bytes()[:-cut])
    again = evaluated(kept, FILM, RIVER)
    assert [replace(record, seconds=0.0) for record in again] == [replace(record, seconds=0.0) for record in whole]
    assert evaluated(kept, FILM, RIVER, by=refusing()) == again


def test_a_line_cut_inside_a_character_is_asked_again(tmp_path: Path) -> None:
    kept = tmp_path / "answers.jsonl"
    evaluated(kept, RIVER)
    content = kept.read_bytes()
    kept.write_bytes(content[: content.index("é".encode()) + 1])
    assert evaluated(kept, RIVER)[0].answer == "Yes, \u2028é"


RECORDS = [
    Answered("q1", "s", "?", "gold", "gold", True, 1.0, "ANSWER", 3, 2, 0, 10.0, 1_000, 400, 50),
    Answered("q2", "s", "?", "gold", "", False, 0.25, "MAX_ITERATION_EXCEEDED", 6, 5, 1, 21.0, 4_000, 2_600, 150),
]


def test_the_report_holds_the_numbers() -> None:
    section = report({"bm25": RECORDS, "best": RECORDS[:1]}, "some-model")
    assert section.startswith("Model some-model, ")
    for row in (
        "| strategy, search | bm25 | best |",
        "| questions | 2 | 1 |",
        "| exact match | 50.0% | 100.0% |",
        "| F1 | 0.625 | 1.000 |",
        "| replies a question | 4.50 | 3.00 |",
        "| searches a question | 3.50 | 2.00 |",
        "| seconds a question | 15.5 | 10.0 |",
        "| tokens a question | 2,500 in (1,500 of them cached), 100 out | 1,000 in (400 of them cached), 50 out |",
        "| unparseable replies | 1 | 0 |",
        "| stop reasons | ANSWER 1, MAX_ITERATION_EXCEEDED 1 | ANSWER 1 |",
    ):
        assert f"\n{row}\n" in section


@pytest.mark.model
def test_both_ways_of_searching_are_told_a_model_alike_and_find_passages(tmp_path: Path) -> None:
    path = tmp_path / "passages.jsonl"
    texts = {"The Piano": "A film directed by Jane Campion.", "Seine": "A river in France.", "Bread": "Is baked."}
    path.write_text("".join(json.dumps({"title": at, "text": text}) + "\n" for at, text in texts.items()), "utf-8")
    plain, best = (SEARCHES[name](path, 2) for name in ("bm25", "best"))
    assert (best.name, best.description, best.effects) == (plain.name, plain.description, plain.effects)
    for search in (plain, best):
        found = asyncio.run(search.call("Who directed The Piano?"))
        assert found.startswith("[The Piano] A film directed by Jane Campion.")


def test_a_section_is_added_once_and_then_replaced_in_place(tmp_path: Path) -> None:
    path = tmp_path / "RESULTS.md"
    replace_section(path, "hotpotqa", "old\n")
    path.write_text(f"# Results\n{path.read_text()}\nwritten by hand\n<!-- other -->\nstays\n<!-- /other -->\n")
    replace_section(path, "hotpotqa", "new \\1 $\n")
    text = path.read_text()
    assert "<!-- hotpotqa -->\nnew \\1 $\n<!-- /hotpotqa -->" in text
    assert "old" not in text
    assert text.startswith("# Results\n")
    assert text.endswith("\nwritten by hand\n<!-- other -->\nstays\n<!-- /other -->\n")


@pytest.mark.parametrize("points", [[], [(0.0, 0.0)], [(1.0, 20.0), (0.5, 5.0), (0.0, 10.0)]])
def test_the_chart_is_svg_with_two_bars_a_question(points: list[tuple[float, float]]) -> None:
    svg = ET.fromstring(chart(points))
    space = "{http://www.w3.org/2000/svg}"
    _, _, width, height = map(float, svg.attrib["viewBox"].split())
    bars = svg.findall(f"{space}rect")[1:]  # the first is the background
    assert len(bars) == 2 * len(points)
    for bar in bars:
        x, y, wide, high = (float(bar.attrib[name]) for name in ("x", "y", "width", "height"))
        assert 0 <= x <= x + wide <= width
        assert 0 <= y <= y + high <= height


def test_the_charts_bars_are_as_high_as_their_numbers() -> None:
    bars = ET.fromstring(chart([(1.0, 20.0), (0.5, 5.0)])).findall("{http://www.w3.org/2000/svg}rect")[1:]
    first, second, slow, fast = (float(bar.attrib["height"]) for bar in bars)
    assert second / first == pytest.approx(0.5)
    assert fast / slow == pytest.approx(0.25)


def test_bars_that_lie_are_as_long_as_their_numbers() -> None:
    svg = ET.fromstring(levels([("BM25", 0.4), ("a & b", 0.8)], "recall"))
    space = "{http://www.w3.org/2000/svg}"
    first, second = (float(bar.attrib["width"]) for bar in svg.findall(f"{space}rect")[1:])
    assert second / first == pytest.approx(2)
    assert [text.text for text in svg.findall(f"{space}text")] == ["recall", "BM25", "0.40", "a & b", "0.80"]
