"""What a tool's function takes: the schema from its type hints, and the checks against it."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any, Literal, TypedDict, Unpack

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, Field

from retinue import UsageError
from retinue.core.tools.signature import InvalidInput, parse_descriptions, read_signature, summarize_docstring


class Place(BaseModel):
    city: str
    country: str = "FR"


class NotJson:
    pass


def hinted(
    place: Place,
    nights: Annotated[int, Field(ge=1, description="How many.")],
    board: Literal["none", "half"] = "none",
    tags: list[str] = [],  # noqa: B006
    price: float | None = None,
) -> str:
    return ""


def google(city: str, days: int = 3) -> str:
    """Forecast the weather
    of a place.

    More about it.

    Args:
        city: Where it is.
        days: How far
            to look.

    Returns:
        A text.
    """
    return ""


def numpy(city: str, days: int = 3) -> str:
    """Forecast the weather of a place.

    Parameters
    ----------
    city : str
        Where it is.
    days : int
        How far
        to look.
    """
    return ""


def rest(city: str, days: int = 3) -> str:
    """Forecast the weather of a place.

    :param city: Where it is.
    :param days: How far
        to look.
    :returns: A text.
    """
    return ""


def plain(city, days=3):  # type: ignore[no-untyped-def]
    return ""


def nothing() -> str:
    return ""


def one_text(city: str) -> str:
    return ""


def optional_text(city: str = "Paris") -> str:
    return ""


def one_choice(board: Literal["none", "half"]) -> str:
    return ""


def one_constant(board: Literal["none"]) -> str:
    return ""


def one_number(days: int) -> str:
    return ""


def one_flag(on: bool) -> str:
    return ""


def all_optional(days: int = 3, city: str = "Paris") -> str:
    return ""


def many(*cities: str) -> str:
    return ""


class Where(TypedDict):
    city: str


def unpacked(**place: Unpack[Where]) -> str:
    return ""


def keywords(city: str, **more: int) -> str:
    return ""


def no_schema(thing: NotJson) -> str:
    return ""


def awkward(schema: str, json: int = 0, copy: bool = False) -> str:
    return ""


def test_the_schema_comes_from_the_type_hints() -> None:
    parameters = read_signature(hinted).parameters
    assert parameters["type"] == "object"
    assert parameters["required"] == ["place", "nights"]
    assert parameters["additionalProperties"] is False
    assert parameters["properties"] == {
        "place": {"$ref": "#/$defs/Place"},
        "nights": {"type": "integer", "minimum": 1, "description": "How many."},
        "board": {"type": "string", "enum": ["none", "half"], "default": "none"},
        "tags": {"type": "array", "items": {"type": "string"}, "default": []},
        "price": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": None},
    }
    assert parameters["$defs"]["Place"]["required"] == ["city"]


def test_a_parameter_called_title_stays_in_the_schema() -> None:
    def find(title: str, year: int) -> str:
        return ""

    assert set(read_signature(find).parameters["properties"]) == {"title", "year"}


def test_without_hints_a_parameter_is_text_or_whatever_its_default_allows() -> None:
    assert read_signature(plain).parameters["properties"] == {"city": {"type": "string"}, "days": {"default": 3}}


@pytest.mark.parametrize("function", [google, numpy, rest])
def test_descriptions_come_from_google_numpy_and_rest_docstrings(function: Callable[..., str]) -> None:
    described = parse_descriptions(function)
    assert described["city"] == "Where it is."
    assert described["days"].split() == ["How", "far", "to", "look."]
    properties = read_signature(function).parameters["properties"]
    assert properties["city"] == {"type": "string", "description": "Where it is."}
    assert properties["days"]["default"] == 3
    assert summarize_docstring(function) == "Forecast the weather of a place."


def test_without_a_docstring_nothing_is_described() -> None:
    assert parse_descriptions(nothing) == {}
    assert summarize_docstring(nothing) == ""


@pytest.mark.parametrize(
    ("function", "argument"),
    [
        (one_text, "city"),
        (optional_text, "city"),
        (keywords, "city"),
        (nothing, None),
        (one_choice, None),
        (one_constant, None),
        (one_number, None),
        (google, None),
        (hinted, None),
    ],
)
def test_plain_text_goes_to_the_argument_of_a_tool_that_takes_one_text(
    function: Callable[..., str], argument: str | None
) -> None:
    assert read_signature(function).text_argument == argument


@pytest.mark.parametrize(
    ("function", "tool_input", "arguments"),
    [
        (one_text, "any {text}", {"city": "any {text}"}),
        (one_text, {"city": "Paris"}, {"city": "Paris"}),
        (nothing, "", {}),
        (nothing, " \n", {}),
        (nothing, "{}", {}),
        (nothing, {}, {}),
        (all_optional, "", {}),
        (all_optional, '{"days": 2}', {"days": 2}),
        (google, '{"city": "Paris"}', {"city": "Paris"}),
        (google, {"city": "Paris", "days": "2"}, {"city": "Paris", "days": 2}),
        (one_number, {"days": 2.0}, {"days": 2}),
        (one_number, "2", {"days": 2}),
        (one_flag, "true", {"on": True}),
        (one_choice, "half", {"board": "half"}),
        (awkward, {"schema": "s", "json": 1, "copy": True}, {"schema": "s", "json": 1, "copy": True}),
    ],
)
def test_inputs_become_checked_arguments(
    function: Callable[..., str], tool_input: Any, arguments: dict[str, Any]
) -> None:
    assert read_signature(function).arguments(tool_input) == arguments


def test_models_arrive_as_models_and_defaults_are_left_to_the_function() -> None:
    arguments = read_signature(hinted).arguments({"place": {"city": "Rome"}, "nights": 2})
    assert arguments == {"place": Place(city="Rome"), "nights": 2}


@pytest.mark.parametrize(
    ("function", "tool_input", "problem"),
    [
        (google, "Paris", 'the input must be a JSON object with "city", "days", not \'Paris\''),
        (google, "[1]", 'the input must be a JSON object with "city", "days", not \'[1]\''),
        (google, "", 'the input must be a JSON object with "city", "days", not \'\''),
        (nothing, "now", "the input must be a JSON object with no keys, not 'now'"),
        (google, {}, "city: Field required"),
        (google, {"city": "Paris", "day": 2}, "day: Extra inputs are not permitted"),
        (one_choice, {"board": "all"}, "board: Input should be 'none' or 'half'"),
        (hinted, {"place": {}, "nights": 1}, "place.city: Field required"),
        (hinted, {"place": {"city": "R"}, "nights": 0}, "nights: Input should be greater than or equal to 1"),
        (
            hinted,
            {"nights": "x"},
            "place: Field required; nights: Input should be a valid integer, unable to parse string as an integer",
        ),
    ],
)
def test_an_invalid_input_says_where_and_why(function: Callable[..., str], tool_input: Any, problem: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_signature(function).arguments(tool_input)
    assert str(caught.value) == problem


def test_a_long_text_that_is_no_json_is_shortened_in_the_problem() -> None:
    with pytest.raises(InvalidInput) as caught:
        read_signature(google).arguments("x" * 10_000)
    assert len(str(caught.value)) < 200


@given(st.text(max_size=20) | st.integers().map(str) | st.sampled_from(["[" * 50_000, "NaN", '{"city"', "null", "1e9"]))
def test_any_text_is_arguments_or_invalid(text: str) -> None:
    with suppress(InvalidInput):
        assert isinstance(read_signature(google).arguments(text), dict)


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (unpacked, "tool unpacked: '**place: 'Unpack[Where]'' hides its arguments from a model; write them as"),
        (many, "tool many: a model passes arguments by name, so '*cities: 'str'' is not supported"),
        (no_schema, "tool no_schema: a model cannot pass its parameters: Unable to generate pydantic-core schema for"),
    ],
)
def test_parameters_that_a_model_cannot_pass_are_refused(function: Callable[..., str], problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_signature(function)
    assert str(caught.value).startswith(problem)


def test_the_schema_is_json() -> None:
    assert json.loads(json.dumps(read_signature(hinted).parameters)) == read_signature(hinted).parameters


def test_type_hints_that_name_nothing_are_refused_and_not_dropped() -> None:
    def lost(city: Nowhere) -> str:  # type: ignore[name-defined]  # noqa: F821
        return ""

    with pytest.raises(UsageError, match="tool lost: its type hints refer to unknown names: name 'Nowhere'"):
        read_signature(lost)


def test_a_callable_whose_parameters_are_hidden_is_refused() -> None:
    with pytest.raises(UsageError, match="tool dict: it has no readable signature; wrap it in a function"):
        read_signature(dict)


def test_a_callable_object_is_read_by_its_call() -> None:
    class Weather:
        def __call__(self, city: str, days: int = 3) -> str:
            return ""

    assert read_signature(Weather()).parameters["properties"]["days"] == {"type": "integer", "default": 3}
