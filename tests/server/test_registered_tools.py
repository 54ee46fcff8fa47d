"""Tools that are registered while the server runs: HTTP endpoints and MCP servers, for their tenant's runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from fakes import mcp_server
from fakes.app_server import Answer, Serving
from fakes.engines import PROBED
from fakes.loopback import Loopback
from fakes.openai_server import Answer as Said, OpenAIServer
from fakes.until import until
from retinue import Agent, PromptModel
from retinue.limits.shares import Shares
from retinue.server.agents.deployment import Deployment
from retinue.server.context import Options
from retinue.store.api_keys import create_key
from retinue.tools import calculator

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


class Weather:
    """An endpoint; `asked` are the calls that it got."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        app = web.Application()
        app.router.add_post("/weather", self._weather)
        app.router.add_post("/away", self._away)
        self._server = Loopback(app)

    def __enter__(self) -> Weather:
        self._server.start()
        self.url = self._server.url
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()

    async def _weather(self, request: web.Request) -> web.Response:
        self.asked.append(await request.json())
        return web.json_response({"told": "21 degrees", "more": "x"})

    async def _away(self, _: web.Request) -> web.Response:
        raise web.HTTPTemporaryRedirect("http://127.0.0.1:1/")


@pytest.fixture
def weather() -> Iterator[Weather]:
    with Weather() as weather:
        yield weather


@pytest.fixture
def mcp() -> Iterator[int]:
    with mcp_server.served() as port:
        yield port


@pytest.fixture
def engine() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        server.replies.append(PROBED)
        yield server


def serving(folder: Path, engine: OpenAIServer, *hosts: str) -> Serving:
    model = PromptModel("m", base_url=engine.url, api_key="none")
    agents = {name: Agent(model, [calculator], strategy="tool_calling", name=name) for name in ("open", "closed")}
    served = Serving(folder, agents, Options(tool_hosts=hosts))
    served._deployment = Deployment(agents, 1_700_000_000, frozenset({"open"}))
    return served


@pytest.fixture
def served(engine: OpenAIServer, weather: Weather, mcp: int, tmp_path: Path) -> Iterator[Serving]:
    with serving(tmp_path, engine, weather.url.removeprefix("http://"), f"127.0.0.1:{mcp}") as server:
        yield server


def definition(weather: Weather, **more: Any) -> dict[str, Any]:
    given = {"type": "http", "name": "weather", "description": "The weather.", "url": f"{weather.url}/weather"}
    return {**given, "parameters": PARAMETERS, "output": "told", **more}


def register(served: Serving, given: Any, **more: Any) -> Answer:
    return served.ask("POST", "/v1/tools", given, **more)


def chat(served: Serving, model: str = "open", **more: Any) -> Answer:
    asked = {"model": model, "messages": [{"role": "user", "content": "How is the weather in Lima?"}]}
    return served.ask("POST", "/v1/chat/completions", asked, **more)


def offered(engine: OpenAIServer, at: int = -1) -> list[str]:
    return [tool["function"]["name"] for tool in engine.asked[at].body.get("tools", [])]


def test_an_endpoint_is_a_tool_of_the_tenants_runs(served: Serving, engine: OpenAIServer, weather: Weather) -> None:
    made = register(served, definition(weather))
    assert made.status == 200
    assert (made.body["object"], made.body["names"]) == ("tool", ["weather"])
    engine.replies += [Said(calls=[("weather", {"city": "Lima"})]), "It is warm."]
    assert chat(served).body["choices"][0]["message"]["content"] == "It is warm."
    assert weather.asked == [{"city": "Lima"}]
    assert offered(engine) == ["Calculator", "weather"]
    assert engine.asked[-1].body["messages"][-1]["content"] == "21 degrees"


def test_an_mcp_servers_tools_are_those_it_had(served: Serving, engine: OpenAIServer, mcp: int) -> None:
    given = {"type": "mcp", "name": "fake", "url": f"http://127.0.0.1:{mcp}/mcp", "allowed_tools": ["add"]}
    made = register(served, given)
    assert made.status == 200, made.text
    assert made.body["names"] == ["fake_add"]
    engine.replies += [Said(calls=[("fake_add", {"a": 2, "b": 3})]), "It is warm."]
    assert chat(served).status == 200
    assert "fake_add" in offered(engine)
    assert "5" in engine.asked[-1].body["messages"][-1]["content"]


def test_other_tenants_and_agents_that_do_not_allow_it_have_none(
    served: Serving, engine: OpenAIServer, weather: Weather
) -> None:
    made = register(served, definition(weather)).body
    key = served.in_loop(served.database.write(lambda connection: create_key(connection, "others")))
    engine.replies += ["I do not know."] * 2
    for more in ({"model": "closed"}, {"key": key}):
        assert chat(served, **more).status == 200
        assert offered(engine) == ["Calculator"]
    assert served.ask("GET", "/v1/tools", key=key).body["data"] == []
    for method in ("GET", "DELETE"):
        assert served.ask(method, f"/v1/tools/{made['id']}", key=key).status == 404
    assert register(served, definition(weather), key=key).status == 200


def test_they_are_listed_deleted_and_there_after_a_restart(
    engine: OpenAIServer, weather: Weather, tmp_path: Path
) -> None:
    host = weather.url.removeprefix("http://")
    with serving(tmp_path, engine, host) as served:
        made = register(served, definition(weather)).body
        again = register(served, definition(weather))
        assert (again.status, again.error["param"]) == (400, "name")
    with serving(tmp_path, engine, host) as served:
        assert served.ask("GET", "/v1/tools").body["data"] == [made]
        assert served.ask("GET", f"/v1/tools/{made['id']}").body == made
        assert served.ask("DELETE", f"/v1/tools/{made['id']}").body["deleted"] is True
        assert served.ask("GET", "/v1/tools").body["data"] == []


def test_a_run_keeps_the_tools_with_which_it_began(served: Serving, engine: OpenAIServer, weather: Weather) -> None:
    made = register(served, definition(weather, approval=True)).body
    engine.replies += [Said(calls=[("weather", {"city": "Lima"})]), "It is warm."]
    said = chat(served).body["choices"][0]["message"]
    (call,) = said["tool_calls"]
    assert json.loads(call["function"]["arguments"])["tool"] == "weather"
    served.ask("DELETE", f"/v1/tools/{made['id']}")
    register(served, definition(weather, name="other"))
    messages = [
        {"role": "user", "content": "How is the weather in Lima?"},
        said,
        {"role": "tool", "tool_call_id": call["id"], "content": "approve"},
    ]
    answer = served.ask("POST", "/v1/chat/completions", {"model": "open", "messages": messages})
    assert answer.body["choices"][0]["message"]["content"] == "It is warm."
    assert weather.asked == [{"city": "Lima"}]
    assert offered(engine) == ["Calculator", "weather"]


HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"url": "http://127.0.0.1:9/x"}, "url"),
    ({"url": "http://169.254.169.254/latest"}, "url"),
    ({"url": "http://[::ffff:127.0.0.1]/"}, "url"),
    ({"url": "http://localhost/"}, "url"),
    ({"url": "http://2130706433/"}, "url"),
    ({"url": "https://user:pass@example.com/"}, "url"),
    ({"url": "file:///etc/passwd"}, "url"),
    ({"url": "ftp://example.com/"}, "url"),
    ({"url": "http://93.184.215.14/x?token=${user.secret:TOKEN}"}, "parameters"),
    ({"url": ""}, "url"),
    ({"url": "http://exa\r\nmple.com/"}, "url"),
    ({"name": "no-such name"}, "name"),
    ({"name": "Calculator"}, "name"),
    ({"name": "x" * 65}, "name"),
    ({"description": ""}, "description"),
    ({"description": "x" * 5_000}, "description"),
    ({"parameters": {"type": "array"}}, "parameters"),
    ({"parameters": {"type": "object", "required": ["a\nb"]}}, "parameters"),
    ({"parameters": {"type": "object", "description": "x" * 60_000}}, "parameters"),
    ({"timeout": 1e9}, "timeout"),
    ({"effects": "none"}, "effects"),
    ({"name": "file_search"}, "name"),
    ({"name": "code_interpreter"}, "name"),
    ({"code": "print(1)"}, "code"),
    ({"callable_api": "tools.py:run"}, "callable_api"),
    ({"command": "sh"}, "command"),
    ({"args": ["-c", "id"]}, "args"),
    ({"env": "conda"}, "env"),
    ({"pip_dependencies": "evil"}, "pip_dependencies"),
    ({"headers": {"Authorization": "x"}}, "headers"),
    ({"type": "function"}, ""),
    ({"type": "stdio", "command": "sh"}, ""),
]


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Serving, Weather]]:
    """A server that is only told what it refuses, and an endpoint that it may call."""
    folder = tmp_path_factory.mktemp("refusing")
    with (
        Weather() as weather,
        OpenAIServer() as engine,
        serving(folder, engine, weather.url.removeprefix("http://")) as served,
    ):
        yield served, weather


@pytest.mark.parametrize(("changed", "place"), HOSTILE)
def test_hostile_definitions(refusing: tuple[Serving, Weather], changed: Any, place: str) -> None:
    served, weather = refusing
    answer = register(served, definition(weather, **changed))
    assert answer.status == 400, answer.text
    assert place in (answer.error["param"] or "")
    assert served.ask("GET", "/v1/tools").body["data"] == []


MCP: list[dict[str, Any]] = [
    {"url": "http://127.0.0.1:9/mcp"},
    {"url": "http://169.254.169.254/mcp"},
    {"allowed_tools": ["nothing"]},
    {"command": "sh"},
    {"env": {"A": "b"}},
    {"headers": {"A": "b"}},
    {"name": "x" * 33},
]


@pytest.mark.parametrize("changed", MCP)
def test_hostile_servers(served: Serving, mcp: int, changed: Any) -> None:
    given = {"type": "mcp", "name": "fake", "url": f"http://127.0.0.1:{mcp}/mcp", **changed}
    assert register(served, given).status == 400
    assert served.ask("GET", "/v1/tools").body["data"] == []


def test_a_tool_that_leads_elsewhere_is_an_observation(served: Serving, engine: OpenAIServer, weather: Weather) -> None:
    register(served, definition(weather, url=f"{weather.url}/away"))
    engine.replies += [Said(calls=[("weather", {"city": "Lima"})]), "It failed."]
    assert chat(served).status == 200
    assert "redirects are not followed" in engine.asked[-1].body["messages"][-1]["content"]


def test_an_address_that_became_private_is_not_called(engine: OpenAIServer, weather: Weather, tmp_path: Path) -> None:
    with serving(tmp_path, engine, weather.url.removeprefix("http://")) as served:
        register(served, definition(weather))
    with serving(tmp_path, engine) as served:
        engine.replies += [Said(calls=[("weather", {"city": "Lima"})]), "It failed."]
        chat(served)
        assert "is not one of the web's" in engine.asked[-1].body["messages"][-1]["content"]
    assert weather.asked == []


def test_there_are_at_most_64(served: Serving, weather: Weather) -> None:
    for number in range(64):
        assert register(served, definition(weather, name=f"tool_{number}")).status == 200
    refused = register(served, definition(weather, name="one_more"))
    assert (refused.status, refused.error["code"]) == (400, "storage_limit_reached")


def test_registering_has_a_scope_of_its_own(served: Serving, weather: Weather) -> None:
    def key(*scopes: str) -> str:
        make = lambda connection: create_key(connection, "default", "", list(scopes))  # noqa: E731
        made: str = served.in_loop(served.database.write(make))
        return made

    assert register(served, definition(weather), key=key("read", "runs", "agents")).status == 403
    assert register(served, definition(weather), key=key("tools")).status == 200
    assert served.ask("GET", "/v1/tools", key=key("read")).status == 200


def test_a_file_says_which_agents_allow_it(tmp_path: Path) -> None:
    path = tmp_path / "agents.yml"
    path.write_text(
        "retinue: 1\nagents:\n"
        "  - {name: open, params: {script: [Hi], registered_tools: true}}\n"
        "  - {name: closed, params: {script: [Hi], workers: [hidden]}}\n"
        "  - {name: hidden, params: {script: [Hi], registered_tools: true}}\n"
    )
    assert Deployment.load(path).extensible == {"open"}


def test_large_definitions_are_taken_in_their_tenant_s_share(
    served: Serving, engine: OpenAIServer, weather: Weather
) -> None:
    """They are read and written whole by each run that begins."""
    engine.replies += ["Hello.", "Hello."]
    large = {"type": "object", "properties": {"a": {"type": "string", "description": "x" * 55_000}}}
    for name in ("one", "two"):
        assert register(served, definition(weather, name=name, parameters=large)).status == 200
    share: Shares = served.app.state.server.shares.large
    served.in_loop(share.acquire("default"))
    asked = {"model": "open", "input": "Hi", "background": True}
    response = served.ask("POST", "/v1/responses", asked).body["id"]
    assert chat(served, "closed").status == 200  # it was asked later
    assert served.ask("GET", f"/v1/responses/{response}").body["status"] in ("queued", "in_progress")
    assert len(engine.asked) == 2  # with the probe
    served.in_loop(_release(share))
    until(lambda: served.ask("GET", f"/v1/responses/{response}").body["status"] == "completed")
    assert offered(engine) == ["Calculator", "one", "two"]


async def _release(share: Shares) -> None:
    share.release("default")
