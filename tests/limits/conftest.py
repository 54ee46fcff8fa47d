"""Limits are tested on asyncio's event loop, which the server runs on."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
