"""The rules of vendors, as their stand-ins enforce them: what is right passes, and what a rule wants is needed."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI
from pydantic import TypeAdapter

from fakes.app_server import KEY, Serving
from fakes.engines import SOON
from fakes.faithful import QUESTION, converse
from fakes.rule_breaking import BREAKS, Break, deeper
from fakes.served import serving
from fakes.until import until
from fakes.vendors import VENDORS, VendorServer
from retinue import Agent, PromptModel, fork, tool
from retinue.core.events import Called, Event
from retinue.errors import ModelNotFound, ModelRefused
from retinue.testing import SCRIPT, Refusal, Turn, Vendor
from sampling import every


def test_a_faithful_client_is_refused_nothing() -> None:
    for vendor in VENDORS.values():
        for model in vendor.models:
            with VendorServer(vendor.name) as server:
                answer = converse(server, model)
                assert (server.refusals, answer) == ([], SCRIPT[-1].text), (vendor.name, model)
                assert len(server.asked) == len(SCRIPT), (vendor.name, model)


def test_each_rule_is_broken_by_leaving_out_what_it_wants() -> None:
    for vendor in VENDORS.values():
        with VendorServer(vendor.name) as server:
            own = server.model
            for rule in vendor.rules:
                assert rule.wants, rule.name
                assert rule.source.startswith("https://"), rule.name
                ways = [one for one in BREAKS[rule.name] if _fits(one, vendor)]
                assert ways, (vendor.name, rule.name)
                for number, way in enumerate(ways):
                    server.tamper = deeper(way.change)
                    server.refusals.clear()
                    answer = converse(server, way.model or own)
                    assert (answer, [one.rule for one in server.refusals]) == (None, [rule.name]), (vendor.name, number)


def _fits(way: Break, vendor: Vendor) -> bool:
    """Whether a way of breaking a rule is one for this vendor."""
    return bool(re.match(way.vendor, vendor.name)) and way.model in ("", *vendor.models)


# ── Retinue's engines ────────────────────────────────────────────────────────────────────────────

ENGINES: Mapping[str, tuple[str, Mapping[str, Any]]] = {  # of stand-ins: the engine, and what a user writes
    "openai": ("openai", {"api": "responses"}),
    "openai-chat": ("openai", {"api": "chat", "effort": "none"}),
    "azure": ("azure", {}),
    "azure-chat": ("azure", {"api": "chat", "effort": "none"}),
    "xai-responses": ("xai", {"api": "responses"}),
    "xai": ("xai", {"api": "chat"}),
    "anthropic-vertex": ("vertex", {}),
    "gemini-chat": ("openai", {"api": "chat", "dialect": "openai"}),
}
LEARNED = {  # what a server's kind does not tell, and one refusal does
    "openai-chat": "reasoning models take no sampling", "azure-chat": "reasoning models take no sampling",
    "deepseek": "old reasoner wants no thoughts",
}  # fmt: skip


def refusals_of(server: VendorServer) -> list[Refusal]:
    """What was refused, but for one request of which something is learned."""
    found = list(server.refusals)
    if found and found[0].rule == LEARNED.get(server.vendor.name):
        del found[0]
    return found


def model(server: VendorServer, **settings: Any) -> PromptModel:
    """A model of the engine for this stand-in; it asks again without waiting long."""
    engine, own = ENGINES.get(server.vendor.name, (server.vendor.name, {}))
    if server.vendor.name in ("anthropic", "bedrock", "anthropic-vertex"):
        own = {"effort": "medium", **own}
    chosen = {"retries": SOON, "api_key": server.key, **own, **settings}
    return PromptModel(server.model, engine=engine, base_url=chosen.pop("base_url", server.url), **chosen)


@tool(effects="read")
def add(a: int, b: int) -> str:
    """Add two integers."""
    return f"{a + b}"


@tool(effects="read")
def look(what: str) -> str:
    """Look something up."""
    return f"{what} is a town."


STATELESS = {
    *("openai-chat", "azure-chat", "deepseek-chat", "deepseek-reasoner-r1", "gpt-4.1", "gemini-2.5-flash"),
    *("cohere", "ollama"),  # which know their turns by what they called
}  # fmt: skip
CALLS = [call for turn in SCRIPT for call in turn.calls]
EVENTS: TypeAdapter[list[Event]] = TypeAdapter(list[Event])
HAVE = list(VENDORS)
WAYS = [*product(("auto", "tool_calling"), (True, False))]  # the strategy, and whether replies are streamed


@pytest.fixture
def cases(full: bool) -> list[tuple[str, str, bool]]:
    """Each vendor, a strategy and whether replies are streamed: all of these with `--full`, else they take turns."""
    if full:
        return [(vendor, *way) for vendor in HAVE for way in WAYS]
    return [(vendor, *WAYS[at % len(WAYS)]) for at, vendor in enumerate(HAVE)]


@pytest.mark.matrix
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("strategy", ["auto", "tool_calling"])
@pytest.mark.parametrize("vendor", HAVE)
def test_a_run_in_the_library(vendor: str, strategy: str, stream: bool) -> None:
    for name in VENDORS[vendor].models:
        with VendorServer(vendor) as server:
            server.model = name
            result = Agent(model(server, stream=stream), [add, look], strategy=strategy).run(QUESTION)
            assert (refusals_of(server), result.answer) == ([], SCRIPT[-1].text), name
            assert calls_of(result.events) == CALLS, name
            assert are_known(server) or {vendor, name} & STATELESS, name


def are_known(server: VendorServer) -> bool:
    """Whether the vendor knows all calls of the last request by their ids; of others it would want nothing back."""
    sent = json.dumps(server.asked[-1].body)
    return sum(one in sent for one in server.asked[-1].issued) >= len(CALLS)


def calls_of(events: Sequence[Event]) -> list[tuple[str, Any]]:
    """The calls that were made, in order."""
    return [(one.action.tool, one.action.tool_input) for one in events if isinstance(one, Called)]


def test_each_vendors_words_for_what_went_wrong_are_understood() -> None:
    for vendor in HAVE:
        with VendorServer(vendor) as server:
            for kind in ("rate", "unavailable"):
                server.fail = [kind]
                answer = Agent(model(server), [add, look], strategy="tool_calling").run(QUESTION).answer
                assert answer == SCRIPT[-1].text, (vendor, kind)
            for kind, error in (("unknown_model", ModelNotFound), ("wrong_key", ModelRefused)):
                server.fail = [kind] * 9
                with pytest.raises(error) as raised:
                    model(server).run("Hello")
                assert raised.type is error, (vendor, kind, str(raised.value))
            assert {one.rule for one in server.refusals} >= {"rate", "unavailable", "unknown_model", "wrong_key"}, (
                vendor
            )


@tool(effects="read")
def tell(what: str) -> str:
    """Tell at length what something is."""
    return f"{what} is a town. " * 400


LONG = [*(Turn(f"What is {one}? ", calls=[("tell", {"what": one})]) for one in "ABC"), SCRIPT[-1]]
SHORT = 16_000  # bytes that a request may have
ASKED = [("helper", {"query": f"{QUESTION} Part {number}."}) for number in (1, 2)]
LEADS = [Turn("Somebody else knows. ", calls=ASKED[:1]), Turn("And again.", calls=ASKED[1:]), SCRIPT[-1]]


def supervisor(server: VendorServer, strategy: str, *, stream: bool) -> Agent:
    """Asks a worker twice, at the same vendor."""
    helper = Agent(model(server, stream=stream), [add, look], name="helper", strategy=strategy)
    return Agent(model(server, stream=stream), [helper], strategy=strategy)


def test_the_prompt_is_shortened_when_a_vendor_says_that_it_is_too_long(cases: list[tuple[str, str, bool]]) -> None:
    for vendor, strategy, stream in cases:
        with VendorServer(vendor, scripts=[LONG], window=SHORT) as server:
            result = Agent(model(server, stream=stream), [tell], strategy=strategy).run(QUESTION)
            assert result.answer == SCRIPT[-1].text, (vendor, server.refusals)
            assert {one.rule for one in refusals_of(server)} == {"too_long"}, vendor


@pytest.mark.full
def test_a_fork_goes_on_at_the_same_vendor_and_at_another(cases: list[tuple[str, str, bool]]) -> None:
    for vendor, strategy, stream in cases:
        other = HAVE[(HAVE.index(vendor) + 1) % len(HAVE)]
        with VendorServer(vendor) as server:
            agent = Agent(model(server, stream=stream), [add, look], strategy=strategy)
            result = agent.run(QUESTION)
            first = next(one.action.id for one in result.events if isinstance(one, Called))
            for step in (1, 2, 3):
                assert asyncio.run(fork(agent, result, step).finish()).answer == SCRIPT[-1].text, (
                    vendor,
                    server.refusals,
                )
                with VendorServer(other) as another:
                    there = model(another, stream=stream, base_url=another.url.replace("127.0.0.1", "localhost"))
                    moved = fork(Agent(there, [add, look], strategy=strategy), result, step)
                    assert asyncio.run(moved.finish()).answer == SCRIPT[-1].text, (vendor, other, another.refusals)
                    assert len(another.refusals) <= 1, (
                        vendor,
                        other,
                        another.refusals,
                    )  # of which something is learned
            asyncio.run(fork(agent, result, observations={first: "Six."}).finish())
            assert not refusals_of(server), vendor


def test_a_worker_and_its_supervisor_have_turns_of_their_own(cases: list[tuple[str, str, bool]]) -> None:
    for vendor, strategy, stream in cases:
        with VendorServer(vendor, scripts=[LEADS, SCRIPT]) as server:
            result = supervisor(server, strategy, stream=stream).run("Ask the helper.")
            assert (refusals_of(server), result.answer) == ([], SCRIPT[-1].text), vendor
            assert [calls_of(one) for one in result.children.values()] == [[*CALLS], [*CALLS]], vendor


def test_a_run_that_ended_between_call_and_result_is_resumed(cases: list[tuple[str, str, bool]]) -> None:
    for vendor, strategy, stream in cases:
        with VendorServer(vendor) as server:
            agent = Agent(model(server, stream=stream), [add, look], strategy=strategy)
            events = agent.run(QUESTION).events
            for at in [at for at, event in enumerate(events) if isinstance(event, Called)]:
                stored = EVENTS.validate_json(EVENTS.dump_json(list(events[: at + 1])))
                assert agent.resume(stored).answer == SCRIPT[-1].text, (vendor, at, server.refusals)
            assert not refusals_of(server), vendor


# ── on a server ──────────────────────────────────────────────────────────────────────────────────


def test_runs_on_a_server(tmp_path: Path, full: bool) -> None:
    with ExitStack() as stack:
        servers = {vendor: stack.enter_context(VendorServer(vendor)) for vendor in HAVE}
        ways = WAYS if full else [("tool_calling", True), ("auto", False)]
        agents = {
            f"{vendor} {strategy} {stream}": Agent(
                model(server, stream=stream), [add, look], strategy=strategy, name=f"{vendor} {strategy} {stream}"
            )
            for strategy, stream in ways
            for vendor, server in servers.items()
        }
        served = stack.enter_context(Serving(tmp_path, agents))
        client = stack.enter_context(OpenAI(base_url=f"{served.url}/v1", api_key=KEY, max_retries=0))

        def ask(name: str) -> tuple[str, str]:
            streamed: list[str] = []
            asked: list[Any] = [{"role": "user", "content": QUESTION}]
            for chunk in client.chat.completions.create(model=name, messages=asked, stream=True):
                streamed += [choice.delta.content or "" for choice in chunk.choices]
            return "".join(streamed), client.responses.create(model=name, input=QUESTION).output_text

        with ThreadPoolExecutor(8) as pool:
            for name, said in zip(agents, pool.map(ask, agents), strict=True):
                assert all(text.endswith(SCRIPT[-1].text) for text in said), (name, said)
                assert not any(turn.thought.strip() in text for turn in SCRIPT for text in said), (name, said)
        assert {vendor: refusals_of(server) for vendor, server in servers.items()} == {vendor: [] for vendor in HAVE}


@pytest.mark.full
def test_forks_short_prompts_and_teams_on_a_server(tmp_path: Path, cases: list[tuple[str, str, bool]]) -> None:
    with ExitStack() as stack:
        servers: dict[str, VendorServer] = {}
        agents: dict[str, Agent] = {}
        for vendor, strategy, stream in every(cases, 3, 0):  # of four ways for each vendor
            case = f"{vendor} {strategy} {stream}"
            for kind, given in (("fork", {}), ("short", {"scripts": [LONG], "window": SHORT})):
                server = servers[f"{case} {kind}"] = stack.enter_context(VendorServer(vendor, **given))
                agents[f"{case} {kind}"] = Agent(
                    model(server, stream=stream), [tell if given else add, look], strategy=strategy
                )
            server = servers[f"{case} team"] = stack.enter_context(VendorServer(vendor, scripts=[LEADS, SCRIPT]))
            agents[f"{case} team"] = supervisor(server, strategy, stream=stream)
        served = stack.enter_context(Serving(tmp_path, agents))
        client = stack.enter_context(OpenAI(base_url=f"{served.url}/v1", api_key=KEY, max_retries=0))

        def ask(name: str) -> str:
            response = client.responses.create(model=name, input="Ask the helper." if "team" in name else QUESTION)
            if "fork" in name:
                run = served.ask("POST", f"/v1/runs/run_{response.id[5:]}/fork", {"step": 1}).body["id"]
                until(lambda: served.ask("GET", f"/v1/runs/{run}").body["status"] in ("completed", "failed"))
                assert served.ask("GET", f"/v1/runs/{run}").body["status"] == "completed", (
                    name,
                    servers[name].refusals,
                )
            return response.output_text

        with ThreadPoolExecutor(8) as pool:
            said = dict(zip(agents, pool.map(ask, agents), strict=True))
        assert {name: text for name, text in said.items() if not text.endswith(SCRIPT[-1].text)} == {}
        refused = {name: {one.rule for one in refusals_of(server)} for name, server in servers.items()}
        assert refused == {name: {"too_long"} if "short" in name else set() for name in servers}


TOOLS = """
import pathlib, time

HERE = pathlib.Path(__file__).parent


def add(a, b):
    with (HERE / "called.txt").open("a") as file:
        file.write("x")
    while not (HERE / "go.txt").exists():
        time.sleep(0.02)
    return str(a + b)


def look(what):
    return what
"""


@pytest.mark.full
@pytest.mark.parametrize(("strategy", "stream"), WAYS)
def test_killed_between_call_and_result(tmp_path: Path, strategy: str, stream: bool) -> None:
    (tmp_path / "tables.py").write_text(TOOLS)
    with ExitStack() as stack:
        servers = {vendor: stack.enter_context(VendorServer(vendor)) for vendor in HAVE}
        server = stack.enter_context(serving(tmp_path, json.dumps(_file(servers, strategy, stream=stream))))
        with server.client() as client:
            begun = [
                client.responses.create(model=vendor, input=QUESTION, background=True, store=True).id
                for vendor in servers
            ]
            until(lambda: (tmp_path / "called.txt").exists() and (tmp_path / "called.txt").stat().st_size >= len(begun))
        server.kill()
        (tmp_path / "go.txt").touch()
        server.restart()
        with server.client() as client:
            until(lambda: all(client.responses.retrieve(one).status in ("completed", "failed") for one in begun))
            for vendor, one in zip(servers, begun, strict=True):
                said = client.responses.retrieve(one).output_text
                assert said.endswith(SCRIPT[-1].text), (vendor, said, servers[vendor].refusals)
        assert {vendor: refusals_of(server) for vendor, server in servers.items()} == {vendor: [] for vendor in HAVE}


def _file(servers: Mapping[str, VendorServer], strategy: str, *, stream: bool) -> dict[str, Any]:
    """The file of a deployment with an agent for each of the servers."""
    schemas = {"add": {"a": {"type": "int"}, "b": {"type": "int"}}, "look": {"what": {"type": "str"}}}
    tools = {
        name: {"description": name, "callable_api": f"tables.py:{name}", "args_schema": schema, "effects": "read"}
        for name, schema in schemas.items()
    }
    models, agents = [], []
    for vendor, server in servers.items():
        engine, own = ENGINES.get(vendor, (vendor, {}))
        given = {
            "engine": engine,
            "model_name_or_path": server.model,
            "base_url": server.url,
            "api_key": server.key,
            "stream": stream,
            **own,
        }
        models.append({"name": f"model of {vendor}", "type": "PromptModel", "params": given})
        agents.append(
            {
                "name": vendor,
                "params": {"model": f"model of {vendor}", "strategy": strategy, "tools": ["add", "look"]},
            }
        )
    return {"retinue": 1, "components": models, "tools": tools, "agents": agents}
