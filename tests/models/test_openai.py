"""The `openai` engine against a server that speaks OpenAI's wire format."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from typing import Any

import pytest

from fakes.asking import chunks_async, reply, request
from fakes.openai_server import Answer, OpenAIServer, failure
from retinue import Agent, Message, ModelRefused, PromptModel
from retinue.core.prompt import Prompt
from retinue.core.schema.patterns import Constraint, choice, print_gbnf, print_regex, seq
from retinue.core.values import Usage
from retinue.errors import WindowExceeded

APIS = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}
YES_OR_NO = Constraint(
    seq("Answer: ", choice("yes", "no")),
    {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False},
)

both_apis = pytest.mark.parametrize("api", APIS)
streamed_or_not = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


def model_at(server: OpenAIServer, name: str = "fake-model", **settings: Any) -> PromptModel:
    return PromptModel(name, base_url=server.url, **settings)


# ── the reply ────────────────────────────────────────────────────────────────────────────────────


@both_apis
@streamed_or_not
def test_text_and_usage_arrive(server: OpenAIServer, api: str, stream: bool) -> None:
    server.replies += [Answer("four words — «in all»", cached=2)]
    got = reply(model_at(server, api=api, stream=stream), request("three words here"))
    assert got.text == "four words — «in all»"
    assert got.usage == Usage(3, 5, 2, 1)
    assert got.finish == "stop"
    assert server.asked[0].path == APIS[api]


@both_apis
@streamed_or_not
def test_a_reply_cut_at_its_token_limit_says_so(server: OpenAIServer, api: str, stream: bool) -> None:
    server.replies += [Answer("too lo", finish="length")]
    got = reply(model_at(server, api=api, stream=stream), request(max_tokens=2))
    assert got.finish == "length"
    assert server.asked[0].body["max_tokens"] == 2


@streamed_or_not
def test_missing_usage_and_unknown_fields_do_no_harm(server: OpenAIServer, stream: bool) -> None:
    server.replies += [Answer("fine", usage=False, done=False, extra={"x_groq": {"id": 1}, "service_tier": None})]
    got = reply(model_at(server, stream=stream))
    assert (got.text, got.usage) == ("fine", Usage(requests=1))


def test_a_server_that_cannot_stream_is_understood(server: OpenAIServer) -> None:
    whole = {"choices": [{"message": {"content": "whole"}, "finish_reason": "stop"}]}
    server.replies += [Answer(body=json.dumps(whole))]
    assert reply(model_at(server)).text == "whole"


# ── stop words ───────────────────────────────────────────────────────────────────────────────────


@both_apis
@streamed_or_not
@pytest.mark.parametrize("honours", [True, False], ids=["honoured", "ignored"])
def test_a_reply_ends_before_a_stop_word(server: OpenAIServer, api: str, stream: bool, honours: bool) -> None:
    server.honours_stop = honours
    server.replies += ["one\nObservation: made up"]
    got = reply(model_at(server, api=api, stream=stream), request(stop=["\nObservation:", "\nQuestion:"]))
    assert (got.text, got.finish) == ("one", "stop")
    assert got.usage.requests == 1
    assert got.usage.input_tokens > 0
    assert server.asked[0].body["stop"] == ["\nObservation:", "\nQuestion:"]


@pytest.mark.parametrize("piece", [1, 2, 3, 5, 30])
def test_a_stop_word_may_arrive_in_pieces(server: OpenAIServer, piece: int) -> None:
    server.replies += [Answer("one\nObs\nObservation: made up", piece=piece)]
    assert reply(model_at(server), request(stop=["\nObservation:"])).text == "one\nObs"


def test_what_only_looks_like_a_stop_word_is_kept(server: OpenAIServer) -> None:
    server.replies += [Answer("one\nObserva", piece=3)]
    assert reply(model_at(server), request(stop=["\nObservation:"])).text == "one\nObserva"


# ── the key and the address ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("key", ["sk-right", "sk-right\n"])
def test_the_key_is_sent_as_a_bearer(server: OpenAIServer, key: str) -> None:
    server.api_key = "sk-right"
    server.replies += ["in"]
    assert reply(model_at(server, api_key=key)).text == "in"


def test_without_a_key_none_is_sent(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    server.replies += ["in"]
    reply(model_at(server))
    assert "Authorization" not in server.asked[0].headers


@pytest.mark.parametrize("form", ["{url}", "{url}/", "{url}/v1", "{url}/v1/", "{address}", "{address}/v1"])
def test_the_address_may_lack_its_version_and_its_scheme(server: OpenAIServer, form: str) -> None:
    server.replies += ["here"]
    address = form.format(url=server.url, address=server.url.removeprefix("http://"))
    assert reply(PromptModel("m", base_url=address)).text == "here"


# ── what kind of server it is ────────────────────────────────────────────────────────────────────


def asked_for_yes_or_no(server: OpenAIServer, **settings: Any) -> dict[str, Any]:
    server.replies += ["Answer: yes"]
    reply(model_at(server, **settings), request(stop=["\n"], constraint=YES_OR_NO))
    return server.asked[-1].body


def test_llamacpp_is_recognised_and_given_a_grammar(server: OpenAIServer) -> None:
    server.owned_by = "llamacpp"
    assert asked_for_yes_or_no(server)["grammar"] == print_gbnf(YES_OR_NO.pattern)
    assert server.asked[-1].path == "/v1/completions"
    assert asyncio.run(model_at(server).abilities()).constrains


def test_llamacpp_is_sent_a_conversation_as_turns_of_it(server: OpenAIServer) -> None:
    server.owned_by = "llamacpp"
    server.replies += ["Paris.", "Paris."]
    assert Agent(PromptModel(base_url=server.url), instructions="Be brief.").run("Where?").answer == "Paris."
    assert server.asked[-1].path == "/v1/chat/completions"
    roles = [message["role"] for message in server.asked[-1].body["messages"]]
    PromptModel(base_url=server.url).run([Message("user", "Where?")])
    assert (roles, server.asked[-1].path) == (["system", "user"], "/v1/chat/completions")


def test_vllm_is_recognised_and_given_a_regular_expression(server: OpenAIServer) -> None:
    server.owned_by = "vllm"
    assert asked_for_yes_or_no(server)["structured_outputs"] == {"regex": print_regex(YES_OR_NO.pattern)}
    assert asyncio.run(model_at(server).abilities()).constrains


def test_tgi_is_recognised_and_given_a_response_format(server: OpenAIServer) -> None:
    server.tgi, server.owned_by = True, None
    expected = {"type": "regex", "value": print_regex(YES_OR_NO.pattern)}
    assert asked_for_yes_or_no(server)["response_format"] == expected
    assert asyncio.run(model_at(server).abilities()).constrains


def test_openai_is_given_a_json_schema_and_no_stop_words(server: OpenAIServer) -> None:
    body = asked_for_yes_or_no(server, dialect="openai")
    schema = {"name": "reply", "schema": YES_OR_NO.schema, "strict": True}
    assert body["response_format"] == {"type": "json_schema", "json_schema": schema}
    assert "stop" not in body
    assert not asyncio.run(model_at(server, dialect="openai").abilities()).constrains


def test_a_schema_with_optional_parts_is_not_called_strict(server: OpenAIServer) -> None:
    loose = Constraint(YES_OR_NO.pattern, {"type": "object", "properties": {"a": {"type": "string"}}})
    server.replies += ["{}"]
    reply(model_at(server, dialect="openai"), request(constraint=loose))
    assert server.asked[-1].body["response_format"]["json_schema"]["strict"] is False


@pytest.mark.parametrize(("models", "page"), [(None, None), (["m"], None), (["m"], "<html>a user interface</html>")])
def test_of_an_unknown_server_nothing_is_asked(server: OpenAIServer, models: list[str] | None, page: str) -> None:
    server.models, server.page = models, page
    assert not {"grammar", "response_format", "structured_outputs"} & set(asked_for_yes_or_no(server))
    assert not asyncio.run(model_at(server).abilities()).constrains


def test_what_a_server_is_is_found_out_once(server: OpenAIServer) -> None:
    server.replies += ["a", "b"]
    model = model_at(server)
    reply(model)
    reply(model)
    assert [one.path for one in server.requests if one.method == "GET"] == ["/v1/models", "/info"]


def test_the_first_model_that_is_listed_is_the_default(server: OpenAIServer) -> None:
    server.models = ["first", "second"]
    server.replies += ["hi"]
    model = PromptModel(base_url=server.url)
    reply(model)
    assert model.name == server.asked[0].body["model"] == "first"


@pytest.mark.parametrize("models", [[], None])
def test_a_server_without_models_asks_for_a_name(server: OpenAIServer, models: list[str] | None) -> None:
    server.models = models
    with pytest.raises(ModelRefused, match="lists no models; name the one to use"):
        reply(PromptModel(base_url=server.url))


def test_an_endpoint_that_is_no_tgi_gets_a_schema_from_huggingface_and_one_that_is_a_pattern(
    server: OpenAIServer,
) -> None:
    assert asked_for_yes_or_no(server, engine="huggingface")["response_format"]["type"] == "json_schema"
    server.tgi, server.owned_by = True, None
    assert asked_for_yes_or_no(server, engine="huggingface")["response_format"]["type"] == "regex"


def test_completions_of_tgi_hold_to_nothing(server: OpenAIServer) -> None:
    server.tgi, server.owned_by = True, None
    assert "response_format" not in asked_for_yes_or_no(server, api="completions")
    assert not asyncio.run(model_at(server, api="completions").abilities()).constrains


@pytest.mark.parametrize(
    "chosen", [{"api": "completions"}, {"name": "text-davinci-003", "dialect": "openai"}], ids=["chosen", "named"]
)
def test_completions_know_no_tool_calls(server: OpenAIServer, chosen: dict[str, Any]) -> None:
    able = asyncio.run(model_at(server, **chosen).abilities(native=True))
    assert (able.calls_tools, able.problem) == (False, "its completions know no tool calls")
    assert server.asked == []


@pytest.mark.parametrize("name", ["text-davinci-003", "davinci-002", "gpt-3.5-turbo-instruct"])
@pytest.mark.parametrize("dialect", [None, "openai"])
def test_completion_models_are_asked_for_completions(server: OpenAIServer, name: str, dialect: str | None) -> None:
    server.replies += ["done"]
    reply(model_at(server, name, dialect=dialect), request("Once upon"))
    assert server.asked[0].path == "/v1/completions"
    assert server.asked[0].body["prompt"] == "Once upon"


# ── parameters a server does not know ────────────────────────────────────────────────────────────


def test_max_tokens_is_sent_under_the_name_that_is_wanted(server: OpenAIServer) -> None:
    server.unsupported = {"max_tokens": "max_completion_tokens"}
    server.replies += ["a", "b"]
    model = model_at(server)
    reply(model, request(max_tokens=7))
    reply(model, request(max_tokens=8))
    assert [one.body.get("max_completion_tokens") for one in server.asked] == [None, 7, 8]


@pytest.mark.parametrize("name", ["stop", "temperature", "stream_options", "response_format"])
def test_what_is_refused_is_left_out_and_remembered(server: OpenAIServer, name: str) -> None:
    server.unsupported = {name: ""}
    server.replies += ["one\ntwo", "one\ntwo"]
    model = model_at(server, dialect="tgi", temperature=0)
    wanted = request(stop=["\n"], constraint=YES_OR_NO)
    assert [reply(model, wanted).text for _ in range(2)] == ["one", "one"]
    assert [name in one.body for one in server.asked] == [True, False, False]


def test_a_window_that_is_exceeded_is_no_parameter_that_is_unknown(server: OpenAIServer) -> None:
    said = "'max_tokens' is too large: 9. This model's maximum context length is 4 tokens."
    server.replies += [failure(400, said), "ok"]
    model = model_at(server, dialect="vllm")
    with pytest.raises(WindowExceeded, match="is too large"):
        reply(model, request(max_tokens=9))
    reply(model, request(max_tokens=9))
    assert "max_tokens" in server.asked[-1].body


@pytest.mark.parametrize(
    ("api", "owned_by", "sent"),
    [
        ("chat", "openai", None),
        ("chat", "llamacpp", 2_000),
        ("completions", "openai", 1_024),
        ("completions", "llamacpp", 2_000),
    ],
)
def test_without_a_limit_a_reply_is_as_long_as_the_window_allows(
    server: OpenAIServer, api: str, owned_by: str, sent: int | None
) -> None:
    server.owned_by, server.window, server.replies = owned_by, 4_000, ["ok"]
    model = model_at(server, api=api)

    async def asked() -> None:
        await model.abilities()
        await model.run_async("Hello?")

    asyncio.run(asked())
    assert server.asked[-1].body.get("max_tokens") == sent


def test_what_cannot_be_left_out_is_an_error(server: OpenAIServer) -> None:
    server.unsupported = {"model": ""}
    with pytest.raises(ModelRefused, match="'model' is not supported"):
        reply(model_at(server))
    assert len(server.asked) == 1


def test_the_users_own_options_are_sent_as_they_are(server: OpenAIServer) -> None:
    server.replies += ["a"]
    reply(model_at(server, temperature=0.5, options={"top_p": 0.9, "seed": 7}))
    body = server.asked[0].body
    assert (body["temperature"], body["top_p"], body["seed"]) == (0.5, 0.9, 7)


def test_an_option_that_is_refused_is_an_error_and_not_dropped(server: OpenAIServer) -> None:
    server.unsupported = {"seed": ""}
    with pytest.raises(ModelRefused, match="'seed' is not supported"):
        reply(model_at(server, options={"seed": 7}))


# ── growing prompts ──────────────────────────────────────────────────────────────────────────────


@both_apis
def test_an_extended_prompt_is_sent_with_the_bytes_of_the_former_in_front(server: OpenAIServer, api: str) -> None:
    server.replies += ["a"] * 4
    model = model_at(server, api=api)
    prompt = Prompt(Message("system", 'Rules «"\\» \x07\n'))
    prompts = [prompt]
    for text in ("Question: 1\n", "reply\n", "Observation: é\ud800🙂\n"):
        prompts.append(prompts[-1].add(Message("user", text)))
    for one in prompts:
        reply(model, request(one))
    opening = b'"messages": [' if api == "chat" else b'"prompt": "'
    sent = [one.raw[one.raw.index(opening) :].removesuffix(b"}").rstrip(b']"') for one in server.asked]
    assert all(after.startswith(before) for before, after in pairwise(sent))
    body = server.asked[-1].body
    contents = [message["content"] for message in body["messages"]] if api == "chat" else body["prompt"]
    expected = [message.content.replace("\ud800", "?") for message in prompts[-1].messages]
    assert contents == ([text.strip() for text in expected] if api == "chat" else "".join(expected))


@both_apis
def test_two_prompts_with_the_same_beginning_do_not_mix(server: OpenAIServer, api: str) -> None:
    server.replies += ["a"] * 3
    model = model_at(server, api=api)
    root = Prompt(Message("system", "root\n"))
    left, right = root.add(Message("user", "left\n")), root.add(Message("user", "right\n"))
    for prompt in (root, left, right):
        reply(model, request(prompt))
    assert [b"left" in one.raw for one in server.asked] == [False, True, False]
    assert [b"right" in one.raw for one in server.asked] == [False, False, True]


# ── several at once ──────────────────────────────────────────────────────────────────────────────


def test_replies_at_the_same_time_do_not_mix(server: OpenAIServer) -> None:
    server.replies += ["a" * 400, "b" * 400]
    model = model_at(server, dialect="none")

    async def two() -> list[Any]:
        return await asyncio.gather(*(chunks_async(model, request()) for _ in range(2)))

    assert sorted(seen[-1].text for seen in asyncio.run(two())) == ["a" * 400, "b" * 400]
