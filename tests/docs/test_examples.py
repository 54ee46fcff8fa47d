"""The examples: one for whatever a file can name. Those that need more than a look are tested with what they show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fakes import fork_server
from fakes.seed_000 import TRANSCRIPT
from retinue.config.registry import COMPONENTS

pytestmark = pytest.mark.usefixtures("full")  # with which each program has an interpreter of its own
EXAMPLES = Path(__file__).parents[2] / "examples"


def test_every_component_has_an_example_and_every_example_a_test() -> None:
    programs = {path.name: path.read_text("utf-8") for path in EXAMPLES.glob("*.py")}
    files = [path.read_text("utf-8") for path in EXAMPLES.glob("*/agents.yml")]
    pages = [EXAMPLES.parent.joinpath("docs", "guardrails.md").read_text("utf-8")]  # whose example is run, too
    named = {name for text in [*programs.values(), *files, *pages] for name in re.findall(r"\w+", text)}
    assert [type_ for type_ in COMPONENTS if type_ not in named] == []
    tests = "".join(path.read_text("utf-8") for path in EXAMPLES.parent.joinpath("tests").rglob("test_*.py"))
    folders = [path.parent.name for path in EXAMPLES.glob("*/agents.yml")]
    assert [name for name in (*programs, *folders) if f'"{name}"' not in tests] == []


def test_seed_000s_agent_prints_the_seeds_transcript() -> None:
    done = fork_server.python(["-W", "error", EXAMPLES / "seed_000.py"])
    assert (done.stderr, done.stdout.strip().splitlines()) == ("", TRANSCRIPT.splitlines())


SHOWN = {
    "guardrail.py": [
        "It is refunded.",
        "AWAITING_HUMAN [{'euros': 500}]",
        "It is refunded.",
        "That is not possible.",
    ],
    "per_user_tool.py": ["ann sees: 10:00 dentist", "bob sees: 14:00 piano", "eve sees: nothing"],
}


@pytest.mark.parametrize("name", SHOWN)
def test_a_program_shows_what_it_is_about(name: str) -> None:
    done = fork_server.python(["-W", "error", EXAMPLES / name])
    assert (done.stderr, done.stdout.splitlines()) == ("", SHOWN[name])
