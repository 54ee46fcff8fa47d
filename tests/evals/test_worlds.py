"""Invented worlds: the same each time, no name in both splits, one right answer each, and passages that hold it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import date, timedelta
from functools import cache
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any, get_args

import pytest
from bench.worlds import (
    KINDS,
    SEEDS,
    Entity,
    Fact,
    Quantity,
    Question,
    Split,
    World,
    collected,
    create,
    passages,
    questions,
    split_of_name,
    split_of_seed,
    worlds,
)
from bench.worlds.__main__ import main
from bench.worlds.calendar_sums import completed_years
from click.testing import CliRunner
from hypothesis import given, settings, strategies as st

from evals.world_reader import names, read
from retinue.evals.questions import Number
from retinue.tools.passages import Passages

SPLITS: tuple[Split, ...] = get_args(Split)
DATA = Path("data/worlds")
WORD = re.compile(r"\w+")
SEED = st.integers(0, 5_000)


@cache
def made(split: Split) -> tuple[list[World], dict[str, str], list[tuple[World, Question]]]:
    """The worlds of a split, its passages by title, and its questions with their worlds."""
    found = worlds(split)
    texts = collected(found)
    return found, {one.title: one.text for one in texts}, list(questions(found, texts))


@cache
def lines(split: Split, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / split / name).read_text(encoding="utf-8").splitlines()]


def asked() -> Iterator[tuple[dict[str, str], World, Question]]:
    for split in SPLITS:
        _, texts, found = made(split)
        for world, question in found:
            yield texts, world, question


def of_kind(*kinds: str) -> Iterator[Question]:
    yield from (question for _, _, question in asked() if question.kind in kinds)


# The files


@pytest.mark.parametrize("split", SPLITS)
def test_the_command_writes_the_files_of_this_repository(split: Split, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["--split", split, "--out", str(tmp_path)])
    assert (done.exit_code, done.output) == (0, "")
    for name in ("passages.jsonl", "questions.jsonl"):
        assert (tmp_path / name).read_bytes() == (DATA / split / name).read_bytes(), f"{name}: run the command again"


@pytest.mark.parametrize("split", SPLITS)
def test_a_split_has_enough_questions_of_each_kind(split: Split) -> None:
    kinds = Counter(line["tags"][0] for line in lines(split, "questions.jsonl"))
    assert set(kinds) == set(KINDS)
    assert min(kinds.values()) >= 18
    assert sum(kinds.values()) >= 150


@pytest.mark.parametrize("split", SPLITS)
def test_the_lines_have_the_format_that_is_documented(split: Split) -> None:
    found = lines(split, "questions.jsonl")
    titles = {line["title"] for line in lines(split, "passages.jsonl")}
    for line in found:
        assert set(line) <= {"id", "question", "answers", "unanswerable", "rivals", "evidence", "tags"}
        assert bool(line["answers"]) is not line.get("unanswerable", False)
        assert (line["tags"][0] == "unanswerable") is line.get("unanswerable", False)
        assert set(line["evidence"]) <= titles
        assert all(isinstance(one, str) or set(one) == {"number", "within"} for one in line["answers"])
        assert line["question"][0].isupper()
        assert re.fullmatch(r"[^{}]+[?.]", line["question"])
    assert len({line["id"] for line in found}) == len({line["question"] for line in found}) == len(found)


@pytest.mark.parametrize("split", SPLITS)
def test_the_search_tool_reads_the_passages(split: Split) -> None:
    loaded = Passages.load(DATA / split / "passages.jsonl")
    assert len(loaded) == len({line["title"] for line in lines(split, "passages.jsonl")})


# The splits


def test_no_seed_is_in_both_splits() -> None:
    assert all(split_of_seed(seed) == split for split in SPLITS for seed in SEEDS[split])
    assert not set(SEEDS["dev"]) & set(SEEDS["test"])


def test_no_name_is_in_both_splits() -> None:
    """Not even one word of a name, but for the words that say what a thing is ("Lake")."""
    common = {"Bridge", "Company", "Lake", "Lighthouse", "Line", "Lower", "Mount", "Museum", "New", "Old", "River"}
    common |= {"The", "Theatre", "University", "Upper"}
    used = {
        split: {word for world in made(split)[0] for name in names_of(world) for word in WORD.findall(name)} - common
        for split in SPLITS
    }
    assert not used["dev"] & used["test"]
    for split, words in used.items():
        assert {split_of_name(word) for word in words} == {split}


def names_of(world: World) -> Iterator[str]:
    yield from (entity.title for entity in world.entities)
    for fact in world.facts:
        if fact.relation == "currency" or (not fact.stated and isinstance(fact.value, str)):
            yield str(fact.value)


@given(st.tuples(SEED, SEED))
@settings(max_examples=6, deadline=None)
def test_the_splits_of_any_seeds_are_disjoint(seeds: tuple[int, int]) -> None:
    dev, test = (set(names_of(create(seed * 2 + odd))) for odd, seed in enumerate(seeds))
    assert not dev & test


def test_no_title_is_there_twice() -> None:
    titles = [entity.title for split in SPLITS for world in made(split)[0] for entity in world.entities]
    assert len(set(titles)) == len(titles)


# The worlds


@given(SEED)
@settings(max_examples=6, deadline=None)
def test_a_seed_makes_the_same_world_each_time(seed: int) -> None:
    world = create(seed)
    assert create(seed) == world
    assert list(passages(world)) == list(passages(create(seed)))


@given(SEED)
@settings(max_examples=8, deadline=None)
def test_a_world_agrees_with_itself(seed: int) -> None:
    world = create(seed)
    assert len({(fact.subject, fact.relation) for fact in world.facts}) == len(world.facts), "two values"
    for entity in world.entities:
        facts = {relation: fact.value for relation, fact in world.about[entity].items()}
        if entity.kind == "person":
            assert facts["born_on"] < facts["died_on"]  # type: ignore[operator]
            if teacher := facts.get("teacher"):
                assert isinstance(teacher, str) or year(world, teacher, "born_on") < year(world, entity, "born_on")
        if entity.kind == "country":
            inside = [fact.subject for fact in world.with_value("town", "country", entity)]
            assert facts["capital"] in inside
            assert count(facts["population"]) > sum(count(world.about[one]["population"].value) for one in inside)
        for relation, maker in (("published", "author"), ("painted", "author"), ("premiered", "author")):
            if relation in facts and isinstance(facts.get(maker), Entity):
                assert lived(world, facts[maker], year(world, entity, relation))
        if entity.kind == "opera" and isinstance(facts["theatre"], Entity):
            assert year(world, facts["theatre"], "opened") < year(world, entity, "premiered")
        if isinstance(older := facts.get("predecessor"), Entity):
            assert year(world, older, "founded") <= year(world, entity, "founded")


def year(world: World, entity: Any, relation: str) -> int:
    value = world.about[entity][relation].value
    assert isinstance(value, date | int)
    return value if isinstance(value, int) else value.year


def lived(world: World, person: Any, when: int) -> bool:
    return year(world, person, "born_on") + 18 < when < year(world, person, "died_on")


def count(value: Any) -> int:
    assert isinstance(value, Quantity)
    return value.number


@given(SEED)
@settings(max_examples=8, deadline=None)
def test_each_passage_states_its_facts_once_and_nothing_else(seed: int) -> None:
    world = create(seed)
    found = list(passages(world))
    assert 60 <= len(found) <= 150
    for passage in found:
        assert 3 <= len(re.findall(r"\.(?= |$)", passage.text)) <= 6, passage
        assert not re.search(r"[{}]|\b(\w+) \1\b|  ", passage.text), passage
    texts = {passage.title: passage.text for passage in found}
    for fact in world.facts:
        check_statement(texts, fact)


def check_statement(texts: dict[str, str], fact: Fact) -> None:
    """A stated fact is read again from its passage, with no second value; one that is not stated is not there."""
    if fact.home != fact.subject:
        (listed,) = read(texts[fact.home.title], fact.home.kind, f"{fact.relation}_of")
        assert fact.subject.name in names(str(listed)), fact
        return
    seen = read(texts[fact.home.title], fact.home.kind, fact.relation)
    assert seen == ({plain(fact.value)} if fact.stated else set()), (fact, texts[fact.home.title])


def plain(value: Any) -> str | int | date:
    if isinstance(value, Entity):
        return value.name.removeprefix("the ")
    return value.number if isinstance(value, Quantity) else value


# The questions


def test_the_evidence_holds_every_fact_that_an_answer_needs() -> None:
    for texts, _, question in asked():
        for fact in question.facts:
            assert fact.home.title in question.evidence
            check_statement(texts, fact)


def test_bridges_need_as_many_passages_as_they_say() -> None:
    needed = {"lookup": 1, "bridge2": 2, "bridge3": 3}
    for question in of_kind(*needed):
        assert len(question.evidence) == needed[question.kind], question
        assert all(fact.stated for fact in question.facts)


def test_a_chain_has_one_end() -> None:
    """Whichever way a fact is followed, no second thing satisfies it."""
    for _, world, question in asked():
        if question.kind in ("lookup", "bridge2", "bridge3", "unanswerable"):
            for fact, following in pairwise(question.facts):
                if following.subject == fact.value or following.value == fact.value:
                    continue  # forwards: a relation has one value
                found = world.with_value(fact.subject.kind, fact.relation, fact.value)
                assert [one.subject for one in found] == [fact.subject], question


def test_no_question_tells_its_answer() -> None:
    for question in of_kind("lookup", "bridge2", "bridge3", "date_arithmetic"):
        told = [one for one in question.answers if isinstance(one, str) and one.lower() in question.text.lower()]
        assert told == [], question


def test_what_is_unanswerable_is_stated_nowhere() -> None:
    for texts, _, question in asked():
        if question.kind == "unanswerable":
            fact = question.facts[-1]
            assert (fact.stated, question.answers) == (False, ())
            shown = shown_forms(fact.value)
            assert not any(form in text for text in texts.values() for form in shown), question


def shown_forms(value: Any) -> set[str]:
    if isinstance(value, Quantity):
        return {f"{value.number:,} {value.unit}"}
    if isinstance(value, date):
        return {f"{value.day} {value:%B} {value.year}", f"{value:%B} {value.day}, {value.year}"}
    return {str(value)}


MORE = re.compile(r"\b(more|most|later|last|larger|largest|higher|highest|greater|greatest|longe(r|st)|wide(r|st))\b")
ABOVE = re.compile(r"\b(more than|after|longer than|larger than|higher than)\b")


def measured(fact: Fact) -> float:
    value = plain(fact.value)
    assert not isinstance(value, str)
    return value.year + value.timetuple().tm_yday / 400 if isinstance(value, date) else value


def compared(question: Question) -> list[Fact]:
    """The facts that a question's answer is calculated from: all of one relation."""
    last = question.facts[-1]
    return [fact for fact in question.facts if (fact.relation, fact.home) == (last.relation, fact.subject)]


def test_what_is_compared_is_more_or_less_as_the_words_say() -> None:
    for question in of_kind("comparison"):
        facts = sorted(compared(question), key=measured)
        best = facts[-1] if MORE.search(question.text) else facts[0]
        assert best.subject.title == question.answers[0], question
        assert {one.subject.title for one in facts} >= {best.subject.title, *question.rivals}
        assert not any(rival in str(answer) for rival in question.rivals for answer in question.answers)
        assert all(measured(two) - measured(one) > 0 for one, two in combinations(facts, 2))


def test_sums_and_differences_are_right() -> None:
    for question in of_kind("sum_difference"):
        values = [measured(fact) for fact in compared(question)]
        together = re.search("together|total", question.text)
        assert question.answers == (Number(sum(values) if together else max(values) - min(values)),), question


def test_counts_are_right() -> None:
    for question in of_kind("count"):
        limit = re.search(r"(?:than|after|before|year) ([\d,]+)", question.text)
        if limit is None:
            continue  # all of a list
        edge = int(limit[1].replace(",", ""))
        values = [int(measured(fact)) for fact in compared(question)]
        assert edge not in values, question
        right = sum(value > edge if ABOVE.search(question.text) else value < edge for value in values)
        assert question.answers[0] == Number(right), question


def test_lists_are_counted_whole() -> None:
    for texts, _, question in asked():
        whole = re.fullmatch(r"How many (towns|novels) (does|did) .* (flow through|write)\?", question.text)
        if whole:
            (home,) = question.evidence
            relation = "river_of" if whole[1] == "towns" else "author_of"
            (listed,) = read(texts[home], question.facts[0].home.kind, relation)
            assert question.answers[0] == Number(len(names(str(listed))))


def test_other_units_and_percentages_are_right() -> None:
    for question in of_kind("unit_percent"):
        (gold,) = question.answers
        assert isinstance(gold, Number)
        assert any(abs(gold.number - one) < 0.001 for one in calculated(question)), question


def calculated(question: Question) -> Iterator[float]:
    """The results of what one can do with a question's numbers and those of its facts."""
    values = [measured(fact) for fact in question.facts if isinstance(fact.value, Quantity)]
    factors = [float(one) for one in re.findall(r"\d+(?:\.\d+)?", question.text)]
    if len(values) == 1:
        yield from (values[0] * one for one in (*factors, 60, 100, 1000))
        yield from (values[0] / one for one in (*factors, 60, 100, 1000))
        yield from (values[0] * one / 100 for one in factors)
        yield from (values[0] * (100 + one) / 100 for one in factors)
    else:
        one, two = values
        yield from (one / two, 60 * one / two, two / one * 100, (max(values) / min(values) - 1) * 100)


def test_calculations_with_dates_are_right() -> None:
    for question in of_kind("date_arithmetic"):
        values = [plain(fact.value) for fact in question.facts if isinstance(fact.value, date | int)]
        first = question.answers[0]
        if days := re.search(r"(\d+) days (after|before)", question.text):
            assert isinstance(values[0], date)
            when = values[0] + timedelta(days=int(days[1]) * (1 if days[2] == "after" else -1))
            assert when.isoformat() in question.answers, question
            continue
        assert isinstance(first, Number)
        assert first.number in set(spans(question, values)), question


def spans(question: Question, values: list[Any]) -> Iterator[int]:
    if turned := re.search(r"turn (\d+)", question.text):
        yield values[0].year + int(turned[1])
    elif "days" in question.text:
        yield abs((values[0] - values[1]).days)
    elif isinstance(values[0], int):
        yield abs(values[0] - values[1])
    else:
        start, end = sorted(values)
        yield next(age for age in range(120) if start.replace(year=start.year + age + 1) > end)


def test_ages_count_completed_years() -> None:
    born = date(1850, 6, 15)
    assert [completed_years(born, date(1900, 6, day)) for day in (14, 15, 16)] == [49, 50, 50]
    assert completed_years(born, date(1900, 12, 1)) == 50
    assert completed_years(born, date(1900, 1, 30)) == 49
