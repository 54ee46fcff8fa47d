"""pytest's plugin for runs as tests. It comes with Retinue, and loads nothing until a test asks for `pinned_run`.

    def test_the_weather_is_found(pinned_run):
        pinned_run("runs/weather.json", agent)

`pytest --update-runs` accepts other prompts and another answer.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ..run.pin import AgentSource


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--update-runs`."""
    group = parser.getgroup("retinue")
    group.addoption("--update-runs", action="store_true", help="Accept the prompts and answers of pinned runs.")


@pytest.fixture
def pinned_run(request: pytest.FixtureRequest) -> Callable[[str | Path, AgentSource], None]:
    """Return what checks that an agent, or what returns one by name, decides as a pinned run says. Its path is relative
    to the test's file."""

    def check(path: str | Path, agent: AgentSource) -> None:
        from ..errors import RetinueError
        from ..run.pin import PinnedRun

        file = request.path.parent / path
        try:
            run = PinnedRun.read(file)
            problem = run.find_problem(agent)
            if problem and request.config.getoption("--update-runs"):
                run.accept_changes(agent).write(file)
                problem = ""
        except RetinueError as error:
            problem = str(error)
        if problem:
            pytest.fail(
                f"the pinned run {file.name} is not decided as before: {problem}\n"
                "If this is meant, accept it: pytest --update-runs",
                pytrace=False,
            )

    return check
