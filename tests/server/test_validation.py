"""Every mistake in OpenAI's words, and nothing but OpenAI's envelope whatever is sent."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from fakes.app_server import Serving, upload, with_run
from retinue.server.context import Options
from sampling import examples

FUNCTION = {"type": "function", "function": {"name": "f"}}
ASSISTANTS, RUNS = "/v1/assistants", "/v1/threads/{thread}/runs"
MESSAGES = "/v1/threads/{thread}/messages"
TYPES = "Supported values are: 'function', 'code_interpreter', and 'file_search'."


@pytest.mark.parametrize(
    ("path", "body", "param", "code", "message"),
    [
        (RUNS, {}, "assistant_id", "missing_required_parameter", "Missing required parameter: 'assistant_id'."),
        (MESSAGES, {"content": "x"}, "role", "missing_required_parameter", "Missing required parameter: 'role'."),
        (
            ASSISTANTS,
            {"tools": [{"type": "function"}]},
            "tools[0].function",
            "missing_required_parameter",
            "Missing required parameter: 'tools[0].function'.",
        ),
        (
            ASSISTANTS,
            {"tools": [FUNCTION, {}]},
            "tools[1].type",
            "missing_required_parameter",
            "Missing required parameter: 'tools[1].type'.",
        ),
        (ASSISTANTS, {"tools": [{"type": "x"}]}, "tools[0].type", "invalid_value", f"Invalid value: 'x'. {TYPES}"),
        (
            ASSISTANTS,
            {"tools": [7]},
            "tools[0]",
            "invalid_type",
            "Invalid type for 'tools[0]': expected an object, but got an integer instead.",
        ),
        (
            ASSISTANTS,
            {"name": True},
            "name",
            "invalid_type",
            "Invalid type for 'name': expected a string, but got a boolean instead.",
        ),
        (
            RUNS,
            {"assistant_id": "a", "max_prompt_tokens": 300.0},
            "max_prompt_tokens",
            "invalid_type",
            "Invalid type for 'max_prompt_tokens': expected an integer, but got a decimal instead.",
        ),
        (
            RUNS,
            {"assistant_id": "a", "stream": "yes"},
            "stream",
            "invalid_type",
            "Invalid type for 'stream': expected a boolean, but got a string instead.",
        ),
        (
            ASSISTANTS,
            {"metadata": []},
            "metadata",
            "invalid_type",
            "Invalid type for 'metadata': expected an object, but got an array instead.",
        ),
        (
            MESSAGES,
            {"role": "user", "content": 7},
            "content",
            "invalid_type",
            "Invalid type for 'content': expected one of a string or array of objects, but got an integer instead.",
        ),
        (
            MESSAGES,
            {"role": "user", "content": [{"type": "text", "text": {}}]},
            "content[0].text",
            "invalid_type",
            "Invalid type for 'content[0].text': expected a string, but got an object instead.",
        ),
        (
            MESSAGES,
            {"role": "system", "content": "x"},
            "role",
            "invalid_value",
            "Invalid value: 'system'. Supported values are: 'user' and 'assistant'.",
        ),
        (
            RUNS,
            {"assistant_id": "a", "tool_choice": "maybe"},
            "tool_choice",
            "invalid_value",
            "Invalid value: 'maybe'. Supported values are: 'none', 'auto', and 'required'.",
        ),
        (
            RUNS,
            {"assistant_id": "a", "max_completion_tokens": 255},
            "max_completion_tokens",
            "integer_below_min_value",
            "Invalid 'max_completion_tokens': integer below minimum value. "
            "Expected a value >= 256, but got 255 instead.",
        ),
        (
            ASSISTANTS,
            {"tools": [{"type": "file_search", "file_search": {"max_num_results": 51}}]},
            "tools[0].file_search.max_num_results",
            "integer_above_max_value",
            "Invalid 'tools[0].file_search.max_num_results': integer above "
            "maximum value. Expected a value <= 50, but got "
            "51 instead.",
        ),
        (
            ASSISTANTS,
            {"temperature": 3},
            "temperature",
            "decimal_above_max_value",
            "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 3 instead.",
        ),
        (
            ASSISTANTS,
            {"top_p": -0.5},
            "top_p",
            "decimal_below_min_value",
            "Invalid 'top_p': decimal below minimum value. Expected a value >= 0, but got -0.5 instead.",
        ),
        (
            MESSAGES,
            {"role": "user", "content": []},
            "content",
            "empty_array",
            "Invalid 'content': empty array. Expected an array with minimum length 1, but got an empty array instead.",
        ),
        (
            RUNS,
            {"assistant_id": "a", "tools": [{"type": "function", "function": {"name": f"f{n}"}} for n in range(21)]},
            "tools",
            "array_above_max_length",
            "Invalid 'tools': array too long. Expected an array with maximum "
            "length 20, but got an array with length 21 "
            "instead.",
        ),
        (
            MESSAGES,
            {"role": "user", "content": "x", "attachments": [{"file_id": "", "tools": [{"type": "file_search"}]}]},
            "attachments[0].file_id",
            "empty_string",
            "Invalid 'attachments[0].file_id': empty string. Expected a string with minimum length 1, but got an empty "
            "string instead.",
        ),
        (
            ASSISTANTS,
            {"tools": [{"type": "function", "function": {"name": ""}}]},
            "tools[0].function.name",
            "empty_string",
            "Invalid 'tools[0].function.name': empty string. Expected a string with minimum length 1, but got an empty "
            "string instead.",
        ),
        (
            ASSISTANTS,
            {"tools": [{"type": "function", "function": {"name": "a b"}}]},
            "tools[0].function.name",
            "invalid_value",
            "Invalid 'tools[0].function.name': string does not match pattern. "
            "Expected a string that matches the pattern "
            "'^[a-zA-Z0-9_-]+$'.",
        ),
        (
            ASSISTANTS,
            {"metadata": {"k": "v" * 513}},
            "metadata.k",
            "string_above_max_length",
            "Invalid 'metadata.k': string too long. Expected a string with maximum length 512, but got a string with "
            "length 513 instead.",
        ),
        (
            ASSISTANTS,
            {"metadata": {"k" * 65: "v"}},
            "metadata",
            "property_name_above_max_length",
            "Invalid 'metadata': property name too long. Expected a property name with maximum length 64, but got a "
            "property name with length 65 instead.",
        ),
        (
            ASSISTANTS,
            {"metadata": {str(number): "" for number in range(17)}},
            "metadata",
            "object_above_max_properties",
            "Invalid 'metadata': too many properties. Expected an object with at most 16 properties, but got an object "
            "with 17 properties instead.",
        ),
        (
            ASSISTANTS,
            {"tools": [{"type": "function", "function": {"name": "twice"}}] * 2},
            "tools",
            "invalid_value",
            "Invalid 'tools': two tools are called 'twice'.",
        ),
        (
            ASSISTANTS,
            [],
            None,
            "invalid_type",
            "Invalid type for the body of your request: expected an object, but got an array instead.",
        ),
        (ASSISTANTS, None, None, None, "You must send a JSON object as the body of your request."),
    ],
)  # fmt: skip
def test_mistakes_in_openais_words(
    served: Serving, path: str, body: Any, param: str | None, code: str | None, message: str
) -> None:
    said = served.ask("POST", path.format(thread="thread_x"), body)
    assert said.status == 400
    assert said.error == {"message": message, "type": "invalid_request_error", "param": param, "code": code}


@pytest.mark.parametrize(
    ("query", "param", "code"),
    [
        ("limit=0", "limit", "integer_below_min_value"),
        ("limit=101", "limit", "integer_above_max_value"),
        ("limit=ten", "limit", "invalid_type"),
        ("order=up", "order", "invalid_value"),
    ],
)
def test_mistakes_in_queries(served: Serving, query: str, param: str, code: str) -> None:
    said = served.ask("GET", f"/v1/assistants?{query}")
    assert (said.status, said.error["param"], said.error["code"]) == (400, param, code)


def test_unknown_parameters_are_ignored_unless_the_server_is_strict(served: Serving, tmp_path: Path) -> None:
    bodies = [
        ("zzz", "/v1/assistants", {"model": "agent-1", "zzz": 1}),
        ("tools[0].zzz", "/v1/assistants", {"model": "agent-1", "tools": [{**FUNCTION, "zzz": 1}]}),
        ("messages[0].content[0].zzz", "/v1/threads", {"messages": [
            {"role": "user", "content": [{"type": "text", "text": "a", "zzz": 1}]}
        ]}),
    ]  # fmt: skip
    with Serving(tmp_path, options=Options(strict=True)) as strict:
        for param, path, body in bodies:
            assert served.ask("POST", path, body).status == 200
            said = strict.ask("POST", path, body)
            assert said.status == 400
            assert said.error["message"] == f"Unknown parameter: '{param}'."
            assert (said.error["param"], said.error["code"]) == (param, "unknown_parameter")
        opea = {"agent_config": {"strategy": "react_llama"}}
        assert strict.ask("POST", "/v1/assistants", opea).status == 200
        assert strict.ask("POST", "/v1/threads", {}).status == 200


PART = {"type": "text", "text": "a"}
MESSAGE = {"role": "user", "content": [PART], "metadata": {"k": "v"}, "attachments": [{"file_id": "f", "tools": []}]}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
WISHES = {
    "tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}, {"type": "file_search"}],
    "metadata": {"k": "v"},
    "temperature": 1,
    "top_p": 0.5,
    "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}},
    "instructions": "Be brief.",
    "tool_resources": {"code_interpreter": {"file_ids": ["f"]}},
}
RUN = WISHES | {
    "assistant_id": "{assistant}",
    "tool_choice": {"type": "function", "function": {"name": "f"}},
    "truncation_strategy": {"type": "last_messages", "last_messages": 2},
    "max_prompt_tokens": 256,
    "stream": False,
}
OPERATIONS: list[tuple[str, Any]] = [
    ("/v1/assistants", {"model": "agent-1", "agent_config": {"temperature": 1}, **WISHES}),
    ("/v1/assistants/{assistant}", WISHES),
    ("/v1/threads", {"messages": [MESSAGE], "metadata": {"k": "v"}}),
    ("/v1/threads/{thread}", {"metadata": {"k": "v"}, "tool_resources": {"file_search": {"vector_store_ids": ["v"]}}}),
    ("/v1/threads/{thread}/messages", MESSAGE),
    ("/v1/threads/{thread}/messages/{message}", {"metadata": {"k": "v"}}),
    ("/v1/threads/{held}/runs", {**RUN, "additional_messages": [MESSAGE], "additional_instructions": "x"}),
    ("/v1/threads/runs", {**RUN, "assistant_id": "nobody", "thread": {"messages": [MESSAGE]}}),
    ("/v1/threads/{held}/runs/{run}", {"metadata": {"k": "v"}}),
    ("/v1/threads/{held}/runs/{run}/submit_tool_outputs", {"tool_outputs": [{"tool_call_id": "c", "output": "o"}]}),
    (
        "/v1/chat/completions",
        {
            "model": "nothing",
            "messages": [{"role": "user", "content": "a"}, {"role": "tool", "tool_call_id": "c", "content": [PART]}],
            "tools": WISHES["tools"],
            "stop": ["a"],
            "logit_bias": {"1": 1},
            "stream_options": {"include_usage": True},
        },
    ),
]
ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(["", "\x00", "function", "text", "auto", "$ref", "object", "x" * 600, 10**400]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=8), inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["type", "text", "function", "name", "parameters", "properties", "items", "enum", "k" * 70]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@st.composite
def spoilt(draw: st.DrawFn) -> tuple[str, Any]:
    """A request that is as it should be but for one value somewhere in it."""
    path, body = draw(st.sampled_from(OPERATIONS))
    return path, _spoil(draw, body)


def _spoil(draw: st.DrawFn, value: Any) -> Any:
    if not isinstance(value, dict | list) or not value or draw(st.integers(0, 3)) == 0:
        return draw(ODD)
    if isinstance(value, list):
        at = draw(st.integers(0, len(value) - 1))
        return [*value[:at], _spoil(draw, value[at]), *value[at + 1 :]]
    key = draw(st.sampled_from(sorted(value)))
    return {**value, key: _spoil(draw, value[key])}


@pytest.fixture(scope="module")
def there(on_both: Serving) -> dict[str, str]:
    """Ids of what is there."""
    held, run = with_run(on_both, "requires_action")
    thread = on_both.ask("POST", "/v1/threads", {"messages": [MESSAGE]}).body["id"]
    return {
        "held": held,
        "run": run,
        "thread": thread,
        "message": on_both.ask("GET", f"/v1/threads/{thread}/messages").body["last_id"],
        "assistant": on_both.ask("POST", "/v1/assistants", {"model": "agent-1"}).body["id"],
    }


@settings(max_examples=examples(150), suppress_health_check=list(HealthCheck))
@given(request=spoilt())
def test_no_body_however_odd_is_more_than_a_mistake(
    on_both: Serving, there: dict[str, str], request: tuple[str, Any]
) -> None:
    path, body = request
    if isinstance(body, dict) and body.get("assistant_id") == "{assistant}":
        body = body | {"assistant_id": there["assistant"]}
    said = on_both.ask("POST", path.format(**there), body)
    assert said.status in (200, 400, 404), said.text
    if said.status != 200:
        assert said.error["type"] == "invalid_request_error"
        assert said.error["message"]
    else:
        assert said.body["object"]


@pytest.mark.parametrize(
    ("given", "hint"),
    [("false", " Write false, without quotes."), ("True", " Write true, without quotes."), ("no", "")],
)
def test_a_boolean_in_quotes_is_refused_with_what_would_be_right(served: Serving, given: str, hint: str) -> None:
    asked = {"model": "agent-1", "messages": "hello", "stream": given}
    said = served.ask("POST", "/v1/chat/completions", asked)
    assert said.status == 400
    expected = f"Invalid type for 'stream': expected a boolean, but got a string instead.{hint}"
    assert (said.error["message"], said.error["param"]) == (expected, "stream")


NUMBERS: dict[str, tuple[str, ...]] = {
    "/v1/chat/completions": ("max_tokens", "max_completion_tokens", "seed", "n", "top_logprobs", "temperature"),
    "/v1/responses": ("max_output_tokens", "max_tool_calls", "top_logprobs", "top_p"),
    "/v1/threads/runs": ("max_prompt_tokens", "max_completion_tokens", "temperature"),
    "/v1/assistants": ("temperature", "top_p"),
    "/v1/vector_stores/vs_x/search": ("max_num_results",),
}
ASKED: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"model": "agent-1", "messages": [{"role": "user", "content": "Hi"}]},
    "/v1/responses": {"model": "agent-1", "input": "Hi"},
    "/v1/threads/runs": {"assistant_id": "asst_x"},
    "/v1/assistants": {"model": "agent-1"},
    "/v1/vector_stores/vs_x/search": {"query": "Hi"},
}


def test_numbers_that_nothing_can_count_are_refused_with_their_names(tmp_path: Path) -> None:
    with Serving(tmp_path) as served:
        for path, names in NUMBERS.items():
            for name in names:
                for number in (10**400, -(10**400), 2**63, 10**18 + 0.5):
                    said = served.ask("POST", path, {**ASKED[path], name: number})
                    assert said.status == 400, (path, name, number, said.text)
                    assert (said.error["param"] or name).startswith(name), (path, name, number, said.text)


def test_what_the_machine_lacks_is_no_fault_of_the_body(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))  # where large uploads are put
    with Serving(tmp_path) as served:
        said = upload(served, "a.txt", b"x" * 3_000_000)
        assert (said.status, said.error["code"]) == (503, "server_overloaded")
        monkeypatch.setattr(tempfile, "tempdir", None)
        assert upload(served, "a.txt", b"x" * 3_000_000).status == 200
