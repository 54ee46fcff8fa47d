"""What models are shown as examples shares no wording with the questions by which they are measured."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

from architecture.source import SRC

ROOT = Path(__file__).parents[2]
SHOWN = ("cli/starter", "components", "core", "mcp", "memory", "models", "strategies", "teams", "tools")
MEASURED = (
    "hotpotqa/questions", "memory/turns", "tasks/tasks", "teams/questions", "teams/test_questions",
    "worlds/dev/questions", "worlds/test/questions",
)  # fmt: skip
RULE = "to the nearest whole number"  # of rounding, which is read in questions and shown to nobody
COMMON = frozenset(
    "a an the of to in on at by for from with and or but is are was were be been it its he she his her him they them "
    "their i me my you your that this these those what which who whom whose when where why how many much did do does "
    "done has have had as than not no if there then so will would can could should all each one two first last most "
    "more after before during between into about up out get got".split()
)


def runs(text: str, length: int = 5, uncommon: int = 2) -> Iterator[tuple[str, ...]]:
    """The runs of so many words of which some are not common."""
    words = re.findall(r"[\w']+(?:\.\d+)?|\^", text.lower())
    for at in range(len(words) - length + 1):
        run = tuple(words[at : at + length])
        if sum(word not in COMMON for word in run) >= uncommon:
            yield run


def lines(name: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (ROOT / "data" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def measured() -> dict[tuple[str, ...], str]:
    """Each run of words of the questions, with one of these."""
    asked = re.findall(r' ask "(.*?)"', (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert len(asked) == 2  # the demo's
    asked += [line["question"] for name in MEASURED for line in lines(name)]
    return {run: question for question in asked for run in runs(question) if " ".join(run) != RULE}


QUESTIONS = measured()


def texts(path: Path) -> Iterator[str]:
    """The texts in a file: the constants of a program, or the whole of a prompt."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield text
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def files() -> list[Path]:
    kinds = (".py", ".txt", ".yaml", ".yml", ".json")
    return sorted(path for name in SHOWN for path in (SRC / name).rglob("*") if path.suffix in kinds)


def test_no_example_or_description_has_the_words_of_a_measured_question() -> None:
    shared = {
        path.relative_to(SRC).as_posix(): {" ".join(run): QUESTIONS[run]}
        for path in files()
        for text in texts(path)
        for run in runs(text)
        if run in QUESTIONS
    }
    assert shared == {}


def test_examples_of_the_memory_share_nothing_with_the_turns_by_which_it_is_measured() -> None:
    """Here three words are enough: facts are as short."""
    said = {run for turn in lines("memory/turns") for text in turn.values() for run in runs(text, 3, 1)}
    assert ("i'm", "learning", "portuguese") in said
    for path in (SRC / "memory").glob("*.py"):
        assert [run for text in texts(path) for run in runs(text, 3, 1) if run in said] == []


def test_shared_words_are_found() -> None:
    assert set(runs("What is his current age raised to the 0.23 power?")) & QUESTIONS.keys()
    assert not set(runs("In which year was it that they did that?")) & QUESTIONS.keys()
