"""Datasets: their formats, and what is said of a line that is wrong."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from retinue import DataError
from retinue.evals.datasets import KEYS, MAX_PROBLEMS, open_dataset, read_questions
from retinue.evals.questions import ExpectedCall, Number, Question
from retinue.evals.search_lookup import search_lookup

GOOD = {"id": "q1", "question": " How deep is Lake Orlo? ", "answers": [{"number": 84, "within": 0.5}, "84 metres"]}


def written(path: Path, *lines: Any) -> Path:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return path


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., Path]:
    return lambda *lines: written(tmp_path / "questions.jsonl", *lines)


def test_a_line_with_everything(file: Callable[..., Path]) -> None:
    line = GOOD | {
        "evidence": ["Lake Orlo"],
        "tags": ["lookup", "easy"],
        "rivals": ["131"],
        "tools": [{"name": "Search", "arguments": {"query": "Lake Orlo"}}, {"name": "Stop"}],
        "functions": [{"name": "Search", "parameters": {"properties": {"query": {"type": "string"}}}}],
        "level": "the dataset's own",
    }
    (question,) = read_questions(file(line))
    assert question == Question(
        "q1",
        "How deep is Lake Orlo?",
        (Number(84.0, 0.5), "84 metres"),
        evidence=("Lake Orlo",),
        tags=("lookup", "easy"),
        rivals=("131",),
        calls=(ExpectedCall("Search", {"query": "Lake Orlo"}), ExpectedCall("Stop")),
        functions=({"name": "Search", "parameters": {"properties": {"query": {"type": "string"}}}},),
    )
    assert question.gold == "84 ± 0.5 | 84 metres"


def test_other_forms_of_a_line(file: Callable[..., Path]) -> None:
    path = file(
        {"id": 7, "question": "Who?", "answer": "Jane Campion", "type": "bridge", "level": "hard"},
        "",
        {"id": "u", "question": "Who?", "unanswerable": True, "answers": []},
        {"id": "c", "question": "Do it", "tools": [{"name": "Stop"}]},
    )
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    named, unanswerable, calls = read_questions(path)
    assert (named.id, named.answers, named.gold) == ("7", ("Jane Campion",), "Jane Campion")
    assert (unanswerable.unanswerable, unanswerable.gold) == (True, "(not stated)")
    assert (calls.answers, calls.gold) == ((), "Stop()")


WRONG = [
    ("{", "not JSON: '{'; want one JSON object a line"),
    ("[1]", "want a JSON object, not '[1]'"),
    ({"question": "?", "answer": "x"}, "id: missing; want a text"),
    (GOOD | {"id": True}, "id: True; want a text"),
    (GOOD | {"question": 5}, "question: 5; want a text"),
    (GOOD | {"question": "\ud800"}, "question: '\\ud800'; want a text"),
    (GOOD | {"answer": "x"}, "answer and answers: want one of them"),
    (GOOD | {"answers": "x"}, "answers: 'x'; want a list of texts and numbers"),
    (GOOD | {"answers": [""]}, 'answers[0]: \'\'; want a text or {"number": 12.5, "within": 0.1}'),
    (GOOD | {"answers": [{}]}, 'answers[0]: {}; want a text or {"number": 12.5, "within": 0.1}'),
    (GOOD | {"answers": ["x", {"number": True}]}, "answers[1]: {'number': True}; want a text or"),
    (GOOD | {"answers": [{"number": 1, "within": -1}]}, "answers[0]: {'number': 1, 'within': -1}; want a text or"),
    (GOOD | {"answers": [{"number": 1, "whitin": 1}]}, "answers[0]: {'number': 1, 'whitin': 1}; want a text or"),
    ('{"id": "a", "question": "?", "answers": [{"number": NaN}]}', "answers[0]: {'number': nan}; want a text or"),
    ({"id": "a", "question": "?", "answers": [{"number": 10**400}]}, "answers[0]: {'number': 1000000"),
    ({"id": "a", "question": "?"}, "answers: missing or empty; want at least one answer, or unanswerable: true, or"),
    ({"id": "a", "question": "?", "answer": None}, "answer: null; want a text"),
    (GOOD | {"unanswerable": True}, "unanswerable: true, and it has answers; want one of them"),
    (GOOD | {"unanswerable": "yes"}, "unanswerable: 'yes'; want true or false"),
    (GOOD | {"tags": "lookup"}, "tags: 'lookup'; want a list of texts"),
    (GOOD | {"evidence": [1]}, "evidence: [1]; want a list of texts"),
    (GOOD | {"tools": [{"arguments": {}}]}, "tools: [{'arguments': {}}]; want a list of {\"name\": …"),
    (GOOD | {"functions": [{"name": "f", "parameters": 1}]}, "functions: [{'name': 'f', 'parameters': 1}]; want a"),
    (GOOD | {"functions": [{"name": "a.b"}]}, "functions[0].name: 'a.b'; want at most 64 letters, digits and"),
    (GOOD | {"functions": [{"name": "f", "parameters": {"properties": 5}}]}, "functions[0].parameters: not a JSON"),
    (GOOD | {"evidnce": ["x"]}, "unknown key 'evidnce'; did you mean 'evidence'?"),
]


@pytest.mark.parametrize(("line", "said"), WRONG)
def test_a_wrong_line_is_told_with_its_place_and_what_would_be_right(
    file: Callable[..., Path], line: Any, said: str
) -> None:
    path = file(GOOD | {"id": "first"}, line)
    with pytest.raises(DataError) as caught:
        read_questions(path)
    assert f"{path}:2: {said}" in str(caught.value)


def test_all_mistakes_are_told_at_once(file: Callable[..., Path]) -> None:
    path = file(*(line for line, _ in WRONG), GOOD, GOOD)
    with pytest.raises(DataError) as caught:
        read_questions(path)
    lines = str(caught.value).splitlines()
    for number, (_, said) in enumerate(WRONG, 1):
        assert any(line.startswith(f"{path}:{number}: {said}") for line in lines), said
    at = len(WRONG) + 1
    assert lines[-1] == f"{path}:{at + 1}: the id 'q1' is that of line {at}, too; want one of its own"


def test_very_many_mistakes_are_counted(file: Callable[..., Path]) -> None:
    with pytest.raises(DataError) as caught:
        read_questions(file(*["{"] * (MAX_PROBLEMS + 5)))
    assert len(str(caught.value).splitlines()) == MAX_PROBLEMS + 1
    assert str(caught.value).endswith("5 more problems")


def test_files_that_are_none(tmp_path: Path, file: Callable[..., Path]) -> None:
    for said, content in (("contains no questions", b"\n \n"), ("not a text file in UTF-8", b"\xff\xfe{")):
        file().write_bytes(content)
        with pytest.raises(DataError, match=said):
            read_questions(tmp_path / "questions.jsonl")
    with pytest.raises(DataError, match=r"none\.jsonl: No such file or directory"):
        open_dataset(str(tmp_path / "none.jsonl"))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
NUMBERS = st.fixed_dictionaries(
    {"number": st.floats(-1e9, 1e9)}, optional={"within": st.floats(0, 10)}
)  # fmt: skip
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).filter(lambda text: text.strip())
LINES = st.fixed_dictionaries(
    {"id": TEXTS, "question": TEXTS, "answers": st.lists(TEXTS | NUMBERS, min_size=1, max_size=3)},
    optional={key: st.lists(TEXTS, max_size=2) for key in ("tags", "evidence", "rivals")},
)


@given(line=st.dictionaries(st.sampled_from(KEYS), JSON) | JSON)
def test_any_line_is_a_question_or_a_told_mistake(tmp_path_factory: pytest.TempPathFactory, line: Any) -> None:
    path = written(tmp_path_factory.mktemp("any") / "q.jsonl", line)
    told, found = "", list[Question]()
    try:
        found = read_questions(path)
    except DataError as error:
        told = str(error)
    assert len(found) == (not told)
    assert all(said.startswith(str(path)) for said in told.splitlines())
    for question in found:
        assert question.id
        assert question.gold
        assert all(math.isfinite(one.number) for one in question.answers if isinstance(one, Number))


@given(lines=st.lists(LINES, min_size=1, max_size=4, unique_by=lambda line: str(line["id"])))
def test_right_lines_are_read_as_they_are(tmp_path_factory: pytest.TempPathFactory, lines: list[Any]) -> None:
    path = written(tmp_path_factory.mktemp("right") / "q.jsonl", *lines)
    for line, question in zip(lines, read_questions(path), strict=True):
        assert (question.id, question.question) == (line["id"], line["question"].strip())
        wanted = [
            one if isinstance(one, str) else Number(one["number"], one.get("within", 0.0)) for one in line["answers"]
        ]
        assert list(question.answers) == wanted
        assert list(question.tags) == line.get("tags", [])


# ── published formats ────────────────────────────────────────────────────────────────────────────


def test_hotpotqa_has_tags_and_evidence() -> None:
    found = open_dataset("hotpotqa:data/hotpotqa")
    first = found.questions[0]
    assert len(found.questions) == 50
    assert (first.answers, first.tags) == (("Dewey Lake Monster",), ("bridge", "hard"))
    assert first.evidence == ("Dewey Lake Monster", "Bigfoot")
    assert found.passages == Path("data/hotpotqa/passages.jsonl")
    plain = open_dataset("data/hotpotqa").questions[0]
    assert (plain.answers, plain.tags, plain.evidence) == (first.answers, (), ())


CLAIM = {
    "id": 75397,
    "verifiable": "VERIFIABLE",
    "label": "SUPPORTS",
    "claim": "Nikolaj Coster-Waldau worked with the Fox Broadcasting Company.",
    "evidence": [
        [[92206, 104971, "Nikolaj_Coster-Waldau", 7], [92206, 104971, "Fox_Broadcasting_Company", 0]],
        [[92207, 104972, "Virtuality_-LRB-film-RRB-", 3]],
    ],
}


def test_fever_in_the_form_that_its_task_publishes(file: Callable[..., Path]) -> None:
    nothing = {"id": 1, "label": "NOT ENOUGH INFO", "claim": "It rained.", "evidence": [[[1, None, None, None]]]}
    supported, unknown = open_dataset(f"fever:{file(CLAIM, nothing)}").questions
    assert supported.question.endswith("Claim: Nikolaj Coster-Waldau worked with the Fox Broadcasting Company.")
    assert (supported.id, supported.answers, supported.tags) == ("75397", ("SUPPORTS",), ("supports",))
    assert supported.rivals == ("REFUTES", "NOT ENOUGH INFO")
    assert supported.evidence == ("Virtuality (film)",)  # the smallest set that suffices
    assert (unknown.answers, unknown.evidence) == (("NOT ENOUGH INFO",), ())
    with pytest.raises(DataError, match="label: missing; want SUPPORTS, REFUTES, NOT ENOUGH INFO"):
        open_dataset(f"fever:{file({'id': 2, 'claim': 'x'})}")


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    text = "Milhouse is a boy. " + " ".join(f"Sentence {at}." for at in range(2, 6)) + " He is named after Nixon."
    return written(
        tmp_path / "passages.jsonl",
        {"title": "Milhouse Van Houten", "text": f"{text} Groening named him after Nixon."},
        {"title": "Milhouse's father", "text": "Kirk."},
    )


def test_search_opens_a_page_and_lookup_finds_sentences_in_it(pages: Path) -> None:
    search, lookup = search_lookup(pages)()
    assert lookup.run("Nixon") == "No page is open. Search first."
    assert search.run("milhouse  van houten") == (
        "[milhouse  van houten] Milhouse is a boy. Sentence 2. Sentence 3. Sentence 4. Sentence 5."
    )
    assert lookup.run("named after") == "(Result 1 / 1) He is named after Nixon."
    assert lookup.run("nixon") == "(Result 1 / 2) He is named after Nixon."
    assert lookup.run("nixon") == "(Result 2 / 2) Groening named him after Nixon."
    assert lookup.run("nixon") == "No more results."
    assert lookup.run("Simpson") == "No more results."
    assert search.run("Milhouse") == "Could not find Milhouse. Similar: Milhouse's father; Milhouse Van Houten."


def test_runs_do_not_share_the_open_page(pages: Path) -> None:
    made = search_lookup(pages)
    (search, _), (_, lookup) = made(), made()
    search.run("Milhouse Van Houten")
    assert lookup.run("Nixon") == "No page is open. Search first."
