"""Responses over a WebSocket: what a stream would tell, in order, with the same key, limits and rules."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import openai
import pytest
from openai.lib.responses_websocket import ResponsesWebSocketLimits, ResponsesWebSocketSession
from sqlalchemy import select
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.sync.client import ClientConnection, connect
from websockets.sync.connection import Connection

from fakes.app_server import KEY, Serving
from fakes.sdk import MARKS
from fakes.until import until
from retinue import Agent, PromptModel
from retinue.limits.rate import Bounds, KeyLimits
from retinue.models import Retries
from retinue.store.api_keys import create_key, hash_key, key_id_of, revoke_key
from retinue.store.tables import runs

pytestmark = MARKS
SCRIPT = [
    {"when": "weather", "call": {"tool": "get_weather", "input": {"location": "Paris"}}},
    {"when": "degrees", "say": "It is 21 degrees."},
    {"when": "for ever", "error": "hang"},
    {"when": "slowly", "delay": 0.2, "say": "At last."},
    {"when": "fail", "error": 500},
    {"say": "Hello."},
]
PROPERTIES = {"type": "object", "properties": {"location": {"type": "string"}}}
TOOL = {"type": "function", "name": "get_weather", "parameters": PROPERTIES}
OVER = ("response.completed", "response.failed", "response.incomplete", "error")


def agent() -> Agent:
    return Agent(PromptModel(script=SCRIPT, retries=Retries(tries=1)), name="agent-1", strategy="tool_calling")


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(tmp_path_factory.mktemp("sockets"), {"agent-1": agent()}) as served:
        yield served


def opened(at: Serving, key: str | None = KEY, path: str = "/v1/responses", **headers: str) -> ClientConnection:
    known = {"Authorization": f"Bearer {key}"} if key else {}
    url = at.url.replace("http", "ws") + path
    return connect(url, additional_headers={**known, **headers}, max_size=None, ping_interval=None)


def send(ws: Connection, said: Any, **more: Any) -> None:
    ws.send(json.dumps({"type": "response.create", "input": said, **more}))


def told(ws: Connection) -> list[Any]:
    """The events up to the end of a response."""
    events = [json.loads(ws.recv(timeout=30))]
    while events[-1]["type"] not in OVER:
        events.append(json.loads(ws.recv(timeout=30)))
    return events


def ask(ws: Connection, said: Any, **more: Any) -> Any:
    """What came of it: the response, or the envelope of an error."""
    send(ws, said, **more)
    last = told(ws)[-1]
    return last.get("response", last)


def text_of(response: Any) -> str:
    text: str = response["output"][-1]["content"][0]["text"]
    return text


def test_what_is_told_is_what_a_stream_tells(at: Serving) -> None:
    with opened(at) as ws:
        send(ws, "Hi")
        events = told(ws)
    id_ = events[0]["response"]["id"]
    streamed = at.ask("GET", f"/v1/responses/{id_}?stream=true").text
    assert [json.loads(line[6:]) for line in streamed.splitlines() if line.startswith("data: ")] == events


def test_one_after_the_other(at: Serving) -> None:
    """Also if all were sent at once."""
    with opened(at) as ws:
        for said in ("Say it slowly", "Hi", "Say it slowly"):
            send(ws, said, store=False)
        assert [text_of(told(ws)[-1]["response"]) for _ in range(3)] == ["At last.", "Hello.", "At last."]


def test_the_sdk(at: Serving) -> None:
    with openai.OpenAI(base_url=f"{at.url}/v1", api_key=KEY) as client, client.responses.connect() as connection:
        connection.response.create(model="agent-1", input="Hi")
        kinds = []
        for event in connection:
            kinds.append(event.type)
            if event.type == "response.completed":
                assert event.response.output_text == "Hello."
                break
        assert kinds[0] == "response.created"
        connection.response.create(model="nobody", input="Hi")
        assert next(iter(connection)).type == "error"


def test_what_answers_a_message_has_its_stream(at: Serving) -> None:
    with opened(at) as ws:
        for stream in ("left", "right", None):
            send(ws, "Hi", **({"stream_id": stream} if stream else {}))
        for stream in ("left", "right", None):
            assert {event.get("stream_id") for event in told(ws)} == {stream}
        for wrong in ({"type": "response.steer"}, {"background": True}, {"temperature": 9}):
            refused = ask(ws, "Hi", stream_id="left", **wrong)
            assert (refused["status"], refused["stream_id"]) == (400, "left")


@pytest.mark.parametrize("stream", ["", "a b", "ä", "a\n", "a" * 257, 1, ["left"]])
def test_a_stream_that_is_none(at: Serving, stream: Any) -> None:
    with opened(at) as ws:
        refused = ask(ws, "Hi", stream_id=stream)
        assert (refused["status"], refused["error"]["param"], refused.get("stream_id")) == (400, "stream_id", None)
        assert ask(ws, "Hi")["status"] == "completed"


def test_each_stream_goes_on_from_its_last(at: Serving) -> None:
    """Though none is stored; another stream may go on from there, too."""
    with opened(at) as ws:
        left, right = (ask(ws, "Hi", store=False, stream_id=name)["id"] for name in ("left", "right"))
        again = {"store": False, "previous_response_id": left}
        assert ask(ws, "Hi", **again, stream_id="fork")["status"] == "completed"
        assert ask(ws, "Hi", **again, stream_id="left")["status"] == "completed"
        assert ask(ws, "Hi", **again, stream_id="left")["error"]["code"] == "previous_response_not_found"
        assert ask(ws, "Hi", store=False, previous_response_id=right, stream_id="right")["status"] == "completed"


def test_the_sdks_sessions(at: Serving) -> None:
    """They tell streams apart by what answers have."""
    bounds = ResponsesWebSocketLimits(
        max_lanes=4, max_events_per_lane=128, max_events=256, max_bytes_per_lane=1_000_000, max_bytes=4_000_000
    )
    with (
        openai.OpenAI(base_url=f"{at.url}/v1", api_key=KEY) as client,
        client.responses.connect() as connection,
        ResponsesWebSocketSession(connection, limits=bounds) as session,
    ):
        lanes = [session.lane(name) for name in ("left", "right")]
        for lane, said in zip(lanes, ("How many degrees?", "Hi"), strict=True):
            lane.send({"type": "response.create", "model": "agent-1", "input": said, "store": False})
        texts = [lane.get_final_response(timeout=30).output_text for lane in reversed(lanes)]
        assert texts == ["Hello.", "It is 21 degrees."]


def test_what_is_not_stored_is_gone_on_from_where_it_was_made(at: Serving) -> None:
    with opened(at) as ws, opened(at) as other:
        first = ask(ws, "How is the weather?", store=False, tools=[TOOL])
        output = {"type": "function_call_output", "call_id": first["output"][0]["call_id"], "output": "21 degrees"}
        lost = ask(other, [output], store=False, previous_response_id=first["id"])
        assert (lost["status"], lost["error"]["code"]) == (400, "previous_response_not_found")
        second = ask(ws, [output], store=False, previous_response_id=first["id"])
        assert text_of(second) == "It is 21 degrees."
        third = ask(ws, "Hi", store=False, previous_response_id=second["id"])
        assert text_of(third) == "Hello."
        older = ask(ws, "Hi", store=False, previous_response_id=second["id"])  # only the last is kept
        assert older["error"]["code"] == "previous_response_not_found"
        missing = [{"type": "function_call_output", "call_id": "call_x", "output": ""}]
        failed = ask(ws, missing, store=False, previous_response_id=third["id"])
        assert failed["status"] == 400
        evicted = ask(ws, "Hi", store=False, previous_response_id=third["id"])
        assert evicted["error"]["code"] == "previous_response_not_found"


def test_what_is_stored_is_gone_on_from_anywhere(at: Serving) -> None:
    with opened(at) as ws:
        first = ask(ws, "Hi")
    with opened(at) as ws:
        second = ask(ws, "And now?", previous_response_id=first["id"])
    assert at.ask("GET", f"/v1/responses/{second['id']}").body == second


@pytest.mark.parametrize(
    ("message", "param", "code"),
    [
        ("{", None, "invalid_request_error"),
        ("[]", "type", "invalid_value"),
        ('{"input": "Hi"}', "type", "invalid_value"),
        ('{"type": "response.cancel"}', "type", "invalid_value"),
        ('{"type": "response.create", "input": "Hi", "input": "Ho"}', None, "invalid_request_error"),
        ('{"type": "response.create"}', "input", "missing_required_parameter"),
        ('{"type": "response.create", "input": "Hi", "stream": false}', "stream", "unknown_parameter"),
        ('{"type": "response.create", "input": "Hi", "background": true}', "background", "unknown_parameter"),
        ('{"type": "response.create", "input": 5}', "input", "invalid_type"),
        ("[" * 100 + "]" * 100, None, "invalid_request_error"),
    ],
)
def test_a_message_that_asks_for_nothing(at: Serving, message: str, param: str | None, code: str) -> None:
    with opened(at) as ws:
        ws.send(message)
        (error,) = told(ws)
        assert (error["type"], error["status"]) == ("error", 400)
        assert (error["error"]["param"], error["error"]["code"]) == (param, code)
        assert text_of(ask(ws, "Hi")) == "Hello."  # and the connection is as good as before


def test_a_message_in_bytes(at: Serving) -> None:
    with opened(at) as ws:
        ws.send(json.dumps({"type": "response.create", "input": "Hi"}).encode())
        assert told(ws)[-1]["type"] == "response.completed"


def test_a_run_that_fails_is_told(at: Serving) -> None:
    with opened(at) as ws:
        assert ask(ws, "Please fail.")["status"] == "failed"
        assert text_of(ask(ws, "Hi")) == "Hello."


def test_who_may_open_one(at: Serving) -> None:
    reading = at.in_loop(at.database.write(partial(create_key, scopes=("read",))))
    refusals: list[tuple[dict[str, Any], int]] = [
        ({"key": None}, 401),
        ({"key": "sk-wrong"}, 401),
        ({"key": reading}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"path": "/v1/threads"}, 404),
        ({"path": "/health"}, 404),
        ({"key": None, "path": "/v1/nowhere"}, 401),
    ]
    for given, status in refusals:
        with pytest.raises(InvalidStatus) as refusal:
            opened(at, **given)
        assert refusal.value.response.status_code == status, given


def test_a_strangers_name_leads_to_nothing(at: Serving) -> None:
    """DNS rebinding."""
    there = urlsplit(at.url)
    plain = socket.create_connection((there.hostname, there.port))
    with pytest.raises(InvalidStatus) as refusal:
        connect("ws://evil.example/v1/responses", sock=plain, additional_headers={"Authorization": f"Bearer {KEY}"})
    assert refusal.value.response.status_code == 421


def test_a_key_that_is_revoked_is_good_for_nothing_more(at: Serving) -> None:
    key = at.in_loop(at.database.write(create_key))
    with opened(at, key) as ws:
        assert text_of(ask(ws, "Hi")) == "Hello."
        at.in_loop(at.database.write(partial(revoke_key, id_=key_id(at, key))))
        error = until(lambda: refused(ws))
        assert (error["status"], error["error"]["code"]) == (401, "invalid_api_key")
        with pytest.raises(ConnectionClosed):
            ws.recv(timeout=30)


def key_id(at: Serving, key: str) -> str:
    return key_id_of(hash_key(key))


def refused(ws: Connection) -> Any:
    """The error that is the answer, if it is one: keys are looked at anew now and then."""
    answer = ask(ws, "Hi")
    return answer if answer.get("type") == "error" else None


def test_a_message_that_is_too_large(at: Serving) -> None:
    with opened(at) as ws:
        with suppress(ConnectionClosed):
            ws.send("x" * 20_000_001)
        with pytest.raises(ConnectionClosed) as closed:
            ws.recv(timeout=30)
        close = closed.value.rcvd
        assert close is None or close.code == 1009  # None: it was cut off while it was still talking
    with opened(at) as ws:
        assert text_of(ask(ws, "Hi")) == "Hello."


def test_too_many_that_wait(at: Serving) -> None:
    with opened(at) as ws:
        send(ws, "It takes for ever", store=False)
        run = told_id(ws)
        for _ in range(40):
            with suppress(ConnectionClosed):
                send(ws, "Hi", store=False)
        error = told(ws)[-1]
        assert (error["status"], error["error"]["code"]) == (429, "rate_limit_exceeded")
        with pytest.raises(ConnectionClosed):
            ws.recv(timeout=30)
    assert ended(at, run) == "cancelled"


def told_id(ws: Connection) -> str:
    """The run of the response that has just begun."""
    begun = json.loads(ws.recv(timeout=30))
    id_: str = begun["response"]["id"]
    return id_.replace("resp_", "run_")


def status_of(at: Serving, run_id: str) -> str:
    with at.database.engine.connect() as connection:
        status: str = connection.execute(select(runs.c.status).where(runs.c.id == run_id)).scalar_one()
    return status


def ended(at: Serving, run_id: str) -> str:
    return until(lambda: status if (status := status_of(at, run_id)) not in ("queued", "in_progress") else "")


@pytest.mark.parametrize("store", [True, False])
def test_who_goes_away_ends_what_is_under_way(at: Serving, store: bool) -> None:
    with opened(at) as ws:
        send(ws, "It takes for ever", store=store)
        run = told_id(ws)
    assert ended(at, run) == "cancelled"


def test_each_message_counts(tmp_path: Path) -> None:
    with Serving(tmp_path, {"agent-1": agent()}, limits=KeyLimits(Bounds(requests=2))) as at, opened(at) as ws:
        assert text_of(ask(ws, "Hi")) == "Hello."
        assert ask(ws, "Hi")["error"]["code"] == "rate_limit_exceeded"


def test_a_connection_is_let_go_of(tmp_path: Path) -> None:
    """Each counts among those of its address, for as long as it is there."""
    with Serving(tmp_path, {"agent-1": agent()}, connections=2) as at:
        for _ in range(5):
            with opened(at) as ws, ExitStack() as both:
                assert text_of(ask(ws, "Hi")) == "Hello."
                both.enter_context(until(lambda: openable(at)))
                assert openable(at) is None


def openable(at: Serving) -> Any:
    """Another connection, if there may be one."""
    with suppress(OSError, EOFError, WebSocketException):
        return opened(at)


def test_a_connection_lasts_for_an_hour(tmp_path: Path) -> None:
    with Serving(tmp_path, {"agent-1": agent()}) as at:
        at.app.state.sockets_last = 0.0
        with opened(at) as ws:
            (error,) = told(ws)
            assert (error["status"], error["error"]["code"]) == (400, "websocket_connection_limit_reached")
            with pytest.raises(ConnectionClosed):
                ws.recv(timeout=30)


def test_a_server_that_stops_closes_them(tmp_path: Path) -> None:
    with ExitStack() as stack:
        with Serving(tmp_path, {"agent-1": agent()}) as at:
            ws = stack.enter_context(opened(at))
            assert text_of(ask(ws, "Hi")) == "Hello."
        with pytest.raises(ConnectionClosed):
            ws.recv(timeout=30)
