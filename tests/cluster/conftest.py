"""A Temporal for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fakes.postgres import Postgres
from fakes.temporal import Temporal, temporal


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def a_temporal() -> Iterator[Temporal]:
    with temporal() as server:
        yield server


@pytest.fixture
def url(a_postgres: Postgres) -> str:
    return a_postgres.database()
