"""What holds for every answer, and what is refused before any route is asked."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
from collections.abc import AsyncIterator, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from sqlalchemy import text
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from fakes.app_server import KEY, Serving, answering

JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("method", "path", "key", "status"),
    [
        ("GET", "/health", "", 200),
        ("GET", "/v1/models", "", 401),
        ("GET", "/v1/threads/thread_x", "right", 404),
        ("GET", "/nowhere", "right", 404),
        ("GET", "/v1/models", "right", 200),
    ],
)
def test_every_answer_has_an_id_and_a_time(served: Serving, method: str, path: str, key: str, status: int) -> None:
    said = served.ask(method, path) if key else served.ask(method, path, key=None)
    assert said.status == status
    assert re.fullmatch(r"req_[0-9a-f]{24}", said.headers["x-request-id"])
    assert said.headers["openai-processing-ms"].isdigit()
    assert said.headers["openai-version"] == "2020-10-01"


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("GET", "/v1/x", 404, "Invalid URL (GET /v1/x)"),
        ("POST", "/", 405, "Not allowed to POST on /."),
        ("PUT", "/v1/threads", 405, "Not allowed to PUT on /v1/threads."),
        ("PATCH", "/v1/models/agent-1", 405, "Not allowed to PATCH on /v1/models/agent-1."),
    ],
)
def test_what_is_nowhere(served: Serving, method: str, path: str, status: int, message: str) -> None:
    said = served.ask(method, path)
    assert (said.status, said.error["message"], said.error["type"]) == (status, message, "invalid_request_error")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{", "Expecting property name"),
        (b"\xff", "can't decode"),
        (b'{"a": NaN}', "NaN is not a valid JSON number"),
        (b'{"a": 1e999}', "1e999 is not a valid JSON number"),
        (b"1" * 5_000, "digits"),
        (b'{"metadata": {"k": "\\ud800"}}', "surrogate"),
        (b'{"a":' + b"[" * 64 + b"]" * 64 + b"}", "nested"),
        (b"[" * 20_000, "nested"),
    ],
)
def test_bodies_that_cannot_be_read(served: Serving, body: bytes, reason: str) -> None:
    said = served.ask("POST", "/v1/threads", data=body, headers=JSON)
    assert said.status == 400
    assert said.error["message"].startswith("We could not parse the JSON body of your request")
    assert reason in said.error["message"]


def test_every_operation_reads_its_body_so(served: Serving) -> None:
    operations = [
        (method.upper(), path)
        for path, operations in served.ask("GET", "/openapi.json").body["paths"].items()
        for method, operation in operations.items()
        if "application/json" in operation.get("requestBody", {}).get("content", ())
    ]
    assert len(operations) > 8
    for method, path in operations:
        said = served.ask(method, path, data=b'{"a": NaN}', headers=JSON)
        assert (said.status, "NaN" in said.error["message"]) == (400, True), path


def test_bodies_of_another_type_are_refused(served: Serving) -> None:
    said = served.ask("POST", "/v1/threads", data=b"{}", headers={"Content-Type": "text/plain"})
    assert (said.status, said.error["code"]) == (400, "unsupported_content_type")


@pytest.mark.parametrize("chunked", [False, True])
def test_bodies_that_are_too_large(served: Serving, chunked: bool) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(21):
            yield b" " * 1_000_000

    body: Any = chunks() if chunked else BytesIO(b" " * 21_000_000)
    said = served.ask("POST", "/v1/threads", data=body, headers=JSON)
    assert (said.status, said.error["code"]) == (413, "request_too_large")


def test_what_nobody_expected_says_nothing_of_the_inside(served: Serving, caplog: pytest.LogCaptureFixture) -> None:
    assistant = served.ask("POST", "/v1/assistants", {"model": "agent-1"}).body["id"]
    with served.database.engine.begin() as connection:
        connection.execute(text("UPDATE assistants SET body = '7' WHERE id = :id"), {"id": assistant})
    said = served.ask("GET", f"/v1/assistants/{assistant}")
    assert (said.status, said.error["type"]) == (500, "server_error")
    assert said.error["message"].startswith("The server had an error while processing your request.")
    assert "TypeError" not in str(said.body)
    request = said.headers["x-request-id"]
    assert request in said.error["message"]
    assert [vars(record)["request"] for record in caplog.records if record.levelname == "ERROR"] == [request]


def test_a_database_that_is_away_is_said_to_be(tmp_path: Path) -> None:
    with Serving(tmp_path) as served:
        with served.database.engine.begin() as connection:
            connection.execute(text("ALTER TABLE threads RENAME TO gone"))
        said = served.ask("GET", "/v1/threads")
        assert (said.status, said.error["type"], said.headers["Retry-After"]) == (503, "server_error", "1")


def test_readiness(tmp_path: Path) -> None:
    with Serving(tmp_path) as served:
        assert served.ask("GET", "/ready", key=None).body == {"status": "ready"}
        served.app.state.stopping = True
        assert served.ask("GET", "/ready", key=None).status == 503
        assert served.ask("GET", "/health", key=None).status == 200


def test_models(served: Serving) -> None:
    model = {"id": "agent-1", "object": "model", "created": 1_700_000_000, "owned_by": "retinue"}
    listed = served.ask("GET", "/v1/models").body
    assert (listed["object"], listed["data"][0]) == ("list", model)
    assert served.ask("GET", "/v1/models/agent-1").body == model
    said = served.ask("GET", "/v1/models/meta/llama:8b")
    assert (said.status, said.error["code"], said.error["param"]) == (404, "model_not_found", "model")
    assert said.error["message"].startswith("The model 'meta/llama:8b' does not exist; ")


def test_what_opea_asks(tmp_path: Path) -> None:
    with Serving(tmp_path) as served:
        assert served.ask("GET", "/v1/health_check").body["Service Title"] == "retinue"
        assert served.ask("GET", "/v1/statistics").body == {"runs": {}}


def test_the_document_describes_what_is_answered(served: Serving) -> None:
    document = served.ask("GET", "/openapi.json").body
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert set(operation["responses"]) == {"200", "4XX", "5XX"}, f"{method} {path}"
    for place, schema in _schemas(document):
        if "default" in schema:
            own = {**schema, "components": document["components"]}
            assert Draft202012Validator(own).is_valid(schema["default"]), place


def _schemas(part: Any, place: str = "#") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(part, dict):
        yield from [(place, part)] if not place.endswith("/properties") else []
    inner = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for name, one in inner:
        yield from _schemas(one, f"{place}/{name}")


def test_what_openai_has_and_this_server_has_not(served: Serving) -> None:
    said = served.ask("POST", "/v1/uploads", {})
    assert (said.status, said.error["code"], "/v1/files" in said.error["message"]) == (404, "unknown_url", True)
    headers = {"Authorization": f"Bearer {KEY}"}
    for path in ("/v1/realtime?model=x", "/elsewhere"):
        with pytest.raises(InvalidStatus) as refused, connect(f"ws{served.url[4:]}{path}", additional_headers=headers):
            pass
        body = json.loads(refused.value.response.body or b"")
        assert (refused.value.response.status_code, body["error"]["code"]) == (404, "unknown_url")
    for path in ("/health", "/ready"):
        assert served.ask("HEAD", path, key=None).status == 200
        assert served.ask("POST", path, {}).headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    ("path", "given", "now"),
    [
        *(("responses", {name: value}, now) for name, value, now in (
            ("messages", [], "'input'"),
            ("response_format", {"type": "json_object"}, "'text.format'"),
            ("max_tokens", 5, "'max_output_tokens'"),
            ("max_completion_tokens", 5, "'max_output_tokens'"),
            ("reasoning_effort", "low", "'reasoning.effort'"),
            ("verbosity", "low", "'text.verbosity'"),
            ("functions", [], "'tools'"),
        )),
        *(("chat/completions", {name: value}, now) for name, value, now in (
            ("input", "Hi", "'messages'"),
            ("instructions", "Be brief.", "'developer'"),
            ("max_output_tokens", 5, "'max_completion_tokens'"),
            ("text", {"format": {"type": "text"}}, "'response_format'"),
            ("previous_response_id", "resp_1", "'messages'"),
        )),
    ],
)  # fmt: skip
def test_a_parameter_of_the_other_api_is_named_as_in_this_one(
    served: Serving, path: str, given: dict[str, Any], now: str
) -> None:
    said = served.ask(
        "POST", f"/v1/{path}", {"model": "a", "input" if path == "responses" else "messages": "Hi", **given}
    )
    (name,) = given
    assert (said.status, said.error["code"], said.error["param"]) == (400, "unsupported_parameter", name)
    assert now in said.error["message"]


def test_a_parameter_that_only_the_other_api_has_is_refused(served: Serving) -> None:
    """Unless its value changes nothing."""
    table: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
        "responses": (
            "input",
            {
                "n": 2,
                "stop": "x",
                "seed": 1,
                "logprobs": True,
                "modalities": ["audio"],
                "logit_bias": {"1": 2},
                "audio": {},
            },
            {"n": 1, "stop": None, "seed": None, "logprobs": False, "modalities": ["text"]},
        ),
        "chat/completions": (
            "messages",
            {"background": True, "truncation": "x", "max_tool_calls": 1, "include": ["x"], "prompt": {"id": "p"}},
            {"background": False, "truncation": "auto", "max_tool_calls": None, "include": []},
        ),
    }
    for path, (said, refused, idle) in table.items():
        for name, value in refused.items():
            answer = served.ask("POST", f"/v1/{path}", {said: "Hi", name: value})
            assert (answer.status, answer.error["code"], answer.error["param"]) == (400, "unknown_parameter", name)
        assert served.ask("POST", f"/v1/{path}", {said: "Hi", **idle}).status != 400


def test_allowed_tools_are_tools_of_the_request(served: Serving) -> None:
    function = {"name": "f", "parameters": {"type": "object", "properties": {}}}
    chat: dict[str, Any] = {"messages": "Hi", "tools": [{"type": "function", "function": function}]}
    response: dict[str, Any] = {"input": "Hi", "tools": [{"type": "function", **function}]}
    for named in ("f", "g", "", None):
        tools = [] if named is None else [{"type": "function", "name": named}]
        inner = [{"type": "function", "function": {"name": one["name"]}} for one in tools]
        ways: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
            ("chat/completions", chat, {"allowed_tools": {"mode": "auto", "tools": inner}}),
            ("responses", response, {"mode": "auto", "tools": tools}),
        ]
        for path, body, choice in ways:
            answer = served.ask("POST", f"/v1/{path}", {**body, "tool_choice": {"type": "allowed_tools", **choice}})
            assert (answer.status == 400) is (named != "f"), (named, path, answer.text)


def test_an_unknown_model_is_told_which_there_are(served: Serving) -> None:
    for path, more in (
        ("chat/completions", {"messages": "Hi"}),
        ("responses", {"input": "Hi"}),
        ("assistants", {}),
        ("completions", {"prompt": "Hi"}),
    ):
        said = served.ask("POST", f"/v1/{path}", {"model": "gpt-4", **more})
        assert (said.status, said.error["code"]) == (404, "model_not_found")
        assert said.error["message"].startswith("The model 'gpt-4' does not exist; there are: ")
        embedder = served.ask("POST", f"/v1/{path}", {"model": "minilm", **more})
        assert (embedder.status, "/v1/embeddings" in embedder.error["message"]) == (404, True)


PAGES = ("/", "/docs", "/redoc", "/openapi.json")


@pytest.mark.parametrize("path", PAGES)
def test_a_person_with_a_browser_sees_what_this_is_without_a_key(served: Serving, path: str) -> None:
    said = served.ask("GET", path, key=None)
    assert said.status == 200
    assert served.ask("GET", path, key=None, headers={"Host": "evil.example"}).status == 421
    assert served.ask("POST", path, key=None).status == 401
    if path == "/openapi.json":
        assert not set(PAGES) & set(said.body["paths"])
        return
    assert said.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in said.headers["content-security-policy"]
    loaded = re.findall(r"""(?:src|href)=["']([^"']*)""", said.text)
    assert loaded
    assert all(served.ask("GET", one, key=None).status == 200 for one in loaded)


def test_what_the_page_shows_is_escaped_and_its_command_can_be_pasted(tmp_path: Path) -> None:
    name = "<script>it's</script>"
    with Serving(tmp_path, {name: answering(name)}) as server:
        page = server.ask("GET", "/", key=None).text
        assert "<script" not in page
        assert "&lt;script&gt;it&#x27;s&lt;/script&gt;" in page
        command = html.unescape(re.findall(r"<pre>(curl.*?)</pre>", page, re.DOTALL)[0])
        bash = ["bash", "-c", f"{command} --silent --fail"]
        done = subprocess.run(bash, capture_output=True, text=True, env={**os.environ, "OPENAI_API_KEY": KEY})
        assert json.loads(done.stdout)["choices"][0]["message"]["content"] == "Paris.", done.stderr


@pytest.mark.parametrize("path", ["/v1/threads", "/v1/assistants", "/v1/conversations", "/v1/vector_stores"])
def test_a_slash_at_the_end_of_a_path_changes_nothing_and_loses_no_body(served: Serving, path: str) -> None:
    asked = {"model": "agent-1", "metadata": {"k": path}}
    plain, slashed = (served.ask("POST", f"{path}{end}", asked) for end in ("", "/"))
    assert (plain.status, slashed.status) == (200, 200)
    assert slashed.body["metadata"] == plain.body["metadata"] == {"k": path}
    assert served.ask("GET", "/v1/models/").body == served.ask("GET", "/v1/models").body
    assert served.ask("GET", f"{path}//").status == 404


def test_the_only_agent_needs_no_name(tmp_path: Path) -> None:
    """OPEA's worker functions post no model."""
    asked = {"messages": "What is the capital of France?", "stream": False}
    with Serving(tmp_path) as server:
        said = server.ask("POST", "/v1/chat/completions", asked).body
        assert (said["model"], said["text"]) == ("agent-1", "Paris.")
    with Serving(tmp_path, {"one": answering("one"), "two": answering("two")}) as server:
        said = server.ask("POST", "/v1/chat/completions", asked)
    assert (said.status, said.error["param"]) == (400, "model")
    assert said.error["message"].startswith("Missing required parameter: 'model'. This server has several models")
