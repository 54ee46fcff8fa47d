"""The pure parts of the studio's views: differences, drawings, the path of a run, and responses as they arrive."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from fakes.studio_modules import evaluated

# ── differences of texts ─────────────────────────────────────────────────────────────────────────


def differences(*pairs: tuple[str, str]) -> list[list[dict[str, str]]]:
    body = "return given.map(([a, b]) => m.textDiff(a, b))"
    found: list[list[dict[str, str]]] = evaluated("folds/text_diff.js", body, pairs)
    return found


def test_a_difference_gives_back_both_texts_and_shows_what_changed() -> None:
    rng = random.Random(7)
    texts = ["".join(rng.choice("ab \n") for _ in range(rng.randrange(12))) for _ in range(60)]
    texts += ["It is 21 °C, in Paris.", "It is 22 °C, in São Paulo!", "", " ", "👍🏽 ok"]
    pairs = list(itertools.pairwise(texts)) + [(one, one) for one in texts]
    for (before, after), parts in zip(pairs, differences(*pairs), strict=True):
        assert "".join(one["text"] for one in parts if one["kind"] != "added") == before
        assert "".join(one["text"] for one in parts if one["kind"] != "removed") == after
        assert all(one["text"] for one in parts)
        assert before != after or {one["kind"] for one in parts} <= {"same"}


def test_a_difference_is_as_small_as_it_can_be() -> None:
    ((*parts,),) = differences(("It is 21 degrees in Paris.", "It is 22 degrees in Paris now."))
    assert [(one["kind"], one["text"]) for one in parts] == [
        ("same", "It is "), ("removed", "21"), ("added", "22"), ("same", " degrees in Paris"),
        ("added", " now"), ("same", "."),
    ]  # fmt: skip


def test_texts_that_have_nothing_in_common_are_replaced_within_bounded_work() -> None:
    before, after = (" ".join(f"{word}{number}" for number in range(40_000)) for word in ("a", "b"))
    (parts,) = differences((before, after))
    assert [one["kind"] for one in parts] == ["removed", "added"]


def test_long_texts_are_compared_by_lines() -> None:
    lines = [f"line {number} of many" for number in range(3_000)]
    changed = [*lines[:1_500], "another line", *lines[1_501:]]
    (parts,) = differences(("\n".join(lines), "\n".join(changed)))
    assert [one["kind"] for one in parts] == ["same", "removed", "added", "same"]
    assert parts[2]["text"] == "another line\n"


# ── runs side by side ────────────────────────────────────────────────────────────────────────────


def event(kind: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": data}


def call(step: int, tool: str, text: str, **more: Any) -> list[dict[str, Any]]:
    action = {"id": f"call_{step}_{tool}", "tool": tool, "tool_input": more.get("tool_input", {"a": 1, "b": 2})}
    seen = {"call_id": action["id"], "text": text, "outcome": more.get("outcome", "result"), "seconds": step / 10}
    return [event("called", step=step, action=action), event("observed", step=step, observation=seen)]


def replied(step: int, text: str) -> dict[str, Any]:
    return event("replied", step=step, reply={"text": text, "usage": {"input_tokens": 2, "output_tokens": 1}})


def aligned(one: list[Any], other: list[Any]) -> Any:
    return evaluated("folds/step_alignment.js", "return m.align(...given.map(m.stepsOf))", [one, other])


def test_a_fork_is_the_same_until_its_observation_differs() -> None:
    begin = [replied(1, "look"), *call(1, "look", "rain"), replied(2, "again")]
    one = [*begin, *call(2, "look", "snow"), replied(3, "x"), event("finished", answer="cold")]
    other = [*begin, *call(2, "look", "sun"), event("finished", answer="warm")]
    found = aligned(one, other)
    assert found["parted"] == 1
    assert [row["same"] for row in found["rows"]] == [True, False, False, False]
    assert found["rows"][2]["b"] is None
    assert [found["rows"][3][side]["ended"]["answer"] for side in "ab"] == ["cold", "warm"]


def test_the_calls_of_a_graph_are_steps_by_their_results() -> None:
    one, other = call(0, "a", "x"), call(0, "b", "y")
    log = [one[0], other[0], one[1], other[1], *call(0, "c", "z"), event("finished", answer="z")]
    steps = evaluated("folds/step_alignment.js", "return m.stepsOf(given)", log)
    assert [[made["tool"] for made in step["calls"]] for step in steps] == [["a", "b"], ["c"], []]
    assert [step["step"] for step in steps[:2]] == [1, 2]


def test_time_and_the_order_of_keys_make_no_difference() -> None:
    one = [*call(1, "look", "rain", tool_input={"a": 1, "b": [{"c": 1, "d": 2}]}), event("finished", answer="x")]
    other = [*call(1, "look", "rain", tool_input={"b": [{"d": 2, "c": 1}], "a": 1}), event("finished", answer="x")]
    other[1]["data"]["observation"]["seconds"] = 9
    assert aligned(one, other)["parted"] == -1


def test_a_step_that_waited_or_is_withheld_is_a_step() -> None:
    action = {"id": "call_1_0", "tool": "book", "tool_input": "Nopi"}
    log = [
        event("paused", step=1, action=action),
        event("stopped", reason="AWAITING_HUMAN"),
        event("called", step=1, action=action | {"tool_input": "Rome"}),
        event("observed", step=1, observation={"call_id": "call_1_0", "text": "done"}),
        event("replied"), event("called"), event("observed"),
        event("stopped", reason="ERROR", detail="away"),
    ]  # fmt: skip
    first, last = evaluated("folds/step_alignment.js", "return m.stepsOf(given)", log)
    assert [(one["input"], one["output"]) for one in first["calls"]] == [("Rome", "done")]
    assert last["ended"] == {"answer": "", "reason": "ERROR", "detail": "away"}


# ── drawings ─────────────────────────────────────────────────────────────────────────────────────


def laid_out(names: str, *edges: str, direction: str = "down") -> Any:
    nodes = [{"id": name, "width": 80, "height": 40} for name in names.split()]
    given = [nodes, [dict(zip(("head", "tail"), edge.split(">"), strict=True)) for edge in edges], direction]
    body = "return m.layout(given[0], given[1], {direction: given[2], last: 'END'})"
    return evaluated("folds/graph_layout.js", body, given)


def places(drawn: Any) -> dict[str, tuple[float, float]]:
    return {one["id"]: (one["x"], one["y"]) for one in drawn["nodes"]}


def check(drawn: Any) -> None:
    """All boxes are on the plane, and none is on another."""
    boxes = [(one["x"], one["y"]) for one in drawn["nodes"]]
    for x, y in boxes:
        assert 40 <= x <= drawn["width"] - 40
        assert 20 <= y <= drawn["height"] - 20
    for (x, y), (u, v) in itertools.combinations(boxes, 2):
        assert abs(x - u) >= 80 or abs(y - v) >= 40
    assert all(one["path"].startswith("M") and "NaN" not in one["path"] for one in drawn["edges"])


def test_layers_go_down_and_the_end_is_below_all() -> None:
    drawn = laid_out("START a b c END", "START>a", "START>b", "a>c", "b>c", "a>END", "c>END")
    check(drawn)
    at = places(drawn)
    assert at["START"][1] < at["a"][1] == at["b"][1] < at["c"][1] < at["END"][1]


def test_a_circle_goes_back_at_the_side() -> None:
    drawn = laid_out("START write grade END", "START>write", "write>grade", "grade>write", "grade>END", "grade>grade")
    check(drawn)
    assert [one["back"] for one in drawn["edges"]] == [False, False, True, False, True]


def test_to_the_right_is_the_same_on_its_side() -> None:
    drawn = laid_out("a b c d", "a>b", "a>c", "c>d", direction="right")
    check(drawn)
    at = places(drawn)
    assert at["a"][0] < at["b"][0] == at["c"][0] < at["d"][0]
    assert at["b"][1] != at["c"][1]


@pytest.mark.parametrize("direction", ["down", "right"])
def test_any_graph_is_drawn(direction: str) -> None:
    rng = random.Random(3)
    for size in (1, 2, 12, 60):
        names = [f"n{number}" for number in range(size)]
        edges = {f"{rng.choice(names)}>{rng.choice(names)}" for _ in range(size * 2)}
        check(laid_out(" ".join(names), *sorted(edges), "n0>nobody", direction=direction))


def test_of_many_tools_some_are_drawn_and_the_others_counted() -> None:
    tools = [{"name": f"t{number}", "effects": "read", "approval": False, "part": None} for number in range(200)]
    outline = {"id": "a", "name": "a", "kind": "agent", "model": "m", "graph": None, "tools": tools}
    found = evaluated("folds/agent_graph.js", "return m.graphOf(given)", outline)
    assert len(found["nodes"]) + found["left"] == 201
    assert len(found["nodes"]) <= 80


# ── a run's path ─────────────────────────────────────────────────────────────────────────────────

GRAPH = {
    "nodes": [{"id": name} for name in ("START", "write", "grade", "rescue", "editor", "END")],
    "edges": [
        {"head": "START", "tail": "write", "kind": "always"},
        {"head": "write", "tail": "grade", "kind": "always"},
        {"head": "write", "tail": "rescue", "kind": "error"},
        {"head": "grade", "tail": "write", "kind": "conditional"},
        {"head": "grade", "tail": "editor", "kind": "conditional"},
        {"head": "grade", "tail": "END", "kind": "conditional"},
        {"head": "rescue", "tail": "END", "kind": "always"},
        {"head": "editor", "tail": "END", "kind": "always"},
    ],
}


def walked(*log: Any) -> dict[str, int]:
    body = "return [...m.edgesWalked(given[0], m.visitsOf(given[1]))]"
    names = [f"{one['head']}>{one['tail']}" for one in GRAPH["edges"]]
    return {names[at]: times for at, times in evaluated("folds/run_path.js", body, [GRAPH, log])}


def test_a_loop_is_walked_as_often_as_it_was() -> None:
    log = [*call(0, "write", "a"), *call(0, "grade", "3"), *call(0, "write", "b"), *call(0, "grade", "9")]
    assert walked(*log, event("finished")) == {
        "START>write": 1, "write>grade": 2, "grade>write": 1, "grade>END": 1
    }  # fmt: skip


def test_a_failure_takes_the_edge_for_errors() -> None:
    log = [*call(1, "write", "no", outcome="failed"), *call(2, "rescue", "x"), event("finished")]
    assert walked(*log) == {"START>write": 1, "write>rescue": 1, "rescue>END": 1}


def test_a_gate_is_on_the_path_while_it_waits_and_once() -> None:
    gate = event("paused", step=3, action={"id": "call_3_0", "tool": "editor", "tool_input": "x"})
    log = [*call(1, "write", "a"), *call(2, "grade", "9"), gate]
    assert walked(*log) == {"START>write": 1, "write>grade": 1, "grade>editor": 1}
    assert walked(*log, gate, event("resumed", call_id="call_3_0"), event("finished"))["grade>editor"] == 1
    body = "const p = m.visitsOf(given); return [[...p.waits], [...p.visits]]"
    assert evaluated("folds/run_path.js", body, log)[0] == ["editor"]
    assert evaluated("folds/run_path.js", body, [*log, event("resumed", call_id="call_3_0")])[0] == []


def test_calls_of_one_step_are_side_by_side_and_tools_are_counted() -> None:
    both = [event("called", step=1, action={"id": f"c{at}", "tool": name}) for at, name in enumerate(("a", "b", "a"))]
    body = "const p = m.visitsOf(given); return [p.steps, [...p.visits]]"
    steps, visits = evaluated("folds/run_path.js", body, [*both, event("called"), event("observed")])
    assert steps[0] == ["a", "b", "a"]
    assert dict(visits)["a"] == [1, 1]


# ── responses as they arrive ─────────────────────────────────────────────────────────────────────


def response(*events: dict[str, Any]) -> Any:
    numbered = [{"sequence_number": at, **one} for at, one in enumerate(events)]
    return evaluated("folds/response_stream.js", "return given.reduce(m.afterEvent, m.FRESH)", numbered)


def test_a_text_grows_and_events_that_come_twice_count_once() -> None:
    item = {"id": "msg_1", "type": "message", "content": []}
    delta = {"type": "response.output_text.delta", "output_index": 0, "delta": "Hi", "sequence_number": 1}
    found = response({"type": "response.output_item.added", "output_index": 0, "item": item}, delta, delta)
    assert found["items"][0]["text"] == "Hi"


def test_an_error_event_ends_it() -> None:
    assert response({"type": "error", "message": "away"})["error"] == "away"


def test_what_waits_is_answered_by_the_four_decisions() -> None:
    body = "return given[1].map((one) => m.answerItem(given[0], one))"
    decisions = [
        {"kind": "approve"}, {"kind": "edit", "arguments": {"place": "Rome"}}, {"kind": "reject", "message": "no"},
        {"kind": "respond", "message": "done"},
    ]  # fmt: skip
    approve, edit, *_ = evaluated("folds/response_stream.js", body, [{"id": "mcpr_abxcallx1x0"}, decisions])
    assert approve == {"type": "mcp_approval_response", "approval_request_id": "mcpr_abxcallx1x0", "approve": True}
    assert (edit["type"], edit["call_id"]) == ("function_call_output", "call_abxcallx1x0")


def test_the_run_behind_a_response() -> None:
    found = evaluated(
        "folds/response_stream.js", "return given.map(m.runOf)", ["resp_10b6", "resp_10b6x1", "resp_1x12"]
    )
    assert found == ["run_10b6", "run_10b6", "run_1"]
