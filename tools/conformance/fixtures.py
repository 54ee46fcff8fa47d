"""The fixtures that the SDK's tests ask for, in place of its conftest.py (a plugin of the pytest that runs them).

That file wants pytest-asyncio and a copy of respx, of which these tests need only a loop: anyio's plugin has one.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest
from openai import (
    AsyncOpenAI,
    BadRequestError,
    DefaultAioHttpClient,
    InternalServerError,
    NotFoundError,
    OpenAI,
    PermissionDeniedError,
)

from retinue.server.models.embeddings import is_here

_URL = os.environ.get("TEST_API_BASE_URL", "")
_KEY = "the proxy puts the server's own in its place"
_ONCE: Any = {"base_url": _URL, "api_key": _KEY, "timeout": 30.0, "max_retries": 0}  # a failure is one at the first try
Refusal: TypeAlias = type[Exception] | pytest.RaisesExc[Exception]
_ABSENT = "Retinue has no "
_OF_EMBEDDINGS: tuple[str, Refusal, str] = (
    (
        "_with_all_params",
        pytest.RaisesExc(BadRequestError, match="does not support specifying dimensions"),
        "a part of these vectors is no embedding",
    )
    if is_here()
    else ("", pytest.RaisesExc(InternalServerError, match="is not installed here"), "the model is not installed")
)
# What the server refuses for good: a file, a part of its tests' names, the error that says so, and why.
REFUSED: Sequence[tuple[str, str, Refusal, str]] = (
    (
        "test_models.py",
        "_delete",
        PermissionDeniedError,
        "a model is an agent of the operator's file: no client deletes it",
    ),
    (
        "chat/test_completions.py",
        "_create_with_all_params",
        pytest.RaisesExc(BadRequestError, match="'functions' is not supported"),
        "functions are tools now; nor are there log-probabilities, sounds and searches of the web",
    ),
    (
        "test_completions.py",
        "_create_with_all_params",
        pytest.RaisesExc(BadRequestError, match="best_of"),
        "the test asks for the best of no answers, for log-probabilities and for an echo",
    ),
    ("test_embeddings.py", *_OF_EMBEDDINGS),
    ("test_batches.py", "", NotFoundError, f"{_ABSENT}batches of requests: runs in the background are for that"),
    ("test_containers.py", "", NotFoundError, f"{_ABSENT}containers: code runs in a sandbox that nobody is given"),
    ("containers/test_files.py", "", NotFoundError, f"{_ABSENT}containers"),
    ("containers/files/test_content.py", "", NotFoundError, f"{_ABSENT}containers"),
    ("test_moderations.py", "", NotFoundError, f"{_ABSENT}moderation"),
    ("test_uploads.py", "", NotFoundError, f"{_ABSENT}uploads in parts: a file is sent whole"),
    ("uploads/test_parts.py", "", NotFoundError, f"{_ABSENT}uploads in parts"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what the server refuses; tests of arguments that never leave the SDK are not among it."""
    for item in items:
        for file, part, kind, reason in REFUSED:
            fits = item.path.as_posix().endswith(f"/api_resources/{file}") and part in item.name
            if fits and "path_params" not in item.name:
                item.add_marker(pytest.mark.xfail(reason=reason, raises=kind, strict=True))


@pytest.fixture
def respx2_mock() -> Any:
    """Mocks nothing: what some tests would have answered for the server, the server answers itself."""
    unheeded: Any = SimpleNamespace(mock=lambda **_: None)
    return SimpleNamespace(get=lambda _: unheeded)


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
