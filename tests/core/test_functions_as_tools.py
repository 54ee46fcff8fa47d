"""How a tool's function may be written, and what it may return: each way has its schema and its value, or one sentence
that says what is wrong when the tool is made. A `once` tool that never ran is never recorded as done."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import decimal
import enum
import functools
import math
import pathlib
import threading
import uuid
from collections import OrderedDict, deque, namedtuple
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, NewType, NotRequired, TypeVar, Union, cast

import attrs
import numpy
import pytest
from pydantic import BaseModel, Field
from typing_extensions import Doc, TypedDict

from retinue import Tool, UsageError, tool
from retinue.core.run_texts import MOST_KEPT
from retinue.core.tools.tool import make_tool
from retinue.core.tools.toolbox import Toolbox
from retinue.core.values import AgentAction, Observation

if TYPE_CHECKING:
    from retinue.nowhere import Unknown  # type: ignore[import-not-found]

City = NewType("City", str)
T = TypeVar("T")
TEXT = {"type": "string"}
NUMBER = {"type": "integer"}


def observed(made: Tool, tool_input: Any) -> Observation:
    return asyncio.run(Toolbox([made]).run(AgentAction(made.name, tool_input, id="call_1_0")))


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Place(BaseModel):
    city: str
    country: str = "FR"


@dataclasses.dataclass
class Stay:
    nights: int
    place: Place | None = None


class Node(BaseModel):
    name: str
    below: list[Node] = []


class Options(TypedDict):
    city: str
    days: NotRequired[int]


class Point(NamedTuple):
    x: int
    y: int


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **values: Any) -> Any:
        return function(*args, **values)

    return wrapper


class Made:
    def __new__(cls, n: int) -> Made:
        made = super().__new__(cls)
        made.__dict__["n"] = n
        return made


class Base:
    def __init__(self, n: int) -> None:
        self.n = n


class Heir(Base):
    pass


class Town(Place):
    size: int = 1


class Trip(NamedTuple):
    place: Place
    days: int = 1


class Items:
    def __iter__(self) -> Iterator[int]:
        return iter([1, 2])


@attrs.define
class Ticket:
    day: datetime.date
    key: str = attrs.field(default="secret", repr=False)


class Weather:
    """Knows the weather."""

    def __init__(self, unit: str = "C") -> None:
        self.unit = unit

    @tool
    def forecast(self, city: str) -> str:
        """Forecast the weather."""
        return f"{city} in {self.unit}"

    @tool
    async def later(self, city: str) -> str:
        """Forecast the weather, later."""
        return f"{city} in {self.unit}, later"

    @tool
    @decorated
    def wrapped(self, city: str) -> str:
        """Forecast the weather."""
        return f"{city} in {self.unit}"

    def plain(self, city: str) -> str:
        return f"{city} in {self.unit}"

    @classmethod
    def of_class(cls, city: str) -> str:
        return f"{city} of {cls.__name__}"

    @staticmethod
    @tool
    def static(city: str) -> str:
        """Forecast the weather without an object."""
        return city

    def __call__(self, city: str, days: int = 3) -> str:
        return f"{city} for {days} days"

    fixed = functools.partialmethod(plain, city="Rome")


class AsyncCall:
    async def __call__(self, city: str) -> str:
        return city


def book(city: str, user: str, nights: int = 1) -> str:
    """Book a room.

    Args:
        city: Where.
    """
    return f"{user} in {city} for {nights}"


async def abook(city: str, user: str = "none") -> str:
    return f"{user} in {city}"


@functools.singledispatch
def dispatched(city: str, days: int = 2) -> str:
    return f"{city} for {days}"


@functools.lru_cache
def cached(city: str) -> str:
    return city


def field_default(
    city: str = Field(description="Where.", min_length=2),
    days: int = Field(3, ge=1, description="How many."),
    tags: list[str] = Field(default_factory=list),
) -> str:
    """Args:
    city: told twice
    """
    return f"{city} {days} {tags}"


def field_alias(city: str = Field(alias="place")) -> str:
    return city


def annotated(
    days: Annotated[int, "How many."],
    city: Annotated[str, Doc("Where.")] = "Rome",
    n: Annotated[int, Field(le=9, description="n")] = 1,
) -> str:
    return f"{city} {days} {n}"


def odd_names(model_config: str, _city: str, schema: int = 0, self_: int = 0, json: int = 0, title: str = "") -> str:
    return f"{model_config} {_city} {schema} {json}"


def nullable(city: str = None, days: int | None = None) -> str:  # type: ignore[assignment]  # noqa: RUF013
    return f"{city} {days}"


def returns_unknown(city: str) -> Unknown:
    return city


def positional_only(a: int, b: int = 2, /, c: int = 3, *, d: int = 4) -> str:
    return f"{a} {b} {c} {d}"


def keywords(city: str, **more: Any) -> str:
    return f"{city} {more}"


def types(
    day: datetime.date,
    price: decimal.Decimal,
    path: pathlib.Path,
    raw: bytes,
    city: City,
    color: Color,
    board: Literal["none", "half"],
    some: set[int],
    pair: tuple[int, str],
) -> str:
    return f"{day.year} {price + 1} {path.name} {raw!r} {city} {color.name} {board} {sorted(some)} {pair}"


def mutable(tags: list[str] = [], limit: float = math.inf) -> str:  # noqa: B006
    tags.append("x")
    return f"{len(tags)} {limit}"


def own_objects(city: str, lock: Any = threading.Lock(), keys: Any = {}.keys(), color: Color = Color.RED) -> str:
    return f"{city} {color.name}"


def iterated(items: Iterable[int]) -> str:
    return f"{list(items)} {sum(items)}"


def generic(item: T, items: list[T]) -> str:
    return f"{item} {items}"


def made_in_a_function() -> Tool:
    class Local(BaseModel):
        city: str

    @tool
    def local(place: Local, other: Local | None = None) -> str:
        """Use a class that only this function knows."""
        return place.city

    return local


def forward(node: Later) -> str:
    return node.name


class Later(BaseModel):
    name: str


WRITTEN: Mapping[str, tuple[Any, Any, Any, str]] = {
    # what: (the function, its properties as a model sees them; None: not compared, an input, the result)
    "bound method": (Weather().plain, {"city": TEXT}, {"city": "Rome"}, "Rome in C"),
    "@tool on a method": (Weather("F").forecast, {"city": TEXT}, "Rome", "Rome in F"),
    "@tool on an async method": (Weather("F").later, {"city": TEXT}, "Rome", "Rome in F, later"),
    "@tool on a decorated method": (Weather("F").wrapped, {"city": TEXT}, "Rome", "Rome in F"),
    "classmethod": (Weather.of_class, {"city": TEXT}, "Rome", "Rome of Weather"),
    "staticmethod": (Weather().static, {"city": TEXT}, "Rome", "Rome"),
    "staticmethod object": (staticmethod(cached.__wrapped__), {"city": TEXT}, "Rome", "Rome"),
    "partialmethod": (Weather().fixed, {}, {}, "Rome in C"),
    "__call__": (Weather(), {"city": TEXT, "days": NUMBER | {"default": 3}}, {"city": "Rome"}, "Rome for 3 days"),
    "async __call__": (AsyncCall(), {"city": TEXT}, "Rome", "Rome"),
    "partial": (
        functools.partial(book, user="u1"),
        {"city": TEXT | {"description": "Where."}, "nights": NUMBER | {"default": 1}},
        {"city": "Rome"},
        "u1 in Rome for 1",
    ),
    "partial of a partial": (
        functools.partial(functools.partial(book, user="u1"), nights=4),
        {"city": TEXT | {"description": "Where."}},
        "Rome",
        "u1 in Rome for 4",
    ),
    "partial by position": (
        functools.partial(book, "Rome"),
        {"user": TEXT, "nights": NUMBER | {"default": 1}},
        {"user": "u2"},
        "u2 in Rome for 1",
    ),
    "async partial": (functools.partial(abook, user="u1"), {"city": TEXT}, "Rome", "u1 in Rome"),
    "wraps": (decorated(abook), {"city": TEXT, "user": TEXT | {"default": "none"}}, {"city": "Rome"}, "none in Rome"),
    "lru_cache": (cached, {"city": TEXT}, "Rome", "Rome"),
    "singledispatch": (
        dispatched,
        {"city": TEXT, "days": NUMBER | {"default": 2}},
        {"city": "Rome", "days": 5},
        "Rome for 5",
    ),
    "built-in": (math.isqrt, {"n": {}}, {"n": 17}, "4"),
    "class with __new__": (Made, {"n": NUMBER}, {"n": 3}, '{"n": 3}'),
    "class whose __init__ is inherited": (Heir, {"n": NUMBER}, {"n": 3}, '{"n": 3}'),
    "model that inherits its fields": (
        Town,
        {"city": TEXT, "country": TEXT | {"default": "FR"}, "size": NUMBER | {"default": 1}},
        {"city": "Rome"},
        '{"city": "Rome", "country": "FR", "size": 1}',
    ),
    "named tuple": (Trip, None, {"place": {"city": "Rome"}}, '[{"city": "Rome", "country": "FR"}, 1]'),
    "Iterable": (iterated, None, {"items": [1, "2"]}, "[1, 2] 3"),
    "decorated after it was a tool": (
        decorated(tool(effects="read")(book)),
        None,
        {"city": "R", "user": "u"},
        "u in R for 1",
    ),
    "class": (Place, None, {"city": "Rome"}, '{"city": "Rome", "country": "FR"}'),
    "lambda": (lambda city="Rome": city, {"city": {"default": "Rome"}}, {}, "Rome"),
    "Field as default": (
        field_default,
        {
            "city": TEXT | {"description": "Where.", "minLength": 2},
            "days": NUMBER | {"default": 3, "minimum": 1, "description": "How many."},
            "tags": {"type": "array", "items": TEXT},
        },
        {"city": "Rome"},
        "Rome 3 []",
    ),
    "Field with an alias": (field_alias, {"place": TEXT}, "Rome", "Rome"),
    "Annotated": (
        annotated,
        {
            "days": NUMBER | {"description": "How many."},
            "city": TEXT | {"description": "Where.", "default": "Rome"},
            "n": NUMBER | {"description": "n", "maximum": 9, "default": 1},
        },
        {"days": 2},
        "Rome 2 1",
    ),
    "names that pydantic keeps": (odd_names, None, {"model_config": "m", "_city": "c", "json": 5}, "m c 0 5"),
    "None for a text": (nullable, None, {"city": None, "days": None}, "None None"),
    "unknown return hint": (returns_unknown, {"city": TEXT}, "Rome", "Rome"),
    "positional-only": (positional_only, None, {"a": 1, "d": 9}, "1 2 3 9"),
    "**keywords": (keywords, {"city": TEXT}, "Rome", "Rome {}"),
    "types": (
        types,
        None,
        {
            "day": "2024-02-29",
            "price": "1.10",
            "path": "/a/b",
            "raw": "x",
            "city": "Rome",
            "color": "red",
            "board": "half",
            "some": [2, 1, 2],
            "pair": [1, "b"],
        },
        "2024 2.10 b b'x' Rome RED half [1, 2] (1, 'b')",
    ),
    "mutable default": (mutable, None, {"tags": ["a"]}, "2 inf"),
    "defaults that JSON lacks": (
        own_objects,
        {"city": TEXT, "lock": {}, "keys": {}, "color": {"$ref": "#/$defs/Color", "default": "red"}},
        {"city": "Rome"},
        "Rome RED",
    ),
    "generic": (generic, None, {"item": 1, "items": [2]}, "1 [2]"),
    "a class known only around the function": (made_in_a_function(), None, {"place": {"city": "Rome"}}, "Rome"),
    "forward reference": (forward, None, {"node": {"name": "Rome"}}, "Rome"),
}


def stays(stay: Stay, options: Options, point: Point, node: Node, either: Union[int, list[str]] = 0) -> str:  # noqa: UP007
    return f"{stay.nights} {stay.place} {options} {point} {node.below[0].name} {either}"


def lists(tags: list[str], place: Place, text: str = "") -> str:
    return f"{tags} {place.city} {text}"


def test_each_way_to_write_a_function_has_its_schema_and_its_value() -> None:
    wrong = {}
    for what, (function, properties, tool_input, text) in WRITTEN.items():
        made = make_tool(function, name="t") if not isinstance(function, Tool) else function
        found = made.signature.parameters["properties"]
        seen = observed(made, tool_input)
        if seen.text != text or (properties is not None and found != properties):
            wrong[what] = (seen, found)
    assert wrong == {}


def test_values_of_every_kind_arrive_as_what_the_hints_say() -> None:
    given = {
        "stay": {"nights": 2, "place": {"city": "Rome"}},
        "options": {"city": "Rome"},
        "point": [1, 2],
        "node": {"name": "a", "below": [{"name": "b"}]},
        "either": ["x"],
    }
    said = "2 city='Rome' country='FR' {'city': 'Rome'} Point(x=1, y=2) b ['x']"
    assert observed(make_tool(stays), given).text == said


def test_lists_and_objects_may_be_written_as_json_text_and_texts_stay_texts() -> None:
    given = {"tags": '["a", "b"]', "place": '{"city": "Rome"}', "text": '["no list"]'}
    assert observed(make_tool(lists), given).text == "['a', 'b'] Rome [\"no list\"]"
    assert observed(make_tool(lists), given | {"tags": "a, b"}).outcome == "invalid_input"


def test_what_a_partial_fixes_is_not_the_models_to_set() -> None:
    seen = observed(make_tool(functools.partial(book, user="u1")), {"city": "Rome", "user": "mallory"})
    assert (seen.outcome, "mallory" in seen.text) == ("invalid_input", False)


def test_a_partial_is_named_and_described_by_its_function() -> None:
    made = make_tool(functools.partial(book, user="u1"))
    assert (made.name, made.description) == ("book", "Book a room.")


def no_names(*cities: str) -> str:
    return ""


def unknown_parameter(thing: Unknown) -> str:
    return ""


def not_json(thing: threading_lock) -> str:  # type: ignore[name-defined]  # noqa: F821
    return ""


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: make_tool(no_names), "tool no_names: a model passes arguments by name, so '*cities: 'str'' is not"),
        (lambda: make_tool(dict), "tool dict: it has no readable signature; wrap it in a function"),
        (
            lambda: make_tool(unknown_parameter).signature,
            "tool unknown_parameter: its type hints refer to unknown names",
        ),
        (
            lambda: Weather.forecast.signature,
            "tool forecast: it is a method; use that of an object: Weather(…).forecast",
        ),
        (
            lambda: make_tool(Weather.plain).signature,
            "tool plain: it is a method; use that of an object: Weather(…).plain",
        ),
        (
            lambda: tool(cast(Any, classmethod(cast(Any, book)))),
            "tool book: a classmethod is no function yet; make a tool of Class.book",
        ),
    ],
)
def test_what_cannot_be_a_tool_is_said_in_one_sentence(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        make()
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


class Plain:
    def __init__(self) -> None:
        self.city, self._secret = "Rome", "x"


class Broken:
    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


class Slotted:
    __slots__ = ()

    def __repr__(self) -> str:
        return "slotted"


class Frame:
    """As a data frame of pandas."""

    def __str__(self) -> str:
        return "shortened ..."

    def to_string(self) -> str:
        return "a  b\n1  2"


class Awaitable:
    def __await__(self) -> Iterator[None]:
        yield
        RAN.append("awaitable")
        return "done"  # type: ignore[return-value]


Pair = namedtuple("Pair", "x y")
RAN: list[str] = []  # what really ran


async def work() -> str:
    await asyncio.sleep(0)
    RAN.append("work")
    return "done"


async def work_of_work() -> Any:
    return work()


def make_items() -> Iterator[str]:
    yield "a"
    RAN.append("items")
    yield "b"


async def make_items_later() -> AsyncIterator[str]:
    yield "a"
    await asyncio.sleep(0)
    RAN.append("items later")
    yield "b"


async def return_items() -> Any:
    return make_items()


def in_a_pool() -> Future[str]:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(work()))


async def as_task() -> Any:
    return asyncio.ensure_future(work())


class Runs:
    """As a component, whose `run` returns what is to be awaited."""

    def run(self, query: str = "") -> Any:
        return work()


@contextmanager
def opened() -> Iterator[str]:
    RAN.append("never")
    yield "x"


@asynccontextmanager
async def opened_later() -> AsyncIterator[str]:
    RAN.append("never")
    yield "x"


def circular() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


def deep() -> Any:
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    return value


def returning(value: Any) -> Callable[[], Any]:
    return lambda: value


LATE: Mapping[str, tuple[Any, str, list[str]]] = {  # what is computed after the function has returned
    "coroutine of a lambda": (lambda: work(), "done", ["work"]),
    "coroutine of a decorated function": (decorated(work), "done", ["work"]),
    "coroutine of a coroutine": (work_of_work, "done", ["work"]),
    "partial": (functools.partial(work), "done", ["work"]),
    "run of an object": (Runs(), "done", ["work"]),
    "awaitable object": (Awaitable, "done", ["awaitable"]),
    "task": (as_task, "done", ["work"]),
    "future of a pool": (in_a_pool, "done", ["work"]),
    "generator": (make_items, '["a", "b"]', ["items"]),
    "generator of an async function": (return_items, '["a", "b"]', ["items"]),
    "async generator": (make_items_later, '["a", "b"]', ["items later"]),
    "decorated async generator": (decorated(make_items_later), '["a", "b"]', ["items later"]),
    "map": (lambda: map(str.upper, make_items()), '["A", "B"]', ["items"]),
    "iterator": (lambda: iter([1, 2]), "[1, 2]", []),
}
NEVER: Mapping[str, Any] = {  # what shows that the work has not been done
    "context manager": opened,
    "async context manager": opened_later,
    "list of coroutines": lambda: [work()],
    "coroutine in a dict": lambda: {"a": work()},
    "function": lambda: work,
    "class": lambda: Place,
    "partial": lambda: functools.partial(work),
}
RETURNED: Mapping[str, tuple[Any, str]] = {
    "pydantic model": (Place(city="Rome"), '{"city": "Rome", "country": "FR"}'),
    "models in a list": ([Place(city="Rome")], '[{"city": "Rome", "country": "FR"}]'),
    "dataclass": (Stay(2, Place(city="Rome")), '{"nights": 2, "place": {"city": "Rome", "country": "FR"}}'),
    "date": (datetime.date(2024, 2, 29), "2024-02-29"),
    "dates in a dict": ({"at": datetime.datetime(2024, 2, 29, 1)}, '{"at": "2024-02-29T01:00:00"}'),
    "timedelta": (datetime.timedelta(hours=1), "PT1H"),
    "Decimal": (decimal.Decimal("1.10"), "1.10"),
    "enum": (Color.RED, "red"),
    "enums in a list": ([Color.RED], '["red"]'),
    "str enum": (enum.Enum("E", {"A": "a"}, type=str).A, "a"),  # type: ignore[attr-defined]
    "set": ({"b", "a"}, '["a", "b"]'),
    "set of several kinds": ({1, "a"}, '["a", 1]'),
    "frozenset in a dict": ({"a": frozenset([2, 1])}, '{"a": [1, 2]}'),
    "path": (pathlib.PurePosixPath("/a/b"), "/a/b"),
    "UUID": (uuid.UUID(int=0), "00000000-0000-0000-0000-000000000000"),
    "bytes of text": (b"caf\xc3\xa9", "café"),
    "bytes of none": (b"\xff\xfe\x00", "(3 bytes)"),
    "namedtuple": (Pair(1, "a"), '[1, "a"]'),
    "typed dict": (Options(city="Rome"), '{"city": "Rome"}'),
    "deque": (deque([1, 2]), "[1, 2]"),
    "range": (range(3), "[0, 1, 2]"),
    "views": ({"a": 1}.keys(), '["a"]'),
    "mapping": (MappingProxyType({"a": Color.BLUE}), '{"a": "blue"}'),
    "ordered dict": (OrderedDict(a=1), '{"a": 1}'),
    "keys that are no texts": ({(1, 2): datetime.date(2024, 1, 1)}, '{"1,2": "2024-01-01"}'),
    "numpy array": (numpy.array([[1, 2], [3, 4]]), "[[1, 2], [3, 4]]"),
    "numpy number": (numpy.int64(4), "4"),
    "numpy numbers in a dict": ({"a": numpy.float32(0.5), "b": numpy.array([1])}, '{"a": 0.5, "b": [1]}'),
    "data frame": (Frame(), "a  b\n1  2"),
    "iterable": (Items(), "[1, 2]"),
    "namespace": (SimpleNamespace(a=1), '{"a": 1}'),
    "class of attrs": (Ticket(datetime.date(2024, 2, 29)), '{"day": "2024-02-29"}'),
    "object": (Plain(), '{"city": "Rome"}'),
    "object with a text": (Slotted(), "slotted"),
    "exception": (ValueError("no such city"), "ValueError: no such city"),
    "None": (None, ""),
    "bool": (True, "true"),
    "NaN": (math.nan, "NaN"),
    "infinity": ([math.inf], "[Infinity]"),
    "lone surrogate": ("a\ud83d", "a\ufffd"),
    "pair of surrogates": ({"a": "\ud83d\ude00"}, '{"a": "😀"}'),
    "whose text raises": (Broken(), "(a Broken that cannot be shown as text: ValueError: no text)"),
    "within itself": (circular(), "[[...]]"),
    "an exception of its own": ([Plain(), None], '[{"city": "Rome"}, null]'),
}


def test_what_is_computed_after_the_function_has_returned_is_computed_once() -> None:
    wrong = {}
    for what, (function, text, ran) in LATE.items():
        RAN.clear()
        seen = observed(Tool("t", function), "" if not isinstance(function, Runs) else "x")
        if (seen.outcome, seen.text, ran) != ("result", text, RAN):
            wrong[what] = (seen, list(RAN))
    assert wrong == {}


def test_a_once_call_that_never_ran_is_not_recorded_as_done() -> None:
    RAN.clear()
    seen = {what: observed(Tool("t", function), "") for what, function in NEVER.items()}
    assert {one.outcome for one in seen.values()} == {"unknown"}
    assert RAN == []
    assert all("object at 0x" not in one.text for one in seen.values())


def test_each_result_is_text_that_a_model_can_read() -> None:
    wrong = {}
    for what, (value, text) in RETURNED.items():
        seen = observed(Tool("t", returning(value)), "")
        if (seen.outcome, seen.text) != ("result", text):
            wrong[what] = (seen.outcome, seen.text)
    assert wrong == {}


def test_huge_values_do_not_fail_the_call() -> None:
    for value in (deep(), 10**5000, "x" * 10**6, [0] * 10**6):
        seen = observed(Tool("t", returning(value)), "")
        assert (seen.outcome, len(seen.text) <= MOST_KEPT) == ("result", True)


def test_endless_results_end_in_time() -> None:
    def endless() -> Iterator[int]:
        while True:
            yield 1

    async def endless_later() -> AsyncIterator[int]:
        while True:
            await asyncio.sleep(0)
            yield 1

    for function in (endless, endless_later, decorated(endless_later)):
        assert observed(Tool("t", function, timeout=0.05, effects="read"), "").outcome == "timed_out"


def test_a_late_result_counts_on_the_tools_time() -> None:
    async def hang() -> None:
        await asyncio.Event().wait()

    assert observed(Tool("t", lambda: hang(), timeout=0.05), "").outcome == "unknown"
