"""The embedded model: in this process, and behind a llama.cpp server of its own."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from fakes.asking import chunks, chunks_async, reply, request
from fakes.llamacpp import address, llamacpp_server
from retinue import DataError, Delta, Message, ModelRefused, ModelUnavailable, PromptModel, UsageError
from retinue.core.prompt import Prompt
from retinue.core.schema.patterns import Constraint, choice, print_regex, seq
from retinue.core.values import Reply
from retinue.models import Retries, TimeLimits, local

pytestmark = pytest.mark.model

COLOUR = Constraint(seq("Colour: ", choice("red", "green", "blue"), "!"), {})
SKY = "What colour is grass?\n"


needs_linux = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs Linux to find the ports")


def ports_of_this_process() -> list[int]:
    """The TCP ports on which this process listens."""
    mine = {str(fd.readlink()) for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()}
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [int(line[1].split(":")[1], 16) for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in mine]


@pytest.fixture(scope="module")
def model(embedded_model: Path) -> PromptModel:
    return PromptModel("local")


def test_a_reply_obeys_its_pattern(model: PromptModel) -> None:
    got = reply(model, request(SKY, constraint=COLOUR))
    assert re.fullmatch(print_regex(COLOUR.pattern), got.text)
    assert got.finish == "stop"
    assert got.usage.input_tokens > 3
    assert got.usage.output_tokens > 2


def test_it_holds_every_reply_to_a_pattern(model: PromptModel) -> None:
    assert asyncio.run(model.abilities()).constrains


def test_a_reply_ends_before_a_stop_word_and_streams_until_there(model: PromptModel) -> None:
    seen = chunks(model, request("Count: one two three four five\nCount: one two three", stop=[" five"], max_tokens=8))
    assert sum(isinstance(chunk, Delta) for chunk in seen) >= 1
    assert isinstance(seen[-1], Reply)
    assert (seen[-1].text, seen[-1].finish) == (" four", "stop")


def test_a_reply_is_cut_at_its_token_limit(model: PromptModel) -> None:
    got = reply(model, request("Count: one two three", max_tokens=2))
    assert (got.finish, got.usage.output_tokens) == ("length", 2)


def test_the_same_question_gives_the_same_words(model: PromptModel) -> None:
    once, again = (reply(model, request(SKY, max_tokens=6)) for _ in range(2))
    assert once.text == again.text


def test_only_what_is_new_in_an_extended_prompt_is_read(model: PromptModel) -> None:
    prompt = Prompt(Message("user", "The quick brown fox jumps over the lazy dog and the sleeping cat.\n"))
    first = reply(model, request(prompt, max_tokens=1))
    second = reply(model, request(prompt.add(Message("user", "Then it rests.\n")), max_tokens=1))
    assert second.usage.input_tokens > first.usage.input_tokens
    assert second.usage.cached_tokens >= first.usage.input_tokens - 2


def test_two_models_asked_at_once_both_answer(model: PromptModel) -> None:
    async def both() -> list[str]:
        asked = request(SKY, constraint=COLOUR)
        answers = await asyncio.gather(*(chunks_async(one, asked) for one in (model, PromptModel("local"))))
        return [chunk.text for seen in answers for chunk in seen[-1:] if isinstance(chunk, Reply)]

    first, second = asyncio.run(both())
    assert first == second
    assert re.fullmatch(print_regex(COLOUR.pattern), first)


@needs_linux
def test_models_with_the_same_file_share_it_also_when_they_load_at_once(
    model: PromptModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETINUE_THREADS", "2")  # however busy the machine is
    asyncio.run(model.abilities())
    before = set(ports_of_this_process())
    twins = [PromptModel("local", context=512) for _ in range(2)]

    async def both() -> None:
        await asyncio.gather(*(twin.run_async(SKY, max_tokens=1) for twin in twins))

    asyncio.run(both())
    assert len(set(ports_of_this_process()) - before) == 1  # of those before, one that is not used may have made room


def test_a_model_stays_loaded_however_many_others_are(model: PromptModel) -> None:
    others = [PromptModel("local", context=context) for context in (256, 768)]
    for one in (model, *others, model):
        assert one.run(SKY, max_tokens=1).usage.output_tokens == 1


def test_the_model_may_be_asked_without_a_loop(model: PromptModel) -> None:
    assert model.run(SKY, max_tokens=1).usage.output_tokens == 1


def test_a_damaged_file_is_one_clear_error(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(b"GGUF" + bytes(1000))
    with pytest.raises(ModelRefused, match=r"damaged\.gguf cannot be loaded: .*\(is it a complete GGUF file\?\)"):
        PromptModel(str(damaged)).run("?")
    damaged.write_bytes(b"")
    with pytest.raises(DataError, match=r"damaged\.gguf is damaged or not a GGUF file \(0 bytes\)"):
        PromptModel(str(damaged))


@needs_linux
@pytest.mark.parametrize("path", ["/v1/completions", "/completion", "/v1/chat/completions", "/tokenize", "/slots"])
def test_nobody_else_can_use_the_model_over_its_port(model: PromptModel, path: str) -> None:
    async def statuses() -> list[int]:
        await model.abilities()
        found = []
        async with aiohttp.ClientSession() as session:
            for port in ports_of_this_process():
                async with session.post(f"http://127.0.0.1:{port}{path}", json={"prompt": "Hi"}) as response:
                    found.append(response.status)
        return found

    found = asyncio.run(statuses())
    assert found
    assert set(found) == {401}


# ── behind a server of its own ───────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def llamacpp(embedded_model: Path) -> Iterator[str]:
    """The address of a llama.cpp server with the embedded model."""
    with llamacpp_server(embedded_model) as process:
        yield address(process)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_llamacpp_server_is_recognised_and_obeys_a_pattern(llamacpp: str, stream: bool) -> None:
    server = PromptModel(base_url=llamacpp, stream=stream)
    got = reply(server, request(SKY, constraint=COLOUR))
    assert re.fullmatch(print_regex(COLOUR.pattern), got.text)
    assert got.usage.output_tokens > 2
    assert asyncio.run(server.abilities()).constrains


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_llamacpp_server_stops_at_a_stop_word(llamacpp: str, stream: bool) -> None:
    asked = request("Count: one two three four five\nCount: one two three", stop=[" five"], max_tokens=8)
    assert reply(PromptModel(base_url=llamacpp, stream=stream), asked).text == " four"


def test_a_llamacpp_server_can_chat(llamacpp: str) -> None:
    got = reply(PromptModel(base_url=llamacpp, api="chat"), request("Say yes.", max_tokens=2))
    assert got.text


def test_the_time_limits_one_sets_hold_for_the_embedded_model(embedded_model: Path) -> None:
    model = PromptModel("local", limits=TimeLimits(total=0.05), retries=Retries(tries=1))
    with pytest.raises(ModelUnavailable, match="did not answer in time"):
        model.run("Count to a hundred.", max_tokens=200)


# ── threads ──────────────────────────────────────────────────────────────────────────────────────


class Load:
    """What is said of other programs."""

    crowded = False

    def is_crowded(self) -> bool:
        return self.crowded


def test_a_new_prompt_beside_a_busy_program_gets_half_the_threads(
    embedded_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load, asked = Load(), list[int]()
    server = local._start_server

    def noted(path: Path, context: int, threads: int, process: int) -> local.RunningServer:
        asked.append(threads)
        return server(path, context, threads, process)

    monkeypatch.setattr(local, "_LOAD", load)
    monkeypatch.setattr(local, "list_own_cores", lambda: {0, 1})
    monkeypatch.setattr(local, "_start_server", noted)
    shared = PromptModel("local")
    begun = Prompt(Message("user", "Count: one two"))
    assert reply(shared, replace(request("-", max_tokens=2), prompt=begun)).text
    load.crowded = True
    longer = begun.add(Message("user", " three"))
    assert reply(shared, replace(request("-", max_tokens=2), prompt=longer)).usage.cached_tokens > 0
    assert asked == [2]
    assert reply(shared, request(SKY, max_tokens=2)).text
    assert asked == [2, 1]


@pytest.mark.parametrize("fixed", ["0", "two", "-1", "513"])
def test_a_number_of_threads_that_is_none(monkeypatch: pytest.MonkeyPatch, embedded_model: Path, fixed: str) -> None:
    monkeypatch.setenv("RETINUE_THREADS", fixed)
    with pytest.raises(UsageError, match=rf"RETINUE_THREADS='{fixed}': want a number of threads, from 1 to 512"):
        reply(PromptModel("local"), request(SKY))
