"""The fixtures that the SDK's tests ask for, in place of its conftest.py (a plugin of the pytest that runs them).

That file wants pytest-asyncio and a copy of respx, of which these tests need only a loop: anyio's plugin has one.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from openai import AsyncOpenAI, DefaultAioHttpClient, OpenAI, PermissionDeniedError

_URL = os.environ.get("TEST_API_BASE_URL", "")
_KEY = "the proxy puts the server's own in its place"
_ONCE: Any = {"base_url": _URL, "api_key": _KEY, "timeout": 30.0, "max_retries": 0}  # a failure is one at the first try
# What the server refuses for good, with 403: a file, a part of its tests' names, and why.
REFUSED = {
    ("test_models.py", "_delete"): "a model is an agent of the operator's file: no client deletes it",
    ("test_responses.py", "_compact"): "a run makes room in its model's window by itself",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what the server refuses; tests of arguments that never leave the SDK are not among it."""
    for item in items:
        for (file, part), reason in REFUSED.items():
            if item.path.name == file and part in item.name and "path_params" not in item.name:
                item.add_marker(pytest.mark.xfail(reason=reason, raises=PermissionDeniedError, strict=True))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """One loop of asyncio for all tests."""
    return "asyncio"


@pytest.fixture(scope="session")
def client(request: pytest.FixtureRequest) -> Iterator[OpenAI]:
    """A client; `param`: whether it validates what it is sent."""
    with OpenAI(**_ONCE, _strict_response_validation=getattr(request, "param", True)) as client:
        yield client


@pytest.fixture(scope="session")
async def async_client(request: pytest.FixtureRequest) -> AsyncIterator[AsyncOpenAI]:
    """An asynchronous client; `param`: as above, or `{"http_client": "aiohttp"}`, which is strict too."""
    param = getattr(request, "param", True)
    strict, http_client = (param, None) if isinstance(param, bool) else (True, DefaultAioHttpClient())
    async with AsyncOpenAI(**_ONCE, _strict_response_validation=strict, http_client=http_client) as client:
        yield client
