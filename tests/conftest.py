"""What several folders of tests share."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from fakes import fork_server
from fakes.openai_server import OpenAIServer
from fakes.pace import forget_the_disk
from fakes.postgres import Postgres, postgres
from retinue import RetinueError
from retinue.models import weights
from retinue.store.database import Database
from retinue.store.engines import engine_of

pytest_plugins = ["sampling", "shuffling"]


def pytest_configure() -> None:
    """No test waits for the disk."""
    forget_the_disk()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Programs have an interpreter of their own with `--full`, and with `--rest` those of tests that ask for `full`."""
    asks = item.config.getoption("--rest") and "full" in getattr(item, "fixturenames", ())
    fork_server.use(programs=not (item.config.getoption("--full") or asks))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays: it is not looked through for garbage, neither now nor later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest comes first, so that no process of several is left with it in the end."""
    items.sort(key=lambda item: item.path.parent.name != "server")


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    """A server that speaks OpenAI's wire format."""
    with OpenAIServer() as server:
        yield server


@pytest.fixture(scope="session")
def embedded_model() -> Path:
    """The embedded model's weights, for tests marked `model`."""
    try:
        return weights.find("")
    except RetinueError:
        pytest.fail("run: make model")


@pytest.fixture(scope="session")
def a_postgres() -> Iterator[Postgres]:
    """A PostgreSQL."""
    with postgres() as server:
        yield server


@pytest.fixture(scope="module")
def postgres_engine(a_postgres: Postgres) -> Iterator[Engine]:
    """A new database on PostgreSQL."""
    url = a_postgres.database()
    Database(url).close()
    engine = engine_of(url)
    yield engine
    engine.dispose()


@pytest.fixture(scope="module", params=["sqlite", "postgresql", "simulated"])
def any_engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A new database of either kind, or the simulator's."""
    if request.param == "postgresql":
        yield request.getfixturevalue("postgres_engine")
    elif request.param == "simulated":
        from simulation.store import Store

        yield Store().engine
    else:
        database = Database(f"sqlite:///{tmp_path_factory.mktemp('any')}/runs.db")
        yield database.engine
        database.close()


@pytest.fixture(scope="module")
def a2a_sample() -> Iterator[str]:
    """The address of a server of the A2A SDK's own, in another process."""
    command = [sys.executable, "-m", "fakes.a2a_sample"]
    with subprocess.Popen(command, cwd=Path(__file__).parent, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()


@pytest.fixture(params=["sqlite", "postgresql"])
def any_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a new database, of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/runs.db"
    server: Postgres = request.getfixturevalue("a_postgres")
    return server.database()
