"""Cards of other servers, which may say anything."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from fakes.json_service import Asked, JSONService, Said
from retinue import A2AAgent, NotDone, StopReason, ToolError, UsageError
from retinue.teams.a2a_agent import RemoteCard, TaskReport, check_card, parse_report, read_report

pytestmark = pytest.mark.anyio
AT = "http://127.0.0.1:8000/.well-known/agent-card.json"
RPC: Mapping[str, Any] = {"url": "http://127.0.0.1:8000/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
CARD: Mapping[str, Any] = {"name": "Sample", "supportedInterfaces": [RPC]}


def with_url(url: str) -> dict[str, Any]:
    return {**CARD, "supportedInterfaces": [{**RPC, "url": url}]}


def test_what_is_read_from_a_card() -> None:
    keyed = {"k": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}}}
    grpc = {**RPC, "protocolBinding": "GRPC"}
    card = check_card(
        {**CARD, "capabilities": {"streaming": True}, "securitySchemes": keyed, "supportedInterfaces": [grpc, RPC]}, AT
    )
    assert card == RemoteCard("Sample", str(RPC["url"]), "JSONRPC", True, "X-Key")


@pytest.mark.parametrize(
    ("card", "problem"),
    [
        ([], "is not an agent's card"),
        ({}, "is not an agent's card"),
        ({"name": "x"}, "offers no interface"),
        ({**CARD, "supportedInterfaces": [{**RPC, "protocolVersion": "0.3"}]}, "offers JSONRPC 0.3"),
        ({**CARD, "supportedInterfaces": [{**RPC, "protocolBinding": "GRPC"}]}, "offers GRPC 1.0"),
        (
            {**CARD, "capabilities": {"extensions": [{"uri": "urn:x", "required": True}]}},
            "requires the extension 'urn:x'",
        ),
        (with_url("http://169.254.169.254/latest"), "leads elsewhere"),
        (with_url("http://127.0.0.1:8001/a2a"), "leads elsewhere"),
        (with_url("https://127.0.0.1:8000/a2a"), "leads elsewhere"),
        (with_url("http://127.0.0.1:8000@evil.example/"), "cannot be used"),
        (with_url("file:///etc/passwd"), "cannot be used"),
        (with_url(""), "cannot be used"),
        ({**CARD, "supportedInterfaces": "http://127.0.0.1:8000"}, "offers no interface"),
    ],
)
def test_a_card_that_lies_is_refused(card: Any, problem: str) -> None:
    with pytest.raises(NotDone, match=problem):
        check_card(card, AT)


def test_a_card_may_lead_to_a_host_that_is_allowed() -> None:
    elsewhere = with_url("https://agents.example:444/a2a")
    assert check_card(elsewhere, AT, ["agents.example:444"]).url == "https://agents.example:444/a2a"
    assert check_card(elsewhere, AT, ["agents.example"])
    with pytest.raises(NotDone, match=r"agents\.example:444"):
        check_card(elsewhere, AT, ["agents.example:443", "gents.example"])


@pytest.mark.parametrize("name", ["Host", "content-length", "X-Retinue-Callers", "A2A-Version", "a b", "x\r\ny", ""])
def test_a_card_does_not_choose_any_header(name: str) -> None:
    schemes = {"k": {"apiKeySecurityScheme": {"location": "header", "name": name}}}
    assert check_card({**CARD, "securitySchemes": schemes}, AT).key_header == ""


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.sampled_from([RPC["url"], "JSONRPC", "1.0"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*CARD, *RPC, "capabilities"]), inner),
    max_leaves=10,
)


@given(ANY | st.fixed_dictionaries({"name": ANY, "supportedInterfaces": ANY}, optional={"securitySchemes": ANY}))
@settings(max_examples=200, deadline=None)
def test_any_card_is_taken_or_refused(card: Any) -> None:
    with suppress(NotDone):
        assert check_card(card, AT).url.startswith("http://127.0.0.1:8000/")


@given(
    state=st.sampled_from(["working", "completed", "input-required"]), task=st.text(), context=st.text(), text=st.text()
)
def test_a_report_is_read_as_it_was_written(state: str, task: str, context: str, text: str) -> None:
    report = TaskReport(state, task, context, text)
    assert parse_report(str(report)) == report


@given(st.recursive(
    st.none() | st.text(max_size=5) | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from("task message status state parts text id artifacts statusUpdate".split()), inner
    ),
))  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_any_answer_is_a_report_or_an_error(result: Any) -> None:
    with suppress(ToolError):
        read_report(result)


class Liar(JSONService):
    """An agent with a card of its own choosing, that answers with `says`."""

    def __init__(self, card: Any, says: Any = None) -> None:
        super().__init__()
        self.card, self.says = card, says

    def answer(self, asked: Asked) -> Said:
        if asked.path.endswith("agent-card.json"):
            card = self.card(self.url) if callable(self.card) else self.card
            return 200, card, {}
        return 200, self.says, {}


def honest(url: str) -> dict[str, Any]:
    return with_url(f"{url}/a2a")


@pytest.mark.parametrize(
    ("card", "problem"),
    [
        (b"x" * 300_000, "more than 200,000 bytes"),
        (b"<html>", "not JSON"),
        (with_url("http://127.0.0.1:9/a2a"), "leads elsewhere"),
        ({}, "is not an agent's card"),
    ],
)
async def test_nothing_is_sent_to_who_lies(card: Any, problem: str) -> None:
    with Liar(card) as server:
        done = await A2AAgent(server.url, "sk-secret-0123456789").run_async("Hello")
        assert done.stop_reason is StopReason.ERROR
        assert problem in done.error
        assert server.url.removeprefix("http://") not in done.error
        assert {one.path for one in server.asked} == {"/.well-known/agent-card.json"}


@pytest.mark.parametrize(
    ("says", "problem"),
    [
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": -32004, "message": "Not\nnow."}}, "the agent refuses: Not now."),
        ({"jsonrpc": "2.0", "id": 1, "result": {"task": {"id": "1", "status": {"state": "DANCING"}}}}, "'DANCING'"),
        ({"jsonrpc": "2.0", "id": 1, "result": 5}, "neither a task nor a message"),
        ([1], "want an object"),
        (b"x" * 5_000_000, "more than 4,000,000 bytes"),
    ],
)
async def test_answers_that_are_none(says: Any, problem: str) -> None:
    with Liar(honest, says) as server:
        done = await A2AAgent(server.url, "sk-secret-0123456789").run_async("Hello")
        assert problem in done.error
        assert server.asked[-1].headers["A2A-Version"] == "1.0"
        assert server.asked[-1].headers["Authorization"] == "Bearer sk-secret-0123456789"


async def test_it_is_asked_with_the_users_own_credentials_but_for_its_card() -> None:
    said = {"jsonrpc": "2.0", "id": 1, "result": {"message": {"parts": [{"text": "Hi"}]}}}
    with Liar(honest, said) as server:
        agent = A2AAgent(server.url, headers={"X-Token": "${user.secret:TOKEN}"})
        assert (await agent.run_async("Hello", secrets={"TOKEN": "tok-0123456789"})).answer == "Hi"
        card, asked = server.asked
        assert ("X-Token" in card.headers, asked.headers["X-Token"]) == (False, "tok-0123456789")
        assert "the user of this run has no secret TOKEN" in (await agent.run_async("Hello", secrets={})).error


async def test_what_is_busy_is_asked_again_and_what_is_not_there_is_told() -> None:
    said = {"jsonrpc": "2.0", "id": 1, "result": {"message": {"parts": [{"text": "Hi"}]}}}
    with Liar(honest, said) as server:
        server.instead += [(503, {}, {"Retry-After": "0"})]
        assert (await A2AAgent(server.url).run_async("Hello")).answer == "Hi"
    done = await A2AAgent("http://127.0.0.1:9", seconds=5.0).run_async("Hello")
    assert done.error == "cannot connect to the other server: Connection refused (is it running?)"


def test_an_address_is_needed() -> None:
    with pytest.raises(UsageError, match="address of its server or its card"):
        A2AAgent("example.com")
