"""A server that fails: what is asked again, what is not, and that no half of a reply passes for a whole one."""

from __future__ import annotations

import asyncio
import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from fakes.asking import chunks, chunks_async, reply, request, retries, shown
from fakes.openai_server import Answer, OpenAIServer, failure, html
from retinue import ModelError, ModelRefused, ModelUnavailable, PromptModel
from retinue.net.retry import Retries, TimeLimits

THREE = Retries(tries=3, first_wait=0.001)
ONCE = Retries(tries=1)
SOON = TimeLimits(connect=5.0, idle=0.1, total=5.0)

streamed_or_not = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


def model_at(server: OpenAIServer, **settings: Any) -> PromptModel:
    chosen: dict[str, Any] = {"retries": THREE, "dialect": "none"} | settings
    return PromptModel("m", base_url=server.url, **chosen)


def problem_with(model: PromptModel, kind: type[ModelError] = ModelRefused) -> str:
    with pytest.raises(kind) as raised:
        chunks(model)
    return str(raised.value)


# ── what is asked again ──────────────────────────────────────────────────────────────────────────

PASSING = {
    "429": failure(429, "slow down"),
    "408": failure(408),
    "500": failure(500, "oops"),
    "503": html(503),
    "529": failure(529, "overloaded"),
    "a page with status 200": html(200),
    "an error in place of a reply": Answer(body='{"error": {"message": "overloaded", "code": 503}}'),
    "not an object": Answer(body='["no"]'),
    "nothing": Answer(body=""),
    "no choices": Answer(choices=False),
    "no finish reason": Answer("half", finish=None, done=False),
    "a connection that breaks": Answer("half a reply", cut=90),
    "an answer that ends too early": Answer("half a reply", cut=90, then="end"),
}


@streamed_or_not
@pytest.mark.parametrize("answer", PASSING.values(), ids=PASSING)
def test_a_passing_failure_is_asked_again(server: OpenAIServer, answer: Answer, stream: bool) -> None:
    server.replies += [answer, answer, "whole"]
    seen = chunks(model_at(server, stream=stream))
    assert len(retries(seen)) == 2
    assert shown(seen) == "whole"
    assert server.asked[0].raw == server.asked[-1].raw


@streamed_or_not
@pytest.mark.parametrize("answer", PASSING.values(), ids=PASSING)
def test_a_failure_that_does_not_pass_is_an_error_after_the_last_try(
    server: OpenAIServer, answer: Answer, stream: bool
) -> None:
    server.replies += [answer] * 9
    with pytest.raises(ModelUnavailable):
        chunks(model_at(server, stream=stream))
    assert len(server.asked) == 3


@pytest.mark.parametrize("event", ["{not json", '{"error": {"message": "overloaded", "code": 503}}', '{"error": "no"}'])
def test_a_broken_event_in_a_stream_is_asked_again(server: OpenAIServer, event: str) -> None:
    server.replies += [Answer("never seen whole", event=event), "whole"]
    seen = chunks(model_at(server))
    assert len(retries(seen)) == 1
    assert shown(seen) == "whole"


@pytest.mark.parametrize(
    "body",
    [
        '{"base_resp": {"status_code": 1004, "status_msg": "no luck"}, "choices": null}',
        '{"code": 500, "msg": "no luck", "success": false}',
        '{"errors": [{"message": "no luck"}], "result": null}',
        '{"detail": "no luck"}',
    ],
)
def test_an_error_with_status_200_is_told(server: OpenAIServer, body: str) -> None:
    server.replies += [Answer(body=body)]
    assert problem_with(model_at(server, retries=ONCE), ModelUnavailable) == "the engine reports: no luck"


@streamed_or_not
def test_a_reply_without_content_is_an_empty_text(server: OpenAIServer, stream: bool) -> None:
    server.replies += [Answer(None)]
    assert reply(model_at(server, stream=stream)).text == ""


def test_a_server_that_is_still_loading_is_asked_again_what_it_is(server: OpenAIServer) -> None:
    server.loading = 2
    server.replies += ["hi"]
    seen = chunks(model_at(server, dialect=None))
    assert [retry.problem for retry in retries(seen)] == [f"{server.url}/v1 answered 503: Loading model"] * 2
    assert shown(seen) == "hi"


# ── what is not ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (failure(400, "the prompt is too long"), "answered 400: the prompt is too long"),
        (failure(404, "no model 'm'"), "/v1 has no model 'm'; there are: fake-model"),
        (failure(404, "no such page"), "answered 404: no such page"),
        (
            failure(400, "The requested model", code="model_not_supported"),
            "/v1 has no model 'm'; there are: fake-model",
        ),
        (failure(422, "bad"), "answered 422: bad"),
        (failure(403, "not for you"), "answered 403: not for you (is the API key right?)"),
        (failure(429, "You exceeded your quota", code="insufficient_quota"), "answered 429: You exceeded your quota"),
        (Answer(status=301, body="", headers={"Location": "http://elsewhere/"}), "answered 301: (no message)"),
        (Answer(status=400, body='{"detail": "wrong"}'), "answered 400: wrong"),
        (Answer(status=400, body='{"error": "wrong\\n  twice"}'), "answered 400: wrong twice"),
        (Answer(status=400, body='[{"error": {"message": "wrong", "code": 400}}]'), "answered 400: wrong"),
        (Answer(status=400, body='{"error": null, "message": "wrong"}'), "answered 400: wrong"),
        (Answer(status=400, body='{"error": "Bad Request", "message": "wrong"}'), "answered 400: wrong"),
        (Answer(status=400, body='{"errors": [{"message": "wrong"}]}'), "answered 400: wrong"),
        (Answer(status=400, body='{"code": 1210, "msg": "wrong"}'), "answered 400: wrong"),
        (Answer(status=400, body='{"error_code": 336, "error_msg": "wrong"}'), "answered 400: wrong"),
        (
            Answer(status=400, body='{"error": {"message": "Provider error", "metadata": {"raw": "wrong"}}}'),
            "answered 400: Provider error: wrong",
        ),
        (Answer(body='[{"error": {"message": "wrong", "code": 400}}]'), "the engine reports: wrong"),
        (Answer(body='{"error": {"message": "wrong", "code": "400"}}'), "the engine reports: wrong"),
        (
            Answer(body='{"choices": [{"finish_reason": "error", "error": {"message": "wrong", "code": 400}}]}'),
            "the engine reports: wrong",
        ),
        (Answer(body='{"error": {"message": "context size exceeded", "code": 400}}'), "reports: context size exceeded"),
        (Answer("x", event='{"error": {"message": "too long", "code": 400}}'), "the engine reports: too long"),
    ],
)
def test_a_refusal_is_final_and_says_why(server: OpenAIServer, answer: Answer, problem: str) -> None:
    server.replies += [answer]
    assert problem in problem_with(model_at(server))
    assert len(server.asked) == 1


KEY = "sk-very-secret-" + "x" * 20


def test_a_wrong_key_is_refused_without_being_repeated(server: OpenAIServer) -> None:
    server.api_key = "sk-right"
    problem = problem_with(model_at(server, api_key=KEY, dialect=None))
    assert "answered 401: Incorrect API key provided: ***. (is the API key right?)" in problem
    assert len(server.requests) == 1


@streamed_or_not
@pytest.mark.parametrize(
    "answer",
    [
        failure(400, f"{'.' * 490} {KEY}"),
        Answer(status=500, body=f"<p>{KEY}</p>"),
        Answer(body=f"<p>{KEY}</p>"),
        Answer(body=f"{'.' * 70} {KEY}"),
        Answer(body=f'{{"error": "{KEY}"}}'),
        Answer(body=f'{{"error": {{"message": "{"." * 290} {KEY}"}}}}'),
        Answer(body=f'["{KEY}"]'),
    ],
)
def test_no_error_repeats_any_of_the_key(server: OpenAIServer, answer: Answer, stream: bool) -> None:
    server.replies += [answer]
    assert "sk-" not in problem_with(model_at(server, api_key=KEY, retries=ONCE, stream=stream), ModelError)


@pytest.mark.parametrize(
    "event", [f'{{"error": {{"message": "{KEY}", "code": 400}}}}', f"no JSON: {KEY}", f'["{KEY}"]']
)
def test_no_event_of_a_stream_has_its_key_repeated(server: OpenAIServer, event: str) -> None:
    server.replies += [Answer("x", event=event)]
    assert "sk-" not in problem_with(model_at(server, api_key=KEY, retries=ONCE), ModelError)


# ── how long is waited ───────────────────────────────────────────────────────────────────────────


def wait_for(server: OpenAIServer, header: str, **settings: Any) -> float:
    server.replies += [failure(429, retry_after=header), "ok"]
    (retry,) = retries(chunks(model_at(server, **settings)))
    return retry.seconds


def test_an_engine_that_names_its_wait_is_believed(server: OpenAIServer) -> None:
    assert wait_for(server, "0.02") == 0.02
    assert wait_for(server, "0") == 0
    assert wait_for(server, "Wed, 21 Oct 2015 07:28:00 GMT") == 0


@pytest.mark.parametrize("header", ["soon", "-1", "nan", "inf", ""])
def test_an_unreadable_wait_is_not_believed(server: OpenAIServer, header: str) -> None:
    assert 0 <= wait_for(server, header) <= 0.001


FAR = format_datetime(datetime.now(UTC) + timedelta(days=2), usegmt=True)


@pytest.mark.parametrize("header", ["1000000000", "61", FAR], ids=["seconds", "a minute", "a date"])
def test_nobody_waits_longer_than_allowed(server: OpenAIServer, header: str) -> None:
    server.replies += [failure(429, "slow down", retry_after=header), "never asked for"]
    with pytest.raises(ModelUnavailable, match=r"slow down \(it asks to wait \d+ s, longer than the 60 s allowed\)"):
        chunks(model_at(server))
    assert len(server.asked) == 1


# ── time limits ──────────────────────────────────────────────────────────────────────────────────


@streamed_or_not
@pytest.mark.parametrize("answer", [Answer(hang=True), Answer("half", cut=60, then="hang")], ids=["at once", "midway"])
def test_a_server_that_says_nothing_more_is_given_up(server: OpenAIServer, answer: Answer, stream: bool) -> None:
    server.replies += [answer, "whole"]
    seen = chunks(model_at(server, limits=SOON, stream=stream))
    assert [retry.problem.rpartition("/")[2] for retry in retries(seen)] == ["completions did not answer in time"]
    assert shown(seen) == "whole"


def test_a_reply_that_drips_for_ever_is_given_up(server: OpenAIServer) -> None:
    server.replies += [Answer("x" * 10_000, piece=1, pause=0.02)]
    with pytest.raises(ModelUnavailable, match="did not answer in time"):
        chunks(model_at(server, limits=TimeLimits(idle=5.0, total=0.2), retries=ONCE))


def test_a_connection_that_nobody_accepts_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        address = full.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(address)
        url = "http://{}:{}".format(*address)
        limits = TimeLimits(connect=0.1, idle=5.0, total=5.0)
        with pytest.raises(ModelUnavailable, match="did not answer in time"):
            chunks(PromptModel("m", base_url=url, dialect="none", limits=limits, retries=ONCE))
        for one in waiting:
            one.close()


# ── connections ──────────────────────────────────────────────────────────────────────────────────


@streamed_or_not
@pytest.mark.parametrize("then", ["close", "end"])
def test_a_completion_cut_at_any_byte_is_never_taken_for_whole(server: OpenAIServer, stream: bool, then: Any) -> None:
    model = model_at(server, api="completions", stream=stream, retries=ONCE)
    server.replies += ["Hi é"]
    assert reply(model).text == "Hi é"

    async def at_every_byte() -> None:
        for cut in range(server.sent[-1]):
            server.replies[:] = [Answer("Hi é", cut=cut, then=then)]
            try:
                assert shown(await chunks_async(model, request())) == "Hi é"
            except ModelUnavailable:
                continue

    asyncio.run(at_every_byte())


def test_a_kept_connection_that_the_server_closed_is_no_failure(server: OpenAIServer) -> None:
    server.replies += ["1", Answer(drop=True), "2"]
    model = model_at(server)

    async def two() -> list[Any]:
        return [await chunks_async(model, request()) for _ in range(2)]

    first, second = asyncio.run(two())
    assert (shown(first), shown(second)) == ("1", "2")
    assert retries(second) == []


def test_a_server_that_always_hangs_up_is_an_error(server: OpenAIServer) -> None:
    server.replies += [Answer(drop=True)] * 9
    with pytest.raises(ModelUnavailable, match="broke off: ServerDisconnectedError"):
        chunks(model_at(server))


def test_a_server_that_is_not_there_is_an_error_that_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        url = "http://{}:{}".format(*unused.getsockname())
    with pytest.raises(ModelUnavailable, match=f"cannot connect to {url}/v1: Connection refused"):
        chunks(PromptModel("m", base_url=url, retries=THREE))


@pytest.mark.parametrize(
    "url", ["::::", "http://host:port", "http://[::1", "http://host:99999", "ftp://host", "http://."]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    assert "is not the address of a server (want http://host:port)" in problem_with(PromptModel("m", base_url=url))


def test_a_name_that_nobody_has_is_an_error_that_says_so() -> None:
    with pytest.raises(ModelUnavailable, match=r"cannot connect to http://nobody\.invalid/v1: "):
        chunks(PromptModel("m", base_url="nobody.invalid", retries=THREE))
