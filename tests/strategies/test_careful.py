"""`careful`: plans, descriptions, passages that are read one by one, and answers that are copied."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st

from fakes.said import Said
from retinue import Agent, Budget, Message, RunResult, StopReason, Tool
from retinue.core.events import Called
from retinue.core.schema.patterns import print_regex
from retinue.core.values import Capabilities
from retinue.errors import ToolError
from retinue.strategies.facts.descriptions import (
    build_description_constraint,
    describe_request,
    find_asked_names,
    find_descriptions,
    find_listed_names,
    find_names,
)
from retinue.strategies.facts.fact_finder import (
    NOT_STATED,
    build_copied_constraint,
    find_asked_kind,
    is_of_another_event,
    is_relation_asked,
)
from retinue.strategies.facts.quantities import is_measure_asked
from retinue.strategies.facts.question_plan import (
    build_first_step_constraint,
    build_last_step_constraint,
    build_plan_constraint,
    repeat_step,
)
from retinue.tools import calculator

CANAL = "[Ottery Canal] The Ottery Canal was dug by Hannah Pell in 1794. It is 31 kilometres long."
PELL = "[Hannah Pell] Hannah Pell, born on 3 May 1751 in Marl, was an engineer."
DAM = "[Tarn Dam] Tarn Dam is 120 metres wide."


class Library:
    """A search that returns the passages with a name of the query, and notes the queries."""

    def __init__(self, *passages: str) -> None:
        self.passages, self.queries = passages, list[str]()

    def search(self, query: str) -> str:
        """Search an encyclopedia."""
        self.queries.append(query)
        return (
            "\n".join(one for one in self.passages if any(name in one for name in find_asked_names(query))) or "nothing"
        )


def ask(replies: Sequence[str], library: Library, question: str, **more: Any) -> tuple[RunResult, Said]:
    model = Said(replies, Capabilities(constrains=True))
    tools = [Tool("Search", library.search, effects="read"), calculator]
    return Agent(model, tools, strategy="careful", **more).run(question), model


def test_a_fact_is_copied_from_the_passage_that_is_named_like_it() -> None:
    library = Library(PELL, CANAL)
    result, model = ask(["Hannah Pell"], library, "Who dug the Ottery Canal?")
    assert (result.answer, result.stop_reason) == ("Hannah Pell", StopReason.ANSWER)
    assert library.queries == ["Who dug the Ottery Canal?"]
    assert CANAL in model.asked[-1].prompt.text


def test_a_value_of_another_kind_is_taken_only_if_no_passage_has_one_of_the_kind() -> None:
    marl, orr = "[Marl] Marl is a village in Tarnland.", "[Orr] The Orr is a river that flows through Marl and Cole."
    result, _ = ask(["Tarnland", "Orr"], Library(marl, orr), "Which river flows through Marl?")
    assert result.answer == "Orr"
    result, _ = ask(["Tarnland"], Library(marl), "In which country is Marl?")
    assert result.answer == "Tarnland"


def test_what_a_question_describes_is_found_first() -> None:
    library = Library(CANAL, PELL)
    replies = ["the engineer of the Ottery Canal", "Hannah Pell", "3 May 1751"]
    result, _ = ask(replies, library, "On what date was the engineer of the Ottery Canal born?")
    assert result.answer == "3 May 1751"
    assert library.queries == ["What is the engineer of the Ottery Canal?", "On what date was Hannah Pell born?"]


def test_facts_are_computed_by_the_tool() -> None:
    plan = "find: How long is the Ottery Canal?\nfind: How wide is Tarn Dam?\ncompute: #1 * 1000 / #2\n\n"
    question = "How many times the width of Tarn Dam is the length of the Ottery Canal?"
    result, _ = ask([plan, "31 kilometres", "120 metres"], Library(CANAL, DAM), question)
    assert float(result.answer) == pytest.approx(31 * 1000 / 120)
    assert [event.action.tool for event in result.events if isinstance(event, Called)][-1] == "Calculator"


def test_the_calculator_of_a_file_of_agents_is_recognized() -> None:
    model = Said(["Hannah Pell"], Capabilities(constrains=True))
    tools = [Tool("Search", Library(CANAL).search, effects="read"), Tool("calculator", calculator, effects="read")]
    assert Agent(model, tools, strategy="careful").run("Who dug the Ottery Canal?").answer == "Hannah Pell"


def test_a_plan_that_leaves_out_a_name_is_made_again_and_then_given_up() -> None:
    plan = "find: How wide is it?\ncompute: #1 * 2\n\n"
    result, model = ask([plan, plan, plan, "120 metres"], Library(DAM), "How wide is Tarn Dam, 2 metres or more?")
    assert result.answer == "120 metres"
    assert [one.options.get("seed") for one in model.asked] == [None, 1, 2, None]


def test_what_no_passage_states_is_said_to_be_so_with_what_was_looked_for() -> None:
    library = Library(CANAL, PELL)
    result, _ = ask([NOT_STATED, NOT_STATED, "Hannah Pell", "no"], library, "Who paid for the Ottery Canal?")
    assert result.answer == "The answer is not stated: nothing was found on: Who paid for the Ottery Canal?"
    assert library.queries == ["Who paid for the Ottery Canal?", "Ottery Canal"], "it searches by the name alone, too"


def test_a_passage_that_names_nothing_of_the_question_is_not_read() -> None:
    result, model = ask([], Library(), "How wide is Marl Dam?")
    assert "not stated" in result.answer
    assert not model.asked


def test_a_follow_up_question_is_asked_in_full() -> None:
    history = [Message("user", "Who dug the Ottery Canal?"), Message("assistant", "Hannah Pell.")]
    replies = ["In which village was Hannah Pell born?", "Marl", "the village of her birth"]
    model = Said(replies, Capabilities(constrains=True))
    agent = Agent(model, [Tool("Search", Library(PELL).search, effects="read")], strategy="careful")
    assert agent.run("Where was she born?", history=history).answer == "Marl"


def test_out_of_budget_it_answers_from_what_it_found() -> None:
    plan = "find: How long is the Ottery Canal?\nfind: How wide is Tarn Dam?\ncompute: #1 / #2\n\n"
    question = "How long is the Ottery Canal divided by the width of Tarn Dam?"
    replies = [plan, "31 kilometres", " I cannot tell"]
    result, model = ask(replies, Library(CANAL, DAM), question, budget=Budget(3))
    assert result.answer == "I cannot tell"
    assert "How long is the Ottery Canal? 31 kilometres" in model.asked[-1].prompt.text


def test_arithmetic_that_has_no_number_is_left_to_the_model() -> None:
    plan = "find: Who dug the Ottery Canal?\ncompute: #1 * 2\n\n"
    result, _ = ask([plan, "Hannah Pell", " two"], Library(CANAL), "How many people per metre dug the Ottery Canal?")
    assert result.answer == "two"


def test_what_is_asked_of_several_is_asked_in_the_same_words() -> None:
    library = Library(DAM, "[Marl Dam] Marl Dam is 95 metres wide.")
    replies = ["find: How wide is Tarn Dam?\n", "120 metres", "95 metres"]
    replies.insert(1, "most: #1 Tarn Dam, #2 Marl Dam\n")
    result, _ = ask(replies, library, "Which dam is wider, Tarn Dam or Marl Dam?")
    assert result.answer == "Tarn Dam"
    assert library.queries == ["How wide is Tarn Dam?", "How wide is Marl Dam?"]


def test_a_value_that_is_something_else_is_not_taken() -> None:
    pell = "[Hannah Pell] Hannah Pell died on 5 June 1821. She is said to have had 12 children."
    question = "On what date was Hannah Pell born?"
    result, _ = ask(["5 June 1821", NOT_STATED], Library(pell), question)
    assert "not stated" in result.answer, "the words `died` and `born` tell"
    tarn = "[Tarn Dam] Tarn Dam was built from 1790 on, and its lake has 12 islands and 3 harbours."
    question = "What is the number of gates of Tarn Dam?"
    result, model = ask(["12", "the number of islands", "no", NOT_STATED, NOT_STATED], Library(tarn), question)
    assert "not stated" in result.answer, "the model tells"
    shown = model.asked[1].prompt.text.rpartition("Sentence:")[2]
    assert question not in shown, "it says what the value is before it sees the question"


def test_what_no_passage_counts_is_counted() -> None:
    pell = "[Hannah Pell] Hannah Pell made the Ottery Canal, Tarn Dam and the Long Lock."
    replies = ["none", "find: What did Hannah Pell make?\ncount: #1\n", "the Ottery Canal, Tarn Dam and the Long Lock"]
    result, _ = ask(replies, Library(pell), "How many things did Hannah Pell make?")
    assert result.answer == "3"


def send(text: str) -> str:
    """Send a letter."""
    raise AssertionError("nobody asked for that")


@pytest.mark.parametrize(
    "other", [Tool("add", lambda one, two: one + two, effects="read"), Tool("send", send, effects="once")]
)
def test_tools_that_do_not_look_up_a_text_are_left_to_react(other: Tool) -> None:
    model = Said([" I know\nFinal Answer:", " 4"], Capabilities(constrains=True))
    assert Agent(model, [other, calculator], strategy="careful").run("What is 2 + 2?").answer == "4"


def test_a_text_in_the_place_of_a_question_is_left_to_react() -> None:
    result, model = ask(["Final Answer: 120"], Library(DAM), "How old is it when it was? " * 4_000)
    assert result.answer == "120"
    assert "Thought:" in model.asked[0].prompt.text


def test_a_search_that_fails_is_not_read() -> None:
    def search(query: str) -> str:
        """Search an encyclopedia."""
        raise ToolError("the Ottery Canal is closed")

    model = Said([], Capabilities(constrains=True))
    result = Agent(model, [Tool("Search", search, effects="read")], strategy="careful").run("Who dug the Ottery Canal?")
    assert "not stated" in result.answer


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("Who dug it?", "name"),
        ("In which year was it dug?", "year"),
        ("On what date was it dug?", "date"),
        ("When was it dug?", "date"),
        ("How many people live there?", "number"),
        ("In which town is it?", "words"),
        ("Which lake has the larger area: Orlo or Ister?", "words"),
        ("A mile is 1.6 kilometres. What is the length of the canal in miles?", "number"),
    ],
)
def test_what_a_question_asks_for(question: str, asked: str) -> None:
    assert find_asked_kind(question) == asked


@pytest.mark.parametrize(
    ("kind", "answers", "others"),
    [
        ("number", ["1794", "31 kilometres"], ["31", "41", "Hannah Pell"]),
        ("year", ["1794"], ["31", "1974"]),
        ("name", ["Hannah Pell"], ["Ottery Canal", "dug by Hannah Pell"]),
        ("words", ["dug by Hannah Pell", "Hannah Pell", "1794", "Ottery Canal"], ["Pell Hannah", "dug Pell"]),
    ],
)
def test_an_answer_is_copied(kind: str, answers: list[str], others: list[str]) -> None:
    shape = build_copied_constraint(CANAL.partition("] ")[2], "What is said of the Ottery Canal?", kind)
    assert shape is not None
    fits = re.compile(print_regex(shape.pattern))
    assert all(fits.fullmatch(f" {answer}\n") for answer in [*answers, NOT_STATED])
    assert not any(fits.fullmatch(f" {answer}\n") for answer in others)


def test_a_passage_without_a_number_is_not_asked_for_one() -> None:
    assert build_copied_constraint("Marl is a village.", "How many people live in Marl?", "number") is None


def test_names_are_runs_of_capitals() -> None:
    assert find_names("On the hill stands Upper Orr. It was built by J. K. Pell of Marl, Ada Rell and Jon Vint.") == [
        *("Upper Orr", "J. K. Pell of Marl", "Ada Rell", "Jon Vint")
    ]
    assert find_asked_names("Were Ada Rell and Jon Vint of the same country?") == ["Ada Rell", "Jon Vint"]


@pytest.mark.parametrize(
    ("question", "innermost"),
    [
        ("Who was the mayor of the birthplace of Tom Rudd?", "the birthplace of Tom Rudd"),
        ("In which town did the author of Emma die?", "the author of Emma"),
        ("Who founded the museum in which The Pale Sea hangs?", "the museum in which The Pale Sea hangs"),
        ("How wide is the hall that saw the opening of Emma?", "the hall that saw the opening of Emma"),
        ("How high is the hill with the spring of the Orr?", "the hill with the spring of the Orr"),
        ("In which home does the poet Ada Rell live?", None),
        ("Which has the larger area: Marl or Orlo?", None),
        ("On what date was the foundation of Marl?", None),
        ("Who was the author of Emma?", None),
        ("How long is the Ottery Canal?", None),
        ("Where is the sea?", None),
    ],
)
def test_the_innermost_description_has_a_name_and_is_not_all_that_is_asked_for(
    question: str, innermost: str | None
) -> None:
    assert innermost in find_descriptions(question) if innermost else find_descriptions(question) == []


@pytest.mark.parametrize(
    ("question", "sure"),
    [
        ("How many people live in the home of Tom Rudd?", True),
        ("In which year was the birthplace of Tom Rudd founded?", True),
        ("What was the trade of the teacher of Tom Rudd?", True),
        ("How long is the canal dug by Hannah Pell?", True),
        ("Who owns the ship on which Tom Rudd sailed?", True),
        ("How long did the construction of Marl Dam take?", False),
        ("By whom was the first performance of Emma given?", False),
        ("On which hill is the spring of the Orr?", False),
    ],
)
def test_a_description_is_left_alone_only_if_the_question_may_ask_for_what_it_says(question: str, sure: bool) -> None:
    shape = build_description_constraint(question, find_descriptions(question))
    assert bool(re.fullmatch(print_regex(shape.pattern), " none\n")) is not sure


@pytest.mark.parametrize(
    ("question", "operation"),
    [
        ("How much wider is Tarn Dam than Marl Dam?", "compute: abs(#1 - #2)"),
        ("By how many percent is Tarn Dam wider than Marl Dam?", "compute: (#1 - #2) / #2 * 100"),
        ("How wide are Tarn Dam and Marl Dam together?", "compute: #1 + #2"),
        ("How many years older is Tarn Dam than Marl Dam?", "years: #1 to #2"),
    ],
)
def test_what_is_done_with_two_facts_is_said_by_the_question(question: str, operation: str) -> None:
    shape = build_last_step_constraint(question, find_listed_names(question))
    assert re.fullmatch(print_regex(shape.pattern), f"{operation}\n")
    assert not re.fullmatch(print_regex(shape.pattern), "compute: #1 / #2\n")


@pytest.mark.parametrize(
    ("question", "said", "steps"),
    [
        ("How many acres larger is Hob Wood than Crow Wood?", "larger is Hob Wood than crow wood?", "large is"),
        ("How many more trees has Hob Wood than Crow Wood?", "more trees has Hob Wood?", "more trees has"),
        ("How many more trees has Hob Wood than Crow Wood?", "more trees has Hob Wood thancrow?", "trees has"),
    ],
)
def test_what_is_found_of_one_of_two_has_no_comparison(question: str, said: str, steps: str) -> None:
    found = repeat_step(f"find: How many {said}", question, find_listed_names(question))
    assert found == [f"find: How many {steps} Hob Wood?", f"find: How many {steps} Crow Wood?"]


@pytest.mark.parametrize(
    ("question", "first", "second"),
    [
        (
            "How old, in years, was the builder of Tarn Dam when it was opened?",
            "On what date was the builder of Tarn Dam born?",
            "On what date was Tarn Dam opened?",
        ),
        (
            "How old was the poet Ada Rell on the day of the foundation of Marl?",
            "On what date was the poet Ada Rell born?",
            "On what date was the foundation of Marl?",
        ),
        (
            "How old was Marl Dam at the time of its repair?",
            "On what date was Marl Dam built?",
            "On what date was the repair of Marl Dam?",
        ),
    ],
)
def test_an_age_is_from_a_birth_to_what_the_question_says(question: str, first: str, second: str) -> None:
    shape, plan = build_plan_constraint(question), f"find: {first}\nfind: {second}\nyears: #1 to #2\n"
    assert shape is not None
    assert re.fullmatch(print_regex(shape.pattern), plan)
    assert not re.fullmatch(print_regex(shape.pattern), plan.replace("years", "days"))


def test_a_date_is_moved_without_a_plan_of_the_models() -> None:
    bell = "[Marl] The bell of Marl was cast on 3 May 1751."
    result, _ = ask(["the bell of Marl", NOT_STATED], Library(bell), "What date was 9 days after the casting of Marl?")
    assert "On what date was the casting of Marl?" in result.answer


def test_what_is_asked_of_two_that_are_described_alike_has_the_description() -> None:
    question = "How many trees have the wood of Ada Rell and the wood of Tom Rudd together?"
    shape = print_regex(build_first_step_constraint(question, find_listed_names(question)).pattern)
    assert re.fullmatch(shape, "find: How many trees has the wood of Ada Rell?\n")
    assert not re.fullmatch(shape, "find: How many trees has Ada Rell?\n")


@pytest.mark.parametrize(
    ("quantity", "question", "may_be"),
    [
        ("31 kilometres", "How many locks does the Ottery Canal have?", False),
        ("12", "How many locks does the Ottery Canal have?", True),
        ("31 kilometres", "How many miles long is the Ottery Canal?", True),
        ("31 kilometres", "How many square miles does the lake cover?", False),
        ("31 kilometres", "How long is the Ottery Canal?", True),
    ],
)
def test_a_measure_is_no_count(quantity: str, question: str, may_be: bool) -> None:
    assert is_measure_asked(quantity, question) is may_be


def test_a_name_that_the_passage_has_is_looked_up_if_it_must_be() -> None:
    song = "[Blue Rain] Blue Rain is a song by the Quay Band."
    library = Library(song, "[Quay Band] The Quay Band was formed in 1931 in Marl.")
    replies = [NOT_STATED, "Quay Band", "no", "Quay Band", "Marl"]
    result, _ = ask(replies, library, "Blue Rain is a song by players from which town?")
    assert (result.answer, library.queries[-1]) == ("Marl", "Quay Band")


@pytest.mark.parametrize(("said", "answer"), [("Cole Dam", "Cole Dam"), (NOT_STATED, "The answer is not stated")])
def test_of_two_of_which_no_fact_is_found_one_is_chosen_from_what_is_found_on_both(said: str, answer: str) -> None:
    library = Library(DAM, "[Cole Dam] Cole Dam is far in the north.")
    plan = ["find: Where is Tarn Dam?\n", "most: #1 Tarn Dam, #2 Cole Dam\n"]
    replies = [*plan, NOT_STATED, "metres wide", "no", said]
    result, model = ask(replies, library, "Which is further north, Tarn Dam or Cole Dam?")
    assert result.answer.startswith(answer)
    assert f"{DAM}\n[Cole Dam]" in model.asked[-1].prompt.text


def test_a_question_of_yes_or_no_is_answered_so() -> None:
    result, model = ask(["yes"], Library(DAM), "Is Tarn Dam wide?")
    assert result.answer == "yes"
    held = model.asked[-1].constraint
    assert held is not None
    assert re.fullmatch(print_regex(held.pattern), " no\n")


@pytest.mark.parametrize(("judged", "answer"), [("yes", "Tarn Dam"), ("no", "The answer is not stated")])
def test_what_the_model_overlooks_is_read_again_and_judged(judged: str, answer: str) -> None:
    question = "What dam of Tarnland has 120 gates?"
    passage = "[Tarn Dam] Tarn Dam has 120 gates and stands in Tarnland."
    result, model = ask([NOT_STATED, "Tarn Dam", judged], Library(passage), question)
    assert result.answer.startswith(answer)
    assert model.asked[-1].prompt.text.rstrip().endswith(f"Question: {question}\nAnswer: Tarn Dam\nGiven:")


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Which hall has more seats: the Orpheum Hall or the Lyric Hall?", ["Orpheum Hall", "Lyric Hall"]),
        ("Which country is larger: Orlo or Ister?", ["Orlo", "Ister"]),
        ("How many of Marl Dam, Tarn Dam and Cole Dam are wide?", ["Marl Dam", "Tarn Dam", "Cole Dam"]),
        ("How many seats has the tower of Marl Dam more than that of Tarn Dam?", ["Marl Dam", "Tarn Dam"]),
        ("How much older is Marl Dam than Tarn Dam?", ["Marl Dam", "Tarn Dam"]),
        ("How many years after Marl Dam was Tarn Dam built?", ["Marl Dam", "Tarn Dam"]),
        ("How many years after the opening of Marl Dam was Tarn Dam built?", []),
        ("How much older is the builder of Marl Dam than Tom Rudd?", []),
        ("Which stood in Marl, Pell Works or Cole Works?", ["Pell Works", "Cole Works"]),
        ("Who met Ada Rell, Jon Vint and Tom Rudd?", []),
        ("How wide is Tarn Dam?", []),
        ("", []),
    ],
)
def test_what_is_asked_of_several_names_is_recognized(question: str, names: list[str]) -> None:
    assert find_listed_names(question) == names


@pytest.mark.parametrize(
    ("relation", "question", "asked"),
    [
        ("the date of her birth", "On what date was Ada Rell born?", True),
        ("the date of her death", "On what date was Ada Rell born?", False),
        ("the place of her birth", "In which town did Ada Rell die?", False),
        ("the number of islands", "How many islands has it?", True),
        ("the year it was pulled down", "In which year was it founded?", None),
        ("the tower's height", "What is the elevation of Marl?", None),
        ("", "", None),
    ],
)
def test_words_tell_whether_a_relation_is_asked_for(relation: str, question: str, asked: bool | None) -> None:
    assert is_relation_asked(relation, question) is asked


@pytest.mark.parametrize(
    ("question", "step", "another"),
    [
        ("What date was 9 days after the death of Ada Rell?", "On what date was Ada Rell born?", True),
        ("How old was Ada Rell when Marl burned?", "On what date did Ada Rell die?", True),
        ("How old was Ada Rell when she died?", "Ada Rell was born, Ada Rell died", False),
        ("In which year did Ada Rell turn 30?", "In which year was Ada Rell born?", False),
        ("How many years did Ada Rell live?", "Ada Rell was born, Ada Rell died", False),
        ("How many years older is Ada Rell than the son of Tom Rudd?", "When was Ada Rell born?", False),
    ],
)
def test_a_plan_asks_of_the_birth_or_death_that_the_question_needs(question: str, step: str, another: bool) -> None:
    assert is_of_another_event(step, question) is another


def test_units_that_the_question_lays_down_are_converted_and_rounded() -> None:
    question = "How many fathoms wide is Tarn Dam, if a fathom is 1.8 metres? Round to one decimal place."
    result, model = ask(["120 metres"], Library(DAM), question)
    assert result.answer == "66.7 fathoms"
    assert "How many metres wide is Tarn Dam?" in model.asked[0].prompt.text


def test_several_questions_are_answered_one_after_the_other() -> None:
    library = Library(CANAL, PELL)
    replies = ["Hannah Pell", "On what date was Hannah Pell born?", "3 May 1751", "the date of her birth"]
    result, _ = ask(replies, library, "Who dug the Ottery Canal? On what date was she born?")
    assert result.answer == "3 May 1751"


def test_a_number_of_what_the_passage_is_about_is_not_taken_for_something_else() -> None:
    orr = "[Orr Bridge] The Orr Bridge leads to Tarn Dam. It is 95 metres wide."
    result, _ = ask(["95 metres", NOT_STATED], Library(orr), "How wide is Tarn Dam?")
    assert "not stated" in result.answer


def test_a_number_that_occurs_twice_is_judged_by_the_sentence_that_the_question_is_about() -> None:
    orr = "[Orr Line] A ticket of the Orr Line costs 34 crowns in all. The Orr Line has 34 stations."
    result, model = ask(["34"], Library(orr), "How many stations does the Orr Line have?")
    assert (result.answer, len(model.asked)) == ("34", 1)


def test_things_that_are_described_by_two_names_are_compared_by_their_descriptions() -> None:
    question = "Which is wider, the dam of Marl or the dam of Cole?"
    assert find_listed_names(question) == ["Marl", "Cole"]
    assert describe_request(question, ["Marl", "Cole"]) == ["the dam of Marl", "the dam of Cole"]
    assert describe_request("Which is wider, Marl Dam or Cole Dam?", ["Marl Dam", "Cole Dam"]) == [
        "Marl Dam",
        "Cole Dam",
    ]


QUESTIONS = (
    "Who dug the Ottery Canal?",
    "How old was the engineer of the Ottery Canal in 1794?",
    "Which is wider, Tarn Dam or Marl Dam?",
    "How many dams have Tarn Dam, Marl Dam and Cole Dam together?",
    "How many dams does Tarn Dam have?",
    "What date was 12 days before the birth of Hannah Pell?",
    "An ell is 0 metres. How many ells wide is Tarn Dam? Round to one decimal place. Who dug it?",
)
PIECES = st.sampled_from(
    ("find: ", "compute: ", "count: ", "most: ", "date: ", "years: ", "#1", "#9", " > ", "\n", "7", "?")
)


@given(
    st.sampled_from(QUESTIONS), st.lists(st.lists(PIECES | st.text(max_size=9), max_size=7).map("".join), max_size=9)
)
def test_whatever_an_engine_says_that_holds_to_no_form_the_run_has_an_end(question: str, replies: list[str]) -> None:
    model = Said([*replies, *["find: it\n"] * 60], Capabilities())
    tools = [Tool("Search", Library(CANAL, PELL, DAM).search, effects="read"), calculator]
    result = Agent(model, tools, strategy="careful", budget=Budget(40)).run(question)
    assert result.stop_reason is not StopReason.ERROR, result.error
