"""Graphs: order, joins, cycles, selectors, gates, failures, and what is refused when they are compiled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from retinue import Agent, Decision, Executor, MessageGroup, Planner, PromptModel, Role, StopReason, UsageError, tool
from retinue.core.events import Asked, Called, Event, Observed
from retinue.teams import END, START, HumanGate, ModelChoice, StateField, When
from retinue.tools import calculator


def says(word: str) -> Callable[[str], str]:
    def role(text: str) -> str:
        return f"{word}({text})"

    return role


def group(*edges: str, roles: str = "", **options: Any) -> MessageGroup:
    """A group with edges such as `a>b`, whose roles say their own names and what they got."""
    made = MessageGroup("g", **options)
    names = roles.split() or list(dict.fromkeys(n for edge in edges for n in edge.split(">") if n not in (START, END)))
    for name in names:
        made.add_role(name, lambda text, name=name: f"{name}({text})", input=None)
    for edge in edges:
        made.add_edge(*edge.split(">"))
    return made


def called(events: Sequence[Event]) -> list[str]:
    return [event.action.tool for event in events if isinstance(event, Called)]


def test_roles_run_in_order_and_hear_each_other() -> None:
    made = MessageGroup("g").add_role("a", says("a")).add_role("b", says("b"))
    made.add_edge(START, "a").add_edge("a", "b").add_edge("b", END)
    result = made.compile().run("q")
    assert (result.answer, result.stop_reason) == ("b(a(q))", StopReason.ANSWER)
    assert result.return_values["state"]["visits"] == {"a": 1, "b": 1}
    assert result.return_values["state"]["a"] == "a(q)"


def test_roles_side_by_side_are_one_turn_and_a_join_waits_for_both() -> None:
    together = asyncio.Barrier(2)  # neither gets past it alone

    async def first(question: str) -> str:
        await together.wait()
        return "one"

    async def second(question: str) -> str:
        await together.wait()
        return "two"

    made = MessageGroup("g").add_role("first", first).add_role("second", second)
    made.add_role("join", lambda heard: sorted(heard.items()))
    for head, tail in [(START, "first"), (START, "second"), ("first", "join"), ("second", "join"), ("join", END)]:
        made.add_edge(head, tail)
    result = made.compile().run("q")
    assert result.answer == '[["first", "one"], ["second", "two"]]'
    assert called(result.events) == ["first", "second", "join"]


def test_a_join_waits_for_the_longer_way() -> None:
    made = MessageGroup("g")
    for name in "abcd":
        made.add_role(name, says(name))
    made.add_role("join", lambda heard: sorted(heard))
    for edge in ["START>a", "START>b", "b>c", "c>d", "a>join", "d>join", "join>END"]:
        made.add_edge(*edge.split(">"))
    assert made.compile().run("q").answer == '["a", "d"]'


def test_a_join_does_not_wait_for_a_way_that_was_not_taken() -> None:
    made = MessageGroup("g").add_role("a", says("a")).add_role("b", says("b")).add_role("join", says("join"))
    made.add_role("left", says("left")).add_role("right", says("right"))
    for edge in ["START>a", "START>b", "b>join", "left>join", "right>join", "join>END"]:
        made.add_edge(*edge.split(">"))
    made.add_conditional_edges("a", ["left", "right"], lambda state: "right")
    result = made.compile().run("q")
    assert called(result.events) == ["a", "b", "select_a", "right", "join"]


def drafting(**options: Any) -> MessageGroup:
    made = MessageGroup("g", state={"draft": str, "score": int}, **options)
    made.add_role("write", lambda question, visits: f"draft {visits['write']}", output="draft")
    made.add_role("review", lambda visits: 3 * visits["write"], output="score")
    return made.add_edge(START, "write").add_edge("write", "review")


def test_a_cycle_runs_until_its_expression_ends_it() -> None:
    made = drafting(answer="draft").add_conditional_edges(
        "review", ["write", END], When([("score >= 8", END)], otherwise="write")
    )
    result = made.compile().run("q")
    assert (result.answer, called(result.events)) == ("draft 3", ["write", "review"] * 3)


def test_a_cycle_ends_at_the_limit_of_a_role() -> None:
    made = drafting(answer="draft", max_visits=2)
    made.add_conditional_edges("review", {"true": "write", "false": END}, "score > 0")
    result = made.compile().run("q")
    assert result.stop_reason is StopReason.MAX_ITERATION_EXCEEDED
    assert (result.answer, result.best_answer) == ("", "draft 2")
    assert called(result.events) == ["write", "review"] * 2
    assert "the role 'write' ran 2 times, which is its limit (max_visits)" in str(result.events[-1])


def test_a_cycle_ends_at_the_limit_of_the_graph() -> None:
    made = drafting(max_runs=5).add_conditional_edges("review", {True: "write", False: END}, "score > 0")
    result = made.compile().run("q")
    assert len(called(result.events)) == 5
    assert "the graph's roles ran 5 times, which is its limit (max_runs)" in str(result.events[-1])


def test_a_selector_function_is_recorded() -> None:
    asked: list[Any] = []

    def should_continue(state: dict[str, Any]) -> str:
        asked.append(state["score"])
        return "yes" if len(asked) < 3 else "no"

    made = drafting().add_conditional_edges("review", {"yes": "write", "no": END}, should_continue)
    result = made.compile().run("q")
    assert asked == [3, 6, 9]
    assert called(result.events)[2] == "select_review"


def test_a_selector_may_choose_several() -> None:
    made = group("b>END", "c>END", roles="a b c").add_edge(START, "a")
    made.add_conditional_edges("a", ["b", "c", END], lambda state: ["b", "c"])
    assert called(made.compile().run("q").events) == ["a", "select_a", "b", "c"]


@pytest.mark.parametrize(
    ("selector", "problem"),
    [
        (lambda state: "nowhere", "the conditional edges from 'a': 'nowhere' was selected; there are: b, END"),
        (lambda state: 1 / 0, "the conditional edges from 'a': select_a failed: ZeroDivisionError"),
        (When([("a == 'x'", "b")]), "none of \"a == 'x'\" is true; add `otherwise`"),
        (When([("a > 3", "b")], END), "'a(q)' > 3 cannot be compared"),
    ],
)
def test_a_selector_that_chooses_nothing_ends_the_run_with_its_name(selector: Any, problem: str) -> None:
    made = group("START>a", "b>END", roles="a b").add_conditional_edges("a", ["b", END], selector)
    result = made.compile().run("q")
    assert result.stop_reason is StopReason.ERROR
    assert problem in result.error


@pytest.mark.parametrize("reply", [" b\n", "B.", '{"choice": "b"}', "I choose b"])
def test_the_model_chooses(reply: str) -> None:
    model = PromptModel(script=[reply])
    made = group("START>a", "b>END", "c>END", roles="a b c", model=model)
    made.add_conditional_edges("a", ["b", "c"], ModelChoice("Who is next?"))
    result = made.compile().run("q")
    assert called(result.events) == ["a", "b"]
    (asked,) = [event for event in result.events if isinstance(event, Asked)]
    assert "a: a(q)" in asked.messages[0].content
    assert "Who is next?" in asked.messages[0].content


def test_a_model_that_names_no_candidate_is_asked_again_and_then_ends_the_run() -> None:
    model = PromptModel(script=["perhaps", "b or c"])
    made = group("START>a", "b>END", "c>END", roles="a b c", model=model)
    result = made.add_conditional_edges("a", ["b", "c"], ModelChoice()).compile().run("q")
    assert result.stop_reason is StopReason.UNREADABLE_REPLY
    assert "the model named none of b, c" in str(result.events[-1])


# ── what roles are ───────────────────────────────────────────────────────────────────────────────


def test_a_role_may_be_an_agent_a_tool_an_executor_or_a_component() -> None:
    made = MessageGroup("g")
    made.add_role("ask", Agent(PromptModel(script=[{"say": "2 + 3"}]), name="asker"))
    made.add_role("compute", calculator)
    made.add_role("act", Executor([calculator]), input="action")
    made.add_role("write", lambda compute: {"tool": "Calculator", "input": f"{compute} * 2"}, output="action")
    for head, tail in [(START, "ask"), ("ask", "compute"), ("compute", "write"), ("write", "act"), ("act", END)]:
        made.add_edge(head, tail)
    assert made.compile().run("q").answer == "10"


def test_a_compiled_group_is_a_role_and_a_tool() -> None:
    inner = group("START>a", "a>END").compile()
    outer = MessageGroup("outer").add_role("inner", inner).add_edge(START, "inner").add_edge("inner", END).compile()
    assert outer.run("q").answer == "a(q)"
    script = [{"call": {"tool": "g", "input": "x"}, "times": 1}, {"finish": "done"}]
    result = Agent(PromptModel(script=script), [inner]).run("q")
    assert result.steps[0].observations[0].text == "a(x)"


def test_reducers_combine_what_roles_write() -> None:
    state = {
        "notes": StateField(list, "append"),
        "count": StateField(int, "add", 1),
        "facts": StateField(dict, "merge"),
        "best": StateField(int, max, 5),
    }
    made = MessageGroup("g", state=state)
    made.add_role("a", lambda: {"notes": "x", "count": 2, "facts": {"a": 1}, "best": 3}, output=list(state))
    made.add_role("b", lambda: {"notes": "y", "count": 3, "facts": {"b": 2}, "best": 9}, output=list(state))
    for edge in ["START>a", "START>b", "a>END", "b>END"]:
        made.add_edge(*edge.split(">"))
    final = made.compile().run("q").return_values["state"]
    assert {name: final[name] for name in state} == {
        "notes": ["x", "y"], "count": 6, "facts": {"a": 1, "b": 2}, "best": 9
    }  # fmt: skip


def test_long_values_are_kept_whole() -> None:
    made = MessageGroup("g").add_role("a", lambda text: text * 50_000).add_role("b", lambda a: len(a))
    made.add_edge(START, "a").add_edge("a", "b").add_edge("b", END)
    assert made.compile().run("q").answer == "50000"


def test_several_fields_are_one_text_for_an_agent() -> None:
    model = PromptModel(script=[{"when": "question: q\n\na: a\\(q\\)", "say": "read"}])
    made = MessageGroup("g").add_role("a", says("a")).add_role("b", Agent(model), input=["question", "a", "later"])
    made.add_role("later", says("later")).add_edge(START, "a").add_edge("a", "b").add_edge("b", "later")
    assert made.add_edge("later", END).compile().run("q").answer == "later(read)"


# ── failures and people ──────────────────────────────────────────────────────────────────────────


def fails(text: str) -> str:
    raise ValueError("no luck")


def test_a_function_whose_parameters_are_optional_and_no_fields_is_called_without_any() -> None:
    group = MessageGroup().add_role("add", lambda one=1, two=2: one + two)
    assert group.add_edge(START, "add").add_edge("add", END).compile().run("?").answer == "3"


def test_a_role_that_fails_ends_the_run_with_its_name() -> None:
    made = group("START>a", "a>b", "b>END", roles="a").add_role("b", fails)
    result = made.compile().run("q")
    assert result.stop_reason is StopReason.ERROR
    assert "the role 'b' failed: b failed: ValueError: no luck" in result.error


def test_an_edge_for_errors_leads_on() -> None:
    made = MessageGroup("g").add_role("a", fails).add_role("mend", lambda errors: f"mended {errors['a']}")
    made.add_edge(START, "a").add_edge("a", END).add_edge("a", "mend", on_error=True).add_edge("mend", END)
    assert made.compile().run("q").answer == "mended a failed: ValueError: no luck"


def test_an_output_of_another_type_is_a_failure() -> None:
    made = MessageGroup("g", state={"score": int}).add_role("a", lambda text: "seven", output="score")
    result = made.add_edge(START, "a").add_edge("a", END).compile().run("q")
    assert "the role 'a' failed: the field 'score' must be int, not str 'seven'" in result.error


def test_a_planner_plans_and_a_graph_takes_it_for_a_role() -> None:
    script = [{"raw": "1. Find the director\n2. Add up the ages\n"}]
    planner = Planner(PromptModel(script=script))
    assert planner.run("How old?").return_values["steps"] == ["Find the director", "Add up the ages"]
    group = MessageGroup("g", state={"plan": dict}).add_role("plan", planner, output="plan")
    group.add_role("count", lambda plan: len(plan["steps"])).add_edge(START, "plan").add_edge("plan", "count")
    assert group.add_edge("count", END).compile().run("How old?").answer == "2"
    assert Planner(PromptModel(script=script), approve=True).run("How old?").stop_reason is StopReason.AWAITING_HUMAN


def test_one_name_is_one_name_and_not_its_letters() -> None:
    made = MessageGroup("g", state={"draft": str}, model=PromptModel(script=["b"]))
    made.add_role("a", says("a"), output="draft").add_role("b", lambda draft: f"b {draft}").add_edge(START, "a")
    made.add_conditional_edges("a", "b", ModelChoice(shows="draft"))
    assert made.add_edge("b", END).compile().run("q").answer == "b a(q)"


def gated(**options: Any) -> MessageGroup:
    made = MessageGroup("g", answer="draft", **options).add_role("write", says("draft"), output="draft")
    made.add_role(HumanGate("check", question="Publish it?")).add_role("publish", says("published"))
    return (
        made.add_edge(START, "write").add_edge("write", "check").add_edge("check", "publish").add_edge("publish", END)
    )


def test_a_person_is_asked_at_a_gate_and_the_run_waits() -> None:
    agent = gated().compile()
    parked = agent.run("q")
    assert parked.stop_reason is StopReason.AWAITING_HUMAN
    done = agent.resume(parked.events, {"consult_1": Decision("approve")})
    assert done.return_values["state"]["publish"] == "published(draft(q))"
    assert done.return_values["state"]["check"] == {"decision": "approve", "message": ""}
    assert called(done.events) == ["write", "publish"]


def test_what_a_person_edits_goes_on() -> None:
    seen: list[Any] = []

    def human(action: Any, problem: str) -> Decision:
        seen.append((action.tool, action.tool_input, problem))
        return Decision("edit", "better")

    state = gated(human=human).compile().run("q").return_values["state"]
    assert seen == [("check", "draft(q)", "Publish it?")]
    assert (state["draft"], state["publish"]) == ("better", "published(better)")


def test_a_rejection_ends_the_run_or_leads_elsewhere() -> None:
    reject = Decision("reject", message="too long")
    result = gated(human=lambda *_: reject).compile().run("q")
    assert "the role 'check' failed: a person rejected it: too long" in result.error
    made = MessageGroup("g", human=lambda *_: reject).add_role("write", lambda question: "w")
    made.add_role(HumanGate("check", "write")).add_edge(START, "write").add_edge("write", "check")
    made.add_conditional_edges("check", ["write", END], When([("visits.write < 3", "write")], END))
    assert called(made.compile().run("q").events) == ["write"] * 3


# ── compiled again, resumed ──────────────────────────────────────────────────────────────────────


def test_roles_may_be_added_and_the_group_compiled_again() -> None:
    made = group("START>a", "a>END")
    before = made.compile()
    made.add_role("b", says("b")).add_edge("a", "b").add_edge("b", END)
    assert before.run("q").answer == "a(q)"
    assert called(made.compile().run("q").events) == ["a", "b"]


def test_a_run_under_way_keeps_its_plan() -> None:
    made = MessageGroup("g")

    def grow(question: str) -> str:
        made.add_role("b", says("b")).add_edge("a", "b").add_edge("b", END).compile()
        return "grown"

    made.add_role("a", grow).add_edge(START, "a").add_edge("a", END)
    assert called(made.compile().run("q").events) == ["a"]


def test_a_run_cut_off_after_any_event_goes_on_and_repeats_nothing() -> None:
    done: list[str] = []

    def doing(word: str) -> str:
        done.append(word)
        return word[0]

    @tool(effects="idempotent")
    def left(text: str) -> str:
        """Do it once."""
        return doing("left")

    def should_continue(state: dict[str, Any]) -> str:
        doing("select")
        return "split" if state["visits"]["join"] < 2 else "end"

    made = MessageGroup("g", human=lambda *_: Decision("approve"), model=PromptModel(script=[{"say": "out"}]))
    made.add_role("split", lambda question: doing("split")).add_role("left", left)
    made.add_role("right", lambda split: doing("right"), effects="idempotent")
    made.add_role("join", lambda heard: doing("join") and sorted(heard)).add_role(HumanGate("gate"))
    made.add_role("out", lambda join: f"out {join}")
    for edge in ["START>split", "split>left", "split>right", "left>join", "right>join", "out>END"]:
        made.add_edge(*edge.split(">"))
    made.add_conditional_edges("join", {"split": "split", "end": "gate"}, should_continue)
    made.add_conditional_edges("gate", ["out", "split"], ModelChoice())
    agent = made.compile()
    whole = agent.run("q")
    assert whole.answer == "out ['left', 'right']"
    for cut in range(1, len(whole.events)):
        done.clear()
        log = whole.events[:cut]
        begun = {e.action.id for e in log if isinstance(e, Called)} - {
            e.observation.call_id for e in log if isinstance(e, Observed)
        }
        again = agent.resume(log)
        assert again.answer == whole.answer
        assert again.return_values == whole.return_values
        left_out = len(called(whole.events)) - 1 - len(called(log)) + len(begun)
        assert len(done) == max(left_out, 0), f"cut after {cut}"


# ── what is refused ──────────────────────────────────────────────────────────────────────────────


def test_all_mistakes_are_told_at_once() -> None:
    made = group("START>a", "a>bb", "a>bb", "b>START", roles="a b lonely")
    made.add_conditional_edges("b", [], lambda state: "x")
    made.add_role("a", says("a"))
    made.add_role("reads", says("x"), input="nothing")
    with pytest.raises(UsageError) as error:
        made.compile()
    for problem in [
        "two roles are called 'a'",
        "no role 'bb'; did you mean 'b'?",
        "there are two edges from 'a' to 'bb'",
        "nothing leads to START",
        "the conditional edges from 'b' have no candidates",
        "role reads: input: no field 'nothing'",
    ]:
        assert problem in str(error.value)


@pytest.mark.parametrize(
    ("edges", "problem"),
    [
        ("START>a a>END b>END", "the role 'b' is never reached; add an edge to it"),
        ("START>a a>b", "nothing follows the role 'b'; add an edge, such as one to END"),
        ("a>END", "nothing follows START"),
        ("START>a a>b b>a a>END", "never ends; make one of these edges conditional"),
        ("START>a a>b b>b a>END", "there is no way from the role 'b' to END"),
        ("START>a END>a a>END", "nothing follows END"),
    ],
)
def test_a_structure_that_cannot_work_is_refused(edges: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        group(*edges.split()).compile()


def reads_int(score: int) -> str:
    return ""


def two(one: str, other: str) -> str:
    return ""


@pytest.mark.parametrize(
    ("role", "problem"),
    [
        (Role("b", says("b"), input="later"), "role b: it reads the field 'later', which nothing before it sets"),
        (Role("b", reads_int, input={"score": "a"}), "its parameter 'score' wants int, and the field 'a' holds str"),
        (Role("b", says("b"), output="count"), "it returns str, and its field 'count' holds int"),
        (Role("b", two), "its parameter 'one' is no field of the state; say input={'one': …}"),
        (Role("b", two, input={"one": "a"}), "its parameter 'other' gets nothing; name a field for it"),
        (Role("b", two, input={"on": "a"}), "input: no parameter 'on'; did you mean 'one'?"),
        (Role("b", two, output="visits"), "output: the field 'visits' is kept by the graph"),
    ],
)
def test_fields_that_do_not_fit_are_refused(role: Role, problem: str) -> None:
    made = MessageGroup("g", state={"a": str, "count": int, "later": str}).add_role("a", says("a")).add_role(role)
    made.add_edge(START, "a").add_edge("a", "b").add_edge("b", END)
    with pytest.raises(UsageError) as error:
        made.compile()
    assert problem in str(error.value)


def test_selectors_are_checked_too() -> None:
    made = group("START>a", "b>END", roles="a b")
    made.add_conditional_edges("a", ["b", END], When([("scroe > 3", "bb")], "b"))
    with pytest.raises(UsageError) as error:
        made.compile()
    assert "'bb' is no candidate" in str(error.value)
    assert "no field 'scroe'" in str(error.value)
    with pytest.raises(UsageError, match=r"the expression 'a =': '=' at character 3"):
        made.add_conditional_edges("a", ["b"], When([("a =", "b")]))
    with pytest.raises(UsageError, match="want one parameter, `state`"):
        made.add_conditional_edges("a", ["b"], lambda a, b: "b")
    with pytest.raises(UsageError, match="the group has none; say model="):
        group("START>a", "b>END", roles="a b").add_conditional_edges("a", ["b"], ModelChoice()).compile()


@pytest.mark.parametrize("name", ["a b", "", "START", "é", "x" * 51])
def test_names_that_no_role_can_have_are_refused(name: str) -> None:
    with pytest.raises(UsageError):
        Role(name, says("a"))


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (lambda: StateField("strng"), "no type 'strng'; did you mean 'str'?"),
        (lambda: StateField(int, "apend"), "no reducer 'apend'; did you mean 'append'?"),
        (lambda: StateField(int, "append"), "the reducer append needs a list, not int"),
        (lambda: StateField(int, default="x"), "its default must be int"),
        (lambda: MessageGroup(state={"visits": int}), "state: 'visits' is kept by the graph"),
        (lambda: Role("a", 7), "role a: 7 cannot be called"),
        (lambda: Role("a", max), "role a: the parameters of <built-in function max> are not known"),
        (lambda: MessageGroup().add_role("a"), "role a: want what it does"),
    ],
)
def test_declarations_that_cannot_be_are_refused(made: Callable[[], Any], problem: str) -> None:
    with pytest.raises(UsageError) as error:
        made()
    assert problem in str(error.value)


# ── any graph ends ───────────────────────────────────────────────────────────────────────────────

NODES = st.sampled_from(["a", "b", "c", "d", "e"])


@settings(deadline=None)
@given(
    st.lists(st.tuples(NODES | st.just(START), NODES | st.just(END), st.booleans()), max_size=14),
    st.lists(st.tuples(NODES, st.lists(NODES | st.just(END), max_size=3, unique=True)), max_size=4),
    st.integers(0, 2**30),
)
def test_any_graph_is_refused_or_ends(edges: Any, branches: Any, seed: int) -> None:
    made = MessageGroup("g", max_visits=3, max_runs=25)
    for name in dict.fromkeys(n for edge in edges for n in edge[:2] if n not in (START, END)):
        made.add_role(name, lambda name=name: name)
    for head, tail, on_error in edges:
        made.add_edge(head, tail, on_error=on_error)
    for head, tails in branches:
        made.add_conditional_edges(head, tails, _pick(tails, seed))
    try:
        agent = made.compile()
    except UsageError:
        return
    made.text()
    made.svg()
    result = agent.run("q")
    assert result.stop_reason in (StopReason.ANSWER, StopReason.MAX_ITERATION_EXCEEDED)
    assert len([one for one in called(result.events) if not one.startswith("select")]) <= 25
    assert called(agent.resume(result.events[: len(result.events) // 2 or 1]).events) == called(result.events)


def _pick(tails: list[str], seed: int) -> Callable[[dict[str, Any]], str]:
    return lambda state: tails[(seed + sum(state["visits"].values())) % len(tails)]


def test_a_drawing_shows_every_role_and_edge() -> None:
    made = group("START>a", "b>END", roles="a b").add_edge("a", "b", on_error=True)
    made.add_conditional_edges("a", ["a", "b"], lambda state: "b")
    text, svg = made.text(), made.svg()
    assert "a ?→ a, b" in text
    assert "a !→ b" in text
    assert svg.count("<rect") == 4
    assert "stroke-dasharray" in svg
