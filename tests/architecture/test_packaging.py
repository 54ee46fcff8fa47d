"""What can be installed: the extras, and what the demo needs."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[2]


def test_the_extra_all_is_all_of_them() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    (everything,) = extras.pop("all")
    del extras["up"]  # programs, of 60 MB, for trying a cluster
    assert set(everything.removeprefix("retinue[").removesuffix("]").split(",")) == set(extras)


@pytest.mark.parametrize(("demo_of", "other"), [("demo.txt", "fastapi"), ("demo-docs.txt", "temporalio")])
def test_what_a_demo_installs_has_no_development_tools_and_is_what_the_tests_run_with(demo_of: str, other: str) -> None:
    demo, dev = ((ROOT / "requirements" / name).read_text("utf-8").splitlines() for name in (demo_of, "dev.txt"))
    locked = {line.split(" ")[0] for line in demo if "==" in line}
    assert any(line.startswith("xllamacpp==") for line in locked)
    assert locked <= {line.split(" ")[0] for line in dev}
    for tool in ("pytest", "mypy", "ruff", "openai", "hatchling", other):
        assert not [line for line in locked if line.startswith(f"{tool}==")]


def test_a_wheel_has_all_that_the_package_reads() -> None:
    """Prompts and templates are files beside the code."""
    there = {one for one in (ROOT / "src" / "retinue").rglob("*") if one.is_file() and one.parent.name != "__pycache__"}
    assert {ROOT / one.path for one in WheelBuilder(str(ROOT)).recurse_included_files()} == there
