"""Whatever JSON a service answers: the component gives its outputs, or an error for a model to read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from fakes.free_services import FORECAST
from fakes.github_server import GitHubServer, issue
from fakes.haystack_server import answer, document
from retinue import ToolError, UsageError
from retinue.components import CurrencyConverter, GitHubAPI, HaystackPipeline, Weather, Wikipedia

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
REAL: tuple[Any, ...] = (
    {"items": [issue(1, "T", "B", labels=["x"])]},
    [issue(2, "T")],
    {"answers": [answer("a")], "documents": [document("d")], "results": ["r"]},
    {"rates": {"USD": 1.1}, "date": "2024-11-25"},
    {"results": [{"name": "B", "latitude": 1.0, "longitude": 2.0}]},
    FORECAST,
    {
        "query": {
            "pages": [{"title": "T", "extract": "A. B", "fullurl": "u", "pageprops": {}}],
            "search": [{"title": "T"}],
        }
    },
)
KEYS = (
    "items title number labels body answers documents results meta score rates query pages search extract pageprops "
    "error message errors latitude longitude current daily current_units weather_code temperature_2m comments user USD"
).split()


def changed(body: Any) -> st.SearchStrategy[Any]:
    """`body`, in which any part may be anything else."""
    if isinstance(body, dict):
        inner: st.SearchStrategy[Any] = st.fixed_dictionaries({key: changed(one) for key, one in body.items()})
    elif isinstance(body, list):
        inner = st.tuples(*map(changed, body)).map(list)
    else:
        inner = st.just(body)
    return st.one_of(inner, inner, inner, inner, PLAIN, st.just([]), st.just({}))


ANY = st.recursive(
    PLAIN, lambda one: st.lists(one, max_size=3) | st.dictionaries(st.sampled_from(KEYS), one, max_size=4)
)
BODIES = ANY | st.sampled_from(REAL).flatmap(changed)
STATUSES = st.sampled_from([200, 200, 200, 200, 400, 401, 403, 404, 429, 500])
HEADERS = st.sampled_from(
    [
        {},
        {"Retry-After": "0"},
        {"Retry-After": "soon"},
        {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "9" * 400},
        {"Link": '<http://[>; rel="next"'},
        {"Link": '<https://elsewhere.example/?page=2>; rel="next"'},
    ]
)
MAKE: dict[str, Callable[[str], Any]] = {
    "search": lambda url: GitHubAPI(repository="o/r", base_url=url),
    "code": lambda url: GitHubAPI(repository="o/r", operation="search_code", base_url=url),
    "read": lambda url: GitHubAPI(repository="o/r", operation="read_issue", base_url=url),
    "list": lambda url: GitHubAPI(repository="o/r", operation="list_issues", base_url=url),
    "haystack": HaystackPipeline,
    "currency": lambda url: CurrencyConverter(base_url=url),
    "weather": lambda url: Weather(base_url=url, geocoding_url=url),
    "wikipedia": lambda url: Wikipedia(base_url=url),
}
QUERIES = {"read": "1", "currency": "1 EUR in USD"}


@pytest.fixture(scope="module")
def server() -> Iterator[GitHubServer]:
    with GitHubServer() as running:
        yield running


@pytest.mark.parametrize("name", MAKE)
@settings(max_examples=30)
@given(st.lists(st.tuples(STATUSES, BODIES, HEADERS), min_size=3, max_size=3))
def test_any_answer(server: GitHubServer, name: str, answers: list[Any]) -> None:
    server.instead[:] = [*answers, *[(200, {}, {})] * 6]
    try:
        found = MAKE[name](server.url).run(QUERIES.get(name, "x"))
        said = found["results"]
    except (ToolError, UsageError) as error:
        said = str(error)
    assert isinstance(said, str)
    assert said or name == "wikipedia"  # where a page may be empty
