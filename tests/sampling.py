"""Which tests run at each commit; with `--full` all of them do, with `--rest` what was left out.

A test marked `matrix` runs with as few combinations of its parameters as have each value of each parameter once. A
test with a fixture of `TWINS` (both clients of the SDK, both kinds of database) runs with one of the two: the tests of
a file take turns. A test marked `full` does not run, nor, with `--rest` either, one marked `long` unless `-m` names
that mark. The choice is the same each time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

# the suite says the same each time, however busy the machine is; `make fuzz` looks for what it does not know
_ANYWHERE: Any = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
}
settings.register_profile("quick", max_examples=12, derandomize=True, **_ANYWHERE)
settings.register_profile("same", derandomize=True, **_ANYWHERE)
settings.register_profile("new", **_ANYWHERE)
settings.load_profile("quick")

TWINS = ("client", "on_both", "any_url")
T = TypeVar("T")
Row: TypeAlias = frozenset[Hashable]  # a value of each parameter


def pytest_addoption(parser: pytest.Parser) -> None:
    """How much is run."""
    parser.addoption("--full", action="store_true", help="run the whole of each matrix (make test-all)")
    parser.addoption("--rest", action="store_true", help="run what is not run without --full (make test-rest)")


def pytest_configure(config: pytest.Config) -> None:
    """With all of a matrix come all examples of a property."""
    if _is_full(config):
        settings.load_profile("same")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not to be run; nothing, if a test is named."""
    if config.getoption("--full") or any("::" in one for one in config.args):
        return
    asked = "long" in config.option.markexpr
    quick = [one for one in items if asked or not one.get_closest_marker("long")]
    kept = set(rest(quick) if config.getoption("--rest") else chosen(quick))
    config.hook.pytest_deselected(items=[one for one in items if one not in kept])
    items[:] = [one for one in items if one in kept]


@pytest.fixture(scope="session")
def full(request: pytest.FixtureRequest) -> bool:
    """Whether all is to be looked at, and not a sample."""
    return _is_full(request.config)


def _is_full(config: pytest.Config) -> bool:
    return bool(config.getoption("--full") or config.getoption("--rest"))


def chosen(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Those of `items` that run at each commit."""
    often = [one for one in items if not one.get_closest_marker("full")]
    matrices: dict[str, list[tuple[pytest.Item, Row]]] = defaultdict(list)
    for item in often:
        if item.get_closest_marker("matrix"):
            matrices[item.nodeid.partition("[")[0]].append((item, values(item)))
    kept = {item for rows in matrices.values() for item in sampled(rows)}
    often = [one for one in often if one in kept or not one.get_closest_marker("matrix")]
    for twin in TWINS:
        often = in_turns(often, twin)
    return often


def rest(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """What is left out at each commit: the other items, and those that do more if there is time."""
    often = set(chosen(items))
    return [one for one in items if one not in often or does_more(one)]


def does_more(item: pytest.Item) -> bool:
    """Whether a test looks at more with `--full`."""
    return isinstance(item, pytest.Function) and ("full" in item.fixturenames or is_hypothesis_test(item.obj))


def sampled(rows: Sequence[tuple[T, Row]]) -> list[T]:
    """As few as have each value of each parameter, as far as a greedy choice finds them."""
    missing = frozenset[Hashable]().union(*(row for _, row in rows))
    found: list[T] = []
    while missing:
        one, row = max(rows, key=lambda one: len(one[1] & missing))
        found.append(one)
        missing -= row
    return found


def values(item: pytest.Item) -> Row:
    """The values of a test's parameters: those of one `parametrize` together, for they are a row of a table."""
    params = dict(item.callspec.params) if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    together = [names_of(mark) for mark in item.iter_markers("parametrize")]
    alone = [(name,) for name in params if not any(name in names for names in together)]
    return frozenset((names, tuple(id(params[name]) for name in names)) for names in (*together, *alone))


def names_of(mark: pytest.Mark) -> tuple[str, ...]:
    """The parameters that a `parametrize` gives."""
    names = mark.args[0]
    return tuple(name.strip() for name in names.split(",")) if isinstance(names, str) else tuple(names)


def in_turns(items: Iterable[pytest.Item], twin: str) -> list[pytest.Item]:
    """`items` with one of those that differ in nothing but this fixture: the first, the second, the first, ..."""
    kept: list[pytest.Item] = []
    alike: dict[str, dict[Hashable, list[pytest.Item]]] = defaultdict(lambda: defaultdict(list))
    for item in items:
        params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        if twin in params:
            others = frozenset((name, id(value)) for name, value in params.items() if name != twin)
            alike[str(item.path)][item.nodeid.partition("[")[0], others].append(item)
        else:
            kept.append(item)
    for tests in alike.values():
        for at, variants in enumerate(tests.values()):
            kept.append(variants[at % len(variants)])
    return kept


def examples(number: int) -> int:
    """How many examples a property is tried with for which there are `number` of them with `--full`."""
    return max(1, number * settings().max_examples // 100)


def every(values: Sequence[T], step: int, at: int) -> list[T]:
    """One of `step` values, and others for the next `at`: what is looked at each time within one test."""
    return list(values[at % step :: step])
