"""PDFs and sounds in requests, and files in tools' results: byte for byte at the model, also after a kill."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import openai
import pytest
from sqlalchemy import select

from fakes.app_server import Answer, Serving, upload
from fakes.engines import PROBED
from fakes.openai_server import Answer as Said, OpenAIServer
from fakes.pictures import data_url, png
from fakes.served import serving
from fakes.until import until
from retinue import Agent, PromptModel, tool
from retinue.core.file_format import read_file
from retinue.server.context import Options
from retinue.store.tables import events, images
from retinue.store.tenant_view import Quota

RED = png()
PDF = b"%PDF-1.4\n1 0 obj <<>> endobj\ntrailer <<>>\n%%EOF\n"
WAV = b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x80\x3e\0\0\x02\0\x10\0data\0\0\0\0"
ASK = {"type": "text", "text": "What is it?"}
LOOK = {"name": "look", "description": "Look.", "parameters": {"type": "object", "properties": {}}}


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


OF_CHAT = {
    RED: {"type": "image_url", "image_url": {"url": data_url(RED)}},
    PDF: {"type": "file", "file": {"filename": "report.pdf", "file_data": f"data:application/pdf;base64,{b64(PDF)}"}},
    WAV: {"type": "input_audio", "input_audio": {"data": b64(WAV), "format": "wav"}},
}
OF_RESPONSE: dict[bytes, dict[str, Any]] = {
    RED: {"type": "input_image", "image_url": data_url(RED)},
    PDF: {"type": "input_file", "filename": "report.pdf", "file_data": f"data:application/pdf;base64,{b64(PDF)}"},
    WAV: {"type": "input_audio", "input_audio": {"data": b64(WAV), "format": "wav"}},
}


@tool(effects="read")
def fetch() -> list[Any]:
    """Fetch the report."""
    return [read_file(PDF, name="report.pdf"), RED]


@pytest.fixture
def engine() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


def agents(engine: OpenAIServer) -> dict[str, Agent]:
    reads, blind = (
        PromptModel("m", base_url=engine.url, api_key="none", sees=sees) for sees in (["image", "pdf", "audio"], True)
    )
    return {
        "reads": Agent(reads, [fetch], strategy="tool_calling", name="reads"),
        "sees": Agent(blind, [fetch], strategy="tool_calling", name="sees"),
    }


@pytest.fixture
def served(engine: OpenAIServer, tmp_path: Path) -> Iterator[Serving]:
    with Serving(tmp_path, agents(engine)) as serving:
        yield serving


def chat(served: Serving, *parts: Any, model: str = "reads", **more: Any) -> Answer:
    asked = {"model": model, "messages": [{"role": "user", "content": [*parts]}], **more}
    return served.ask("POST", "/v1/chat/completions", asked)


def respond(served: Serving, given: Any, model: str = "reads", **more: Any) -> Answer:
    return served.ask("POST", "/v1/responses", {"model": model, "input": given, **more})


def last(engine: OpenAIServer) -> Any:
    return engine.asked[-1].body["messages"][-1]["content"]


def test_pdfs_and_sounds_reach_a_model_that_reads_them(served: Serving, engine: OpenAIServer) -> None:
    engine.replies += [PROBED, *["Fine."] * 5]
    file = upload(served, "report.pdf", PDF).body["id"]
    for data in (PDF, WAV):
        assert chat(served, ASK, OF_CHAT[data]).status == 200
        assert last(engine) == [ASK, OF_CHAT[data]]
        assert respond(served, [{"role": "user", "content": [OF_RESPONSE[data]]}]).status == 200
        assert last(engine)[-1] == OF_CHAT[data]
    assert chat(served, ASK, {"type": "file", "file": {"file_id": file}}).status == 200
    assert last(engine)[1]["file"]["file_data"] == data_url(PDF, "application/pdf")
    logs = served.in_loop(served.database.read(lambda connection: connection.execute(select(events.c.payload)).all()))
    assert not any(b64(one)[:40] in str(logs) for one in (PDF, WAV))


def test_a_model_that_cannot_read_them_refuses_with_its_name_and_the_remedy(
    served: Serving, engine: OpenAIServer
) -> None:
    for data, words in ((PDF, "read PDFs"), (WAV, "hear sounds")):
        for answer in (
            chat(served, ASK, OF_CHAT[data], model="sees"),
            respond(served, [{"role": "user", "content": [OF_RESPONSE[data]]}], model="sees"),
        ):
            assert (answer.status, answer.error["code"]) == (400, "unsupported_file")
            assert re.search(rf"the model 'm' is not known to {words}; .*set `sees: \[image, ", answer.error["message"])
    assert not engine.asked
    answer = chat(served, ASK, {"type": "input_audio", "input_audio": {"data": b64(b"RIFFtext"), "format": "wav"}})
    assert (answer.status, answer.error["param"]) == (400, "messages[0].content[1].type")


def test_files_that_a_clients_function_returned(served: Serving, engine: OpenAIServer) -> None:
    for model in ("reads", "sees"):
        engine.replies[:] = [*[PROBED] * (not engine.asked), Said(calls=[("look", {})] * 2), Said("Seen.")]
        called = chat(served, ASK, model=model, tools=[{"type": "function", "function": LOOK}])
        message = called.body["choices"][0]["message"]
        one, two = (call["id"] for call in message["tool_calls"])
        said = [
            {"role": "user", "content": [ASK]},
            {"role": "assistant", "tool_calls": message["tool_calls"]},
            {"role": "tool", "tool_call_id": one, "content": [{"type": "text", "text": "A report."}, OF_CHAT[PDF]]},
            {"role": "tool", "tool_call_id": two, "content": [OF_CHAT[RED]]},
        ]
        check_seen(served, engine, said, model)
        check_seen(served, engine, said, model)  # its run has ended, so the conversation is all there is
    engine.replies[:] = [Said(calls=[("look", {})]), Said("Seen.")]
    tools = [{"type": "function", **LOOK}]
    first = respond(served, "What is it?", tools=tools).body
    (call,) = (item for item in first["output"] if item["type"] == "function_call")
    output = [{"type": "input_text", "text": "Here."}, OF_RESPONSE[PDF], OF_RESPONSE[RED]]
    given = [{"type": "function_call_output", "call_id": call["call_id"], "output": output}]
    assert respond(served, given, tools=tools, previous_response_id=first["id"]).status == 200
    assert last(engine)[1:] == [OF_CHAT[PDF], OF_CHAT[RED]]
    assert engine.asked[-1].body["messages"][-2]["content"] == "Here."


def check_seen(served: Serving, engine: OpenAIServer, said: Any, model: str) -> None:
    """The conversation resumes its run, and later is told as a whole; the model is shown the same."""
    engine.replies[:] = ["Seen."]
    answer = served.ask("POST", "/v1/chat/completions", {"model": model, "messages": said})
    assert answer.status == 200, answer.text
    *_, report, picture, files = engine.asked[-1].body["messages"]
    assert [report["role"], picture["role"], files["role"]] == ["tool", "tool", "user"]
    if model == "reads":
        assert files["content"][1:] == [OF_CHAT[PDF], OF_CHAT[RED]]
    else:
        assert files["content"][1:] == [OF_CHAT[RED]]
        assert "which cannot be shown to you" in report["content"]


FILE = """
retinue: 1
components:
  - {{name: m, type: PromptModel, params: {{model_name_or_path: m, base_url: "{url}", api_key: k, sees: [image, pdf]}}}}
agents:
  - name: agent
    params:
      model: m
      strategy: tool_calling
      tools: [fetch]
tools:
  fetch: {{description: Fetch the report., callable_api: returning.py:fetch, args_schema: {{}}}}
"""
PROGRAM = f"""
from pathlib import Path
from retinue.core.file_format import read_file

def fetch() -> object:
    with Path(__file__).with_name("calls.txt").open("a") as file:
        file.write("x")
    return [read_file({PDF!r}, name="report.pdf"), {RED!r}]
"""


@pytest.mark.full
@pytest.mark.parametrize("point", ["before asking:2", "before reply is written:2", "before the end:1"])
def test_they_survive_a_kill(engine: OpenAIServer, tmp_path: Path, point: str) -> None:
    (tmp_path / "returning.py").write_text(PROGRAM)
    engine.replies += [PROBED, Said(calls=[("fetch", {})])]
    engine.always = lambda request: Said("Done.")
    with serving(tmp_path, FILE.format(url=engine.url), env={"RETINUE_CRASHPOINT": point}) as server:
        with server.client() as client, suppress(openai.APIError):
            client.responses.create(model="agent", input="Fetch it.", background=True)
        until(lambda: server.process.poll() is not None)
        server.kill()
        server.restart(RETINUE_CRASHPOINT="")
        with server.client() as client:

            def runs() -> Any:
                found: Any = client.get("/runs", cast_to=object)
                return found["data"]

            until(lambda: [run["status"] for run in runs()] == ["completed"])
            fork: Any = client.post(f"/runs/{runs()[0]['id']}/fork", body={"after": 5}, cast_to=object)
            until(lambda: client.get(f"/runs/{fork['id']}", cast_to=object)["status"] == "completed")  # type: ignore[index]
    assert (tmp_path / "calls.txt").read_text() == "x"
    for request in [one for one in engine.asked if one.body["messages"][-1]["role"] == "user"][-2:]:
        assert request.body["messages"][-1]["content"][1:] == [OF_CHAT[PDF], OF_CHAT[RED]]


LARGE = PDF + b" " * 200_000


@tool(effects="read")
def fetch_much() -> bytes:
    """Fetch a large report."""
    return LARGE


def test_they_count_towards_the_quota_and_beyond_it_the_model_is_told(engine: OpenAIServer, tmp_path: Path) -> None:
    model = PromptModel("m", base_url=engine.url, api_key="none", sees=["pdf"])
    for most, fits in ((1_000_000, True), (100_000, False)):
        folder = tmp_path / str(most)
        folder.mkdir()
        agent = Agent(model, [fetch_much], strategy="tool_calling", name="reads")
        with Serving(folder, {"reads": agent}, Options(quota=Quota(bytes=most))) as served:
            engine.replies[:] = [*[PROBED] * (not engine.asked), Said(calls=[("fetch_much", {})]), "Done."]
            assert chat(served, ASK).status == 200
            kept = served.in_loop(
                served.database.read(lambda connection: connection.execute(select(images.c.bytes)).all())
            )
            assert [size for (size,) in kept] == ([len(LARGE)] if fits else [])
            told = json.dumps(engine.asked[-1].body["messages"])
            assert (b64(LARGE) in told, "Its files are not shown: " in told) == (fits, not fits)
