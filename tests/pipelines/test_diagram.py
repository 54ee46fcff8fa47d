"""Pictures of pipelines."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from retinue import Pipeline


def choose(query: str) -> Any:
    return {}, "output_2"


def step(query: str) -> str:
    return query


def branched(*, long: str = "Long") -> Pipeline:
    pipeline = Pipeline()
    pipeline.add_node(choose, "Choose")
    pipeline.add_node(step, "Short", ["Choose.output_1"])
    pipeline.add_node(step, long, ["Choose.output_2"])
    pipeline.add_node(step, "Twice", [long])
    pipeline.add_node(step, "Join", ["Short", "Twice", "Query"])
    pipeline.add_node(step, "End", {"query": "Join.results"})
    return pipeline


def test_text_is_drawn_layer_by_layer() -> None:
    assert branched().draw() == (
        "Query\n  ↓\n"
        "Choose (← Query)\n  ↓\n"
        "Short (← Choose.output_1)   Long (← Choose.output_2)\n  ↓\n"
        "Twice (← Long)\n  ↓\n"
        "Join (← Short, Twice, Query)\n  ↓\n"
        "End (← Join.results)"
    )


def test_wide_layers_go_on_in_the_next_line() -> None:
    pipeline = Pipeline()
    for number in range(12):
        pipeline.add_node(step, f"Node{number}", ["Query"])
    lines = pipeline.draw().splitlines()
    assert len(lines) == 5
    assert all(len(line) <= 100 for line in lines)


def test_svg_has_a_box_for_each_node_and_a_line_for_each_input() -> None:
    root = ElementTree.fromstring(branched().draw_svg())
    space = {"s": "http://www.w3.org/2000/svg"}
    boxes = root.findall("s:rect", space)
    assert len(boxes) == 7
    assert len([path for path in root.findall("s:path", space) if path.get("marker-end")]) == 8
    places = {(box.get("x"), box.get("y")) for box in boxes}
    assert len(places) == 7
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    for box in boxes:
        assert 0 <= float(box.get("x", 0)) <= width - float(box.get("width", 0))
        assert 0 <= float(box.get("y", 0)) <= height - float(box.get("height", 0))


def test_names_are_escaped() -> None:
    evil = """<script>alert("1")</script>&'"""
    drawn = branched(long=evil).draw_svg()
    assert "<script" not in drawn
    texts = [text.text for text in ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]
    assert evil in texts


def test_an_empty_pipeline_is_its_root() -> None:
    assert Pipeline().draw() == "Query"
    assert ElementTree.fromstring(Pipeline()._repr_svg_()).tag.endswith("svg")


def test_long_lines_out_of_one_node_go_down_together() -> None:
    pipeline = Pipeline()
    for number in range(500):
        inputs = ["Query", f"n{number - 1}"] if number else ["Query"]
        pipeline.add_node(step, f"n{number}", inputs)
    assert len(pipeline.draw_svg()) < 500_000
