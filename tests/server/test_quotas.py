"""Quotas of tenants: enforced where runs begin, told in headers, counted once, and changed while the server runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from sqlalchemy import Connection

from fakes.app_server import Serving, upload
from fakes.openai_server import Answer, OpenAIServer, Request
from fakes.recount import bytes_differences, use_differences
from fakes.served import serving
from fakes.tenants import Customer
from fakes.until import until
from retinue import Agent, PromptModel, tool
from retinue.limits.amounts import parse_limit
from retinue.limits.quotas import DEFAULT, What, remove_limits, set_limits, standings
from retinue.net.retry import Retries
from retinue.server.metrics.process_metrics import QuotaCollector, quota_figures
from retinue.store.admin_transaction import read_only
from retinue.store.tables import usage_sums
from retinue.store.usage_sums import bytes_kept

CHAT = {"model": "agent-1", "messages": [{"role": "user", "content": "Hi"}], "store": True}
BEGINS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": CHAT,
    "/v1/responses": {"model": "agent-1", "input": "Hi"},
    "/a2a/agent-1/message:send": {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hi"}]}},
}


RELEASED = threading.Event()


@tool(effects="read")
async def look(what: int) -> str:
    """Look, until the test goes on."""
    while not RELEASED.is_set():  # noqa: ASYNC110 -- another thread sets it
        await asyncio.sleep(0.01)
    return f"seen {what}"


@pytest.fixture(scope="module")
def cutter() -> Iterator[OpenAIServer]:
    with OpenAIServer() as engine:
        yield engine


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def served(
    request: pytest.FixtureRequest, cutter: OpenAIServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Serving]:
    url = request.getfixturevalue("a_postgres").database() if request.param == "postgresql" else ""
    script: list[dict[str, Any]] = [
        {"when": "seen 1", "say": "I saw it."},
        {"when": "Look", "call": {"tool": "look", "input": {"what": 1}}},
        {"when": "", "say": "Hello."},
    ]
    one = Agent(PromptModel(engine="scripted", script=script), [look], name="agent-1", strategy="tool_calling")
    calls = [{"when": "Hello", "finish": "Done."}, {"when": "", "call": {"tool": "worker", "input": "Hi"}}]
    member = Agent(PromptModel(engine="scripted", script=[{"when": "", "finish": "Hello."}]), name="worker")
    boss = Agent(PromptModel(engine="scripted", script=calls), [member], name="boss", strategy="tool_calling")
    often = Retries(tries=3, first_wait=0.001)
    cut = Agent(PromptModel("m", base_url=cutter.url, api_key="k", retries=often), name="cut", strategy="tool_calling")
    with Serving(tmp_path_factory.mktemp("served"), {"agent-1": one, "boss": boss, "cut": cut}, url=url) as server:
        yield server


@pytest.fixture
def customer(served: Serving, request: pytest.FixtureRequest) -> Customer:
    return Customer(served, f"t-{abs(hash(request.node.nodeid)) % 10**9}")


def limit(served: Serving, tenant: str, **given: str) -> None:
    with served.database.engine.begin() as connection:
        for what, text in given.items():
            kind: What = what  # type: ignore[assignment]
            set_limits(connection, tenant, [parse_limit(kind, text)])


def used(served: Serving, customer: Customer) -> dict[str, int]:
    with served.database.engine.connect() as connection:
        return {one.limit.what: one.used for one in standings(connection, customer.tenant)}


def differences(served: Serving, customer: Customer, *found: Callable[[Connection], list[Any]]) -> list[Any]:
    """What is counted otherwise than stored, of a tenant: other tests leave that of others."""
    engine = served.database.engine
    at_once = "REPEATABLE READ" if engine.dialect.name == "postgresql" else "SERIALIZABLE"
    with engine.connect().execution_options(isolation_level=at_once) as connection:
        all_ = [one for look in found or (use_differences, bytes_differences) for one in look(connection)]
    return [one for one in all_ if one[0].startswith(customer.tenant)]


@pytest.mark.parametrize("path", BEGINS)
def test_a_run_more_than_the_quota_is_refused_whatever_the_api(served: Serving, customer: Customer, path: str) -> None:
    limit(served, customer.tenant, runs="1/day")
    said = {"headers": {"A2A-Version": "1.0"}}
    assert customer.ask("POST", path, BEGINS[path], **said).status == 200
    assert used(served, customer) == {"runs": 1}
    refused = customer.ask("POST", path, BEGINS[path], **said)
    assert refused.status == 429
    assert ("RESOURCE_EXHAUSTED" if "a2a" in path else "insufficient_quota") in refused.text
    assert "the quota of runs of this day is used up; it begins anew at " in refused.text
    limit(served, customer.tenant, runs="2/day")  # without a restart
    assert customer.ask("POST", path, BEGINS[path], **said).status == 200


def test_threads_and_forks_are_counted_too_and_a_refusal_leaves_nothing(served: Serving, customer: Customer) -> None:
    limit(served, customer.tenant, runs="2/month")
    assistant = customer.made("/v1/assistants", {"model": "agent-1"})["id"]
    asked = {"assistant_id": assistant, "thread": {"messages": [{"role": "user", "content": "Hi"}]}}
    run = customer.made("/v1/threads/runs", asked)["id"]
    until(lambda: customer.ask("GET", f"/v1/runs/{run}").body["status"] == "completed")
    assert customer.ask("POST", f"/v1/runs/{run}/fork", {"step": 0}).status == 200
    for path, given in ((f"/v1/runs/{run}/fork", {"step": 0}), ("/v1/threads/runs", asked)):
        refused = customer.ask("POST", path, given)
        assert (refused.status, refused.error["type"]) == (429, "insufficient_quota")
        assert int(refused.headers["retry-after"]) > 0
        assert refused.headers["x-should-retry"] == "false"
    assert len(customer.ask("GET", "/v1/runs").body["data"]) == 2
    assert used(served, customer) == {"runs": 2}


def test_tokens_of_members_count_once_and_the_sums_are_what_the_logs_say(served: Serving, customer: Customer) -> None:
    limit(served, customer.tenant, runs="9/day", tokens="1e6/day", cost="1/day")
    told = customer.made("/v1/chat/completions", {**CHAT, "model": "boss"})
    assert used(served, customer)["runs"] == 1
    assert used(served, customer)["tokens"] == told["usage"]["total_tokens"] > 0
    assert differences(served, customer) == []


def test_streams_that_are_cut_count(served: Serving, cutter: OpenAIServer, customer: Customer) -> None:
    limit(served, customer.tenant, tokens="1e6/day")
    asked, long = {**CHAT, "model": "cut"}, "It is a long answer. " * 20
    cutter.replies[:] = ["Short."]
    alone = customer.made("/v1/chat/completions", asked)["usage"]["total_tokens"]
    cutter.replies[:] = [Answer(long, cut=4_000), Answer(long, cut=4_000), "Short."]
    told = customer.made("/v1/chat/completions", asked)["usage"]["total_tokens"]
    assert told > 2 * alone
    assert used(served, customer)["tokens"] == alone + told
    cutter.replies[:] = [Answer(long, cut=4_000)] * 3
    assert customer.ask("POST", "/v1/chat/completions", asked).status >= 500
    assert used(served, customer)["tokens"] > alone + told + alone
    assert differences(served, customer) == []


def test_a_run_under_way_stops_before_its_next_request_once_the_quota_is_used_up(
    served: Serving, customer: Customer
) -> None:
    RELEASED.clear()
    limit(served, customer.tenant, tokens="1e6/day")
    until(lambda: "x-quota-limit-tokens" in customer.ask("GET", "/v1/models").headers)
    run = customer.made("/v1/responses", {"model": "agent-1", "input": "Look", "background": True})["id"]
    until(lambda: used(served, customer)["tokens"] > 0)  # its first request
    asked = used(served, customer)
    limit(served, customer.tenant, tokens=f"{asked['tokens']}/day")
    until(lambda: customer.ask("GET", "/v1/models").headers.get("x-quota-remaining-tokens") == "0")
    RELEASED.set()
    until(lambda: customer.ask("GET", f"/v1/responses/{run}").body["status"] not in ("queued", "in_progress"))
    said = customer.ask("GET", f"/v1/responses/{run}").body
    assert (said["status"], said["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert used(served, customer) == asked
    (stored,) = customer.ask("GET", "/v1/runs").body["data"]
    events = customer.ask("GET", f"/v1/runs/{stored['id']}/events?limit=100").text
    assert "token_budget_exceeded" in events.lower()
    assert "the quota of tokens of this day is used up" in events
    assert customer.ask("POST", "/v1/responses", BEGINS["/v1/responses"]).status == 429
    limit(served, customer.tenant, tokens="none")
    assert customer.ask("POST", "/v1/responses", BEGINS["/v1/responses"]).status == 200


def test_headers_and_the_list_say_what_is_left(served: Serving, customer: Customer) -> None:
    before = customer.ask("GET", "/v1/models")
    assert not [name for name in before.headers if name.lower().startswith("x-quota")]
    assert customer.ask("GET", "/v1/quotas").body == {"object": "list", "data": []}
    limit(served, customer.tenant, runs="3/day", cost="2.5/month", bytes="1kB")
    headers = until(
        lambda: said if "x-quota-limit-runs" in (said := customer.ask("GET", "/v1/models").headers) else None
    )
    assert headers is not None
    assert (headers["x-quota-limit-runs"], headers["x-quota-remaining-runs"]) == ("3", "3")
    assert headers["x-quota-remaining-cost"] == "2.5"
    assert headers["x-quota-limit-bytes"] == "1000"
    assert "x-quota-reset-bytes" not in headers
    assert headers["x-quota-reset-runs"]
    (runs, cost, kept) = customer.ask("GET", "/v1/quotas").body["data"]
    assert (runs["type"], runs["period"], runs["limit"], runs["used"], runs["remaining"]) == ("runs", "day", 3, 0, 3)
    assert cost["limit"] == 2.5
    assert (kept["period"], kept["resets_at"]) == (None, None)


def test_stored_bytes_are_a_level(served: Serving, customer: Customer) -> None:
    limit(served, customer.tenant, bytes="10B")
    first = upload(served, "a.txt", b"123456", key=customer.key)
    assert first.status == 200
    refused = upload(served, "b.txt", b"123456", key=customer.key)
    assert (refused.status, refused.error["code"]) == (429, "insufficient_quota")
    assert "retry-after" not in refused.headers
    assert used(served, customer) == {"bytes": 6}
    assert customer.ask("DELETE", f"/v1/files/{first.body['id']}").status == 200
    assert used(served, customer) == {"bytes": 0}
    assert upload(served, "b.txt", b"123456", key=customer.key).status == 200
    assert differences(served, customer) == []


LARGE = "x" * 300_000


def doors(customer: Customer) -> dict[str, tuple[str, Any]]:
    """What stores texts of 300 kB, by what they are."""
    customer.made("/v1/responses", {"model": "agent-1", "input": "Hi", "instructions": LARGE[:250_000]})
    run = customer.ask("GET", "/v1/runs").body["data"][0]["id"]
    exported = customer.ask("GET", f"/v1/runs/{run}/export").body
    exported["events"][0]["question"] = LARGE
    for event in exported["events"]:
        if event.pop("withheld", None) and event["kind"] == "asked":
            event["messages"] = []
    message = {"role": "user", "content": LARGE[:250_000]}
    conversation = customer.made("/v1/conversations", {})["id"]
    thread = customer.made("/v1/threads", {})["id"]
    return {
        "responses": ("/v1/responses", {"model": "agent-1", "input": LARGE}),
        "instructions": ("/v1/responses", {"model": "agent-1", "input": "Hi", "instructions": LARGE[:250_000]}),
        "chat completions": ("/v1/chat/completions", {**CHAT, "messages": [message]}),
        "conversations": ("/v1/conversations", {"items": [{"type": "message", **message}]}),
        "items": (f"/v1/conversations/{conversation}/items", {"items": [{"type": "message", **message}]}),
        "threads": ("/v1/threads", {"messages": [message]}),
        "messages": (f"/v1/threads/{thread}/messages", message),
        "assistants": ("/v1/assistants", {"model": "agent-1", "instructions": LARGE[:250_000]}),
        "imports": ("/v1/runs/import", exported),
        "forks": (f"/v1/runs/{run}/fork", {}),
    }


@pytest.mark.full
def test_texts_of_every_kind_count_where_they_are_written(served: Serving, customer: Customer) -> None:
    found = doors(customer)
    for what, (path, body) in found.items():
        before = used_bytes(served, customer)
        limit(served, customer.tenant, bytes=f"{before + 1_000_000}B")
        answers = [customer.ask("POST", path, body) for _ in range(9)]
        statuses = [one.status for one in answers]
        assert statuses[0] == 200, (what, statuses, answers[0].text[:300])
        assert statuses[-1] == 429, (what, statuses)
        assert before + 400_000 < used_bytes(served, customer) <= before + 1_000_000, what
    assert differences(served, customer) == []
    threads = customer.made("/v1/threads", {})["id"]
    assert customer.ask("DELETE", f"/v1/threads/{threads}").status == 200
    for one in customer.ask("GET", "/v1/chat/completions").body["data"]:
        assert customer.ask("DELETE", f"/v1/chat/completions/{one['id']}").status == 200
    path, body = found["chat completions"]
    assert customer.ask("POST", path, body).status == 200
    assert differences(served, customer, bytes_differences) == []


def used_bytes(served: Serving, customer: Customer) -> int:
    with served.database.engine.connect() as connection:
        return bytes_kept(connection, customer.tenant)


def test_the_default_is_for_tenants_without_their_own(served: Serving, customer: Customer) -> None:
    other = Customer(served, f"{customer.tenant}-other")
    limit(served, DEFAULT, runs="0/day")
    try:
        limit(served, other.tenant, runs="none")
        assert customer.ask("POST", "/v1/responses", BEGINS["/v1/responses"]).status == 429
        assert other.ask("POST", "/v1/responses", BEGINS["/v1/responses"]).status == 200
    finally:
        with served.database.engine.begin() as connection:
            remove_limits(connection, DEFAULT)
    assert customer.ask("POST", "/v1/responses", BEGINS["/v1/responses"]).status == 200


def test_a_tenant_sees_nothing_of_another_ones_quota(served: Serving, customer: Customer) -> None:
    other = Customer(served, f"{customer.tenant}-other")
    empty = other.ask("GET", "/v1/quotas").text
    limit(served, customer.tenant, runs="1/day")
    customer.ask("POST", "/v1/responses", BEGINS["/v1/responses"])
    assert other.ask("GET", "/v1/quotas").text == empty
    assert other.ask("POST", "/v1/responses", BEGINS["/v1/responses"]).status == 200


def test_metrics_are_of_tenants_with_a_quota_of_their_own(served: Serving, customer: Customer) -> None:
    limit(served, customer.tenant, runs="3/day", cost="0.5/month", bytes="none")

    def read() -> Any:
        with served.database.engine.connect() as connection:
            return quota_figures(connection)

    registry = CollectorRegistry()
    registry.register(QuotaCollector(read))
    text = generate_latest(registry).decode()
    assert f'retinue_quota_limit{{quota="runs_day",tenant="{customer.tenant}"}} 3.0' in text
    assert f'retinue_quota_limit{{quota="cost_month",tenant="{customer.tenant}"}} 0.5' in text
    assert f'retinue_quota_used{{quota="runs_day",tenant="{customer.tenant}"}} 0.0' in text
    assert f'quota="bytes",tenant="{customer.tenant}"' not in text


FILE = """
retinue: 1
components:
  - {{name: model, type: PromptModel, params: {{model_name_or_path: m, base_url: "{url}", api_key: k}}}}
agents:
  - {{name: agent-1, params: {{model: model, strategy: tool_calling, tools: [calculator]}}}}
"""


def looking(request: Request) -> Answer:
    """Two calculations, then the answer; before that, whether the engine calls tools is tried."""
    if request.body["tools"][0]["function"]["name"] == "add":
        return Answer(calls=[("add", {"a": 19, "b": 23})])
    done = sum(one["role"] == "tool" for one in request.body["messages"])
    return Answer(calls=[("calculator", {"expression": f"1+{done}"})]) if done < 2 else Answer("Red.")


POINTS = ["before asking:1", "before reply is written:1", "before asking:3", "before the end:1", "after the end:1"]


@pytest.mark.full
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_loses_and_doubles_nothing(tmp_path: Path, point: str) -> None:
    with OpenAIServer() as engine:
        engine.always = looking
        with serving(tmp_path, FILE.format(url=engine.url)) as server:
            server.stop()
            server.restart(RETINUE_CRASHPOINT=point)
            with server.client() as client:
                made = client.responses.create(model="agent-1", input="Hi", background=True)
                until(lambda: server.process.poll() is not None)
                server.kill()
                server.restart()
            with server.client() as client:
                until(lambda: client.responses.retrieve(made.id).status == "completed")
                tokens = client.responses.retrieve(made.id).usage
            (database,) = tmp_path.glob("*.db")
            with read_only(f"sqlite:///{database}") as connection:
                assert use_differences(connection) == []
                assert tokens is not None
                row = connection.execute(usage_sums.select()).one()
                assert (row.runs, row.tokens) == (1, tokens.total_tokens)
                assert bytes_kept(connection, "default") > 0
                assert bytes_differences(connection) == []
