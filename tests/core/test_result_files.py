"""Files that tools return: they reach a model that can read them byte for byte, on each wire; others are told so."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from fakes.engines import ENGINES, PROBED, model
from fakes.pictures import png
from fakes.scripted_server import Answer, Request
from retinue import Agent, Message, PromptModel, UsageError, tool
from retinue.core.events import Event, Finished, Observed
from retinue.core.files import read_file
from retinue.core.serialization import from_json, to_json

RED, BLUE = png(), png(3, 3, b"\x00\x00\xff")
PDF = b"%PDF-1.4\n1 0 obj <<>> endobj\ntrailer <<>>\n%%EOF\n"
WAV = b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x80\x3e\0\0\x02\0\x10\0data\0\0\0\0"
ALL = ["image", "pdf", "audio"]


@tool(effects="read")
def look(what: str) -> Any:
    """Return a file."""
    return {"red": RED, "pdf": [read_file(PDF, name="report.pdf"), "See page 1."], "sound": {"recorded": WAV}}[what]


def calls(*what: str) -> list[Answer]:
    return [Answer(calls=[("look", {"what": one}) for one in what]), Answer("Done.")]


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def of_chat(*files: bytes) -> list[dict[str, Any]]:
    """What follows the results of `look` in OpenAI's format."""
    parts: dict[bytes, dict[str, Any]] = {
        RED: {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{b64(RED)}"}},
        PDF: {
            "type": "file",
            "file": {"filename": "report.pdf", "file_data": f"data:application/pdf;base64,{b64(PDF)}"},
        },
        WAV: {"type": "input_audio", "input_audio": {"data": b64(WAV), "format": "wav"}},
    }
    return [{"type": "text", "text": "(The files of the results above.)"}, *(parts[one] for one in files)]


def test_openai_chat_is_sent_them_in_a_users_message_after_all_results() -> None:
    with ENGINES["openai"]() as server:
        server.replies += [PROBED, *calls("red", "pdf", "sound")]
        result = Agent(model(server, sees=ALL), [look], strategy="tool_calling").run("Look.")
        assert result.answer == "Done."
        *_, asked, one, two, three, files = server.asked[-1].body["messages"]
        assert (asked["role"], [one["role"], two["role"], three["role"]]) == ("assistant", ["tool"] * 3)
        assert one["content"] == f"(image/png, {len(RED)} bytes)"
        assert json.loads(two["content"]) == [f"(report.pdf, application/pdf, {len(PDF)} bytes)", "See page 1."]
        assert files == {"role": "user", "content": of_chat(RED, PDF, WAV)}


def test_anthropic_is_sent_them_in_the_result() -> None:
    with ENGINES["anthropic"]() as server:
        server.replies += [PROBED, *calls("red", "pdf")]
        Agent(model(server), [look], strategy="tool_calling").run("Look.")
        one, two = server.asked[-1].body["messages"][-1]["content"]
        source = {"type": "base64", "media_type": "image/png", "data": b64(RED)}
        assert one["content"][1:] == [{"type": "image", "source": source}]
        source = {"type": "base64", "media_type": "application/pdf", "data": b64(PDF)}
        assert two["content"][1:] == [{"type": "document", "source": source, "title": "report.pdf"}]


def test_ollama_is_sent_images_after_the_results() -> None:
    with ENGINES["ollama"]() as server:
        server.sees = True
        server.replies += [PROBED, *calls("red", "pdf")]
        Agent(model(server), [look], strategy="tool_calling").run("Look.")
        *_, told, files = server.asked[-1].body["messages"]
        assert told["content"].endswith("(application/pdf: you cannot read it)")
        assert (files["role"], files["images"]) == ("user", [b64(RED)])


@pytest.mark.parametrize("engine", ENGINES)
def test_a_model_that_cannot_read_them_is_told_so(engine: str) -> None:
    with ENGINES[engine]() as server:
        server.replies += [PROBED, *calls("red", "pdf")]
        result = Agent(model(server, sees=False), [look], strategy="tool_calling").run("Look.")
        assert result.answer == "Done."
        sent = json.dumps(server.asked[-1].body)
        assert "(image/png: you cannot read it)" in sent
        assert "(application/pdf: you cannot read it)" in sent
        assert not {b64(one) for one in (RED, PDF)} & set(re.findall(r"[A-Za-z0-9+/=]{40,}", sent))


@pytest.mark.parametrize("strategy", ["react", "react_json", "self_ask"])
@pytest.mark.parametrize("sees", [True, False])
def test_text_formats_show_them_too(strategy: str, sees: bool) -> None:
    texts = {
        "react": "Thought: I look.\nAction: look\nAction Input: red",
        "react_json": '{"thought": "I look.", "action": "look", "action_input": {"what": "red"}}',
        "self_ask": "Yes.\nFollow up: red",
    }

    def said(request: Request) -> Answer:
        return Answer("Final Answer: red") if "image/png" in json.dumps(request.body) else Answer(texts[strategy])

    with ENGINES["openai"]() as server:
        server.always = said
        agent = Agent(model(server, sees=sees), [look], strategy=strategy, max_steps=3)
        if any(isinstance(one, Observed) for one in agent.run("Look.").events):
            last = json.dumps(server.asked[-1].body["messages"])
            assert (b64(RED) in last, "you cannot read it" in last) == (sees, not sees)
        else:
            pytest.fail(f"no call: {server.asked[-1].body}")


@pytest.mark.parametrize("engine", ["openai", "anthropic"])
def test_the_same_file_of_two_steps_is_in_both_results(engine: str) -> None:
    with ENGINES[engine]() as server:
        server.replies += [PROBED, *(Answer(calls=[("look", {"what": "red"})]) for _ in range(2)), Answer("Done.")]
        agent = Agent(model(server, sees=True), [replace(look, polls=True)], strategy="tool_calling")
        assert agent.run("Look.").answer == "Done."
        kinds = [kinds_in(one) for one in server.asked[-1].body["messages"]]
        files = ["text", "image_url"] if engine == "openai" else ["image"]
        assert kinds.count(files) == 2
        assert kinds[-1] == files


def kinds_in(message: dict[str, Any]) -> list[str]:
    """The types of a message's parts, for Anthropic of those in a result that are no text."""
    parts = message.get("content") or []
    if isinstance(parts, str):
        return []
    inner = [part for one in parts if one["type"] == "tool_result" for part in one["content"]]
    return [one["type"] for one in inner if one["type"] != "text"] or [one["type"] for one in parts]


def test_the_same_file_of_two_steps_is_shown_after_both_in_a_text_format() -> None:
    action = "Thought: I look.\nAction: look\nAction Input: red"
    with ENGINES["openai"]() as server:
        server.replies += [action, action, action, "Final Answer: red"]
        agent = Agent(model(server, sees=True), [replace(look, polls=True)], strategy="react")
        assert agent.run("Look.").answer == "red"
        asked = [sum(kinds_in(one).count("image_url") for one in one.body["messages"]) for one in server.asked]
        assert asked[-4:] == [0, 1, 2, 3]


def without_bytes(log: Sequence[Event]) -> list[Event]:
    return [from_json(to_json(one)) for one in log]


def test_a_log_names_them_and_goes_on_when_it_is_given_them() -> None:
    with ENGINES["openai"]() as server:
        server.replies += [PROBED, *calls("red", "pdf"), "Again.", "Again."]
        agent = Agent(model(server, sees=ALL), [look], strategy="tool_calling")
        result = agent.run("Look.")
        log = [one for one in result.events if not isinstance(one, Finished)][:-1]
        seen = [one.observation for one in log if isinstance(one, Observed)]
        assert {file.data for one in seen for file in one.files} == {RED, PDF}
        stored = without_bytes(log)
        assert all(b64(one) not in "".join(map(to_json, stored)) for one in (RED, PDF))
        assert agent.resume(stored, files=[RED, PDF]).answer == "Again."
        assert server.asked[-1].body["messages"][-1]["content"] == of_chat(RED, PDF)
        assert server.asked[-1].body == server.asked[-2].body
        lost = agent.resume(stored)
        assert "are not at hand: pass it again, in files=" in lost.error


@tool(effects="read")
def flood(count: int) -> list[bytes]:
    """Return many files."""
    return [png(2, 2 + at) for at in range(count)]


def test_they_are_bounded() -> None:
    with ENGINES["openai"]() as server:
        many = Answer(calls=[("flood", {"count": 12}), ("flood", {"count": 11}), ("flood", {"count": 13})])
        server.replies += [PROBED, many, Answer("Done.")]
        Agent(model(server, sees=True), [flood], strategy="tool_calling").run("Look.")
        *_, one, two, three, files = server.asked[-1].body["messages"]
        assert one["content"].count("not shown: a result has at most 10 files") == 2
        assert len(files["content"]) == 1 + 20
        assert "were too many before" not in two["content"]
        assert three["content"].endswith("(Its files are not shown: there were too many before.)")


@pytest.mark.parametrize(("kind", "data"), [("pdf", PDF), ("audio", WAV), ("image", RED)])
def test_what_a_model_cannot_read_is_refused_in_a_question(kind: str, data: bytes) -> None:
    words = {"pdf": "read PDFs", "audio": "hear sounds", "image": "see images"}
    setting = {"pdf": "[image, pdf]", "audio": "[image, audio]", "image": "true"}
    some = [one for one in ALL if one != kind]
    for sees in (some, False):
        agent = Agent(PromptModel(script=["Fine."], sees=sees))
        with pytest.raises(UsageError) as refused:
            agent.run("What is it?", files=[data])
        if sees:
            assert f"is not known to {words[kind]}" in str(refused.value)
            assert f"set `sees: {setting[kind]}`" in str(refused.value)
    assert Agent(PromptModel(script=["Fine."], sees=ALL)).run("What is it?", files=[data]).answer == "Fine."


def test_a_pdf_and_a_sound_of_a_question() -> None:
    with ENGINES["openai"]() as server:
        server.replies += ["Fine."]
        files: list[Any] = [read_file(PDF, name="report.pdf"), WAV]
        Agent(model(server, sees=ALL)).run("What is it?", files=files)
        text, *parts = server.asked[-1].body["messages"][-1]["content"]
        assert (text["text"], parts) == ("What is it?", of_chat(PDF, WAV)[1:])
    with ENGINES["anthropic"]() as server:
        server.replies += ["Fine."]
        Agent(model(server)).run(
            "What is it?", files=[PDF], history=[Message("user", "Hi"), Message("assistant", "Hi")]
        )
        document, text = server.asked[-1].body["messages"][-1]["content"]
        assert (document["type"], document["source"]["data"]) == ("document", b64(PDF))


class Picture:
    """Looks like an image of Pillow."""

    __module__ = "PIL.Image"

    def save(self, out: Any, form: str) -> None:
        assert form == "PNG"
        out.write(BLUE)


@pytest.mark.parametrize(
    "returned", [Picture(), bytearray(BLUE), memoryview(BLUE), {"a": [Picture()]}, read_file(BLUE)]
)
def test_all_that_a_function_may_return_as_a_file(returned: Any) -> None:
    @tool(effects="read")
    async def drawn() -> Any:
        """Draw."""
        return returned

    with ENGINES["openai"]() as server:
        server.replies += [PROBED, Answer(calls=[("drawn", {})]), Answer("Done.")]
        result = Agent(model(server, sees=True), [drawn], strategy="tool_calling").run("Draw.")
        (observed,) = (one.observation for one in result.events if isinstance(one, Observed))
        assert [one.data for one in observed.files] == [BLUE]
