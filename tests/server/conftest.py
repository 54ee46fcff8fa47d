"""One deployment for the tests that only talk to it: started once, never restarted."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.app_server import Serving
from fakes.served import Served, serving

DEPLOYMENT = Path(__file__).with_name("deployment")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The agents of deployment/agents.yml behind `retinue serve`."""
    with serving(*prepared(tmp_path_factory.mktemp("deployed"))) as server:
        yield server


@pytest.fixture
def deployed_apart(tmp_path: Path) -> Iterator[Served]:
    """The same, for one test alone: it may kill it, and count what its tools did."""
    with serving(*prepared(tmp_path)) as server:
        yield server


def prepared(folder: Path) -> tuple[Path, str]:
    """A folder with the tools of the deployment, and the text of its file."""
    shutil.copy(DEPLOYMENT / "tables.py", folder)
    return folder, (DEPLOYMENT / "agents.yml").read_text("utf-8")


@pytest.fixture(params=["sync", "async"])
async def client(request: pytest.FixtureRequest, deployed: Served) -> AsyncIterator[Any]:
    """Either client of the SDK."""
    if request.param == "sync":
        with deployed.client() as client:
            yield client
    else:
        async with deployed.async_client() as async_client:
            yield async_client


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server in this process, with one agent, for the tests of one file; each makes what it looks at."""
    with Serving(tmp_path_factory.mktemp("served")) as server:
        yield server


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def on_both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """The same, on each kind of database."""
    url = request.getfixturevalue("a_postgres").database() if request.param == "postgresql" else ""
    with Serving(tmp_path_factory.mktemp("served"), url=url) as server:
        yield server
