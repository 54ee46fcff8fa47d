"""Images in requests: they reach a model that can see, a model that cannot is not asked, and no log holds them."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from sqlalchemy import func, select, update

from fakes.app_server import Answer, Serving, upload
from fakes.engines import PROBED
from fakes.loopback import Loopback
from fakes.openai_server import Answer as Said, OpenAIServer
from fakes.pictures import data_url, gif, png, png_head
from fakes.until import until
from retinue import Agent, PromptModel
from retinue.core.values import File
from retinue.limits.shares import Shares, TenantShares
from retinue.server.content.message_files import FileLoader
from retinue.server.context import Options
from retinue.store.api_keys import create_key
from retinue.store.database import Database
from retinue.store.run_belongings import delete_unused_files
from retinue.store.tables import events, images
from retinue.store.tenant_view import TenantView

RED, GIF = png(), gif()
ASK = {"type": "text", "text": "Which color?"}
IMAGE = {"type": "input_image", "image_url": data_url(RED)}
LOCAL = "http://127.0.0.1:9/red.png"


@pytest.fixture
def engine() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


@pytest.fixture
def album() -> Iterator[Loopback]:
    """A web server with one image, that calls it a page."""

    async def red(_: web.Request) -> web.Response:
        return web.Response(body=RED, content_type="text/html")

    app = web.Application()
    app.router.add_get("/red", red)
    server = Loopback(app)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def served(engine: OpenAIServer, album: Loopback, tmp_path: Any) -> Iterator[Serving]:
    def agent(name: str, **more: Any) -> Agent:
        model = PromptModel("m", base_url=engine.url, api_key="none", **more)
        return Agent(model, strategy="tool_calling", name=name)

    options = Options(image_hosts=(album.url.removeprefix("http://"),))
    with Serving(tmp_path, {"seeing": agent("seeing", sees=True), "blind": agent("blind")}, options) as serving:
        yield serving


def seen(engine: OpenAIServer, at: int = -1) -> list[bytes]:
    """The images in a request to the engine."""
    found = re.findall(r"base64,([^\"]+)\"", json.dumps(engine.asked[at].body["messages"]))
    return [base64.b64decode(one) for one in found]


def chat(served: Serving, *parts: Any, model: str = "seeing", role: str = "user", **more: Any) -> Answer:
    asked = {"model": model, "messages": [{"role": role, "content": [*parts]}], **more}
    return served.ask("POST", "/v1/chat/completions", asked)


def respond(served: Serving, *parts: Any, model: str = "seeing", **more: Any) -> Answer:
    asked = {"model": model, "input": [{"role": "user", "content": [*parts]}], **more}
    return served.ask("POST", "/v1/responses", asked)


def of_chat(url: str, **more: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, **more}}


def of_response(url: str) -> dict[str, Any]:
    return {"type": "input_image", "image_url": url}


def run_on(served: Serving, content: Any, model: str = "seeing", **more: Any) -> Answer:
    assistant = served.ask("POST", "/v1/assistants", {"model": model}).body["id"]
    thread = {"messages": [{"role": "user", "content": content}]}
    return served.ask("POST", "/v1/threads/runs", {"assistant_id": assistant, "thread": thread, "stream": True, **more})


def test_a_chat_shows_data_and_addresses(served: Serving, engine: OpenAIServer, album: Loopback) -> None:
    engine.replies += ["Red."]
    answer = chat(served, ASK, of_chat(data_url(GIF, "image/png"), detail="low"), of_chat(f"{album.url}/red"))
    assert answer.body["choices"][0]["message"]["content"] == "Red."
    assert seen(engine) == [GIF, RED]
    (turn,) = engine.asked[-1].body["messages"]
    assert turn["content"][0] == {"type": "text", "text": "Which color?"}
    assert turn["content"][1]["image_url"]["detail"] == "low"
    assert turn["content"][1]["image_url"]["url"].startswith("data:image/gif")


def test_a_response_shows_files_and_data_and_shows_them_again(served: Serving, engine: OpenAIServer) -> None:
    engine.replies += ["Red."] * 2
    file = upload(served, "red.png", RED).body["id"]
    parts = [{"type": "input_image", "file_id": file}, {"type": "input_image", "image_url": data_url(GIF)}]
    first = respond(served, {"type": "input_text", "text": "Which?"}, *parts).body
    assert seen(engine) == [RED, GIF]
    respond(served, {"type": "input_text", "text": "And now?"}, previous_response_id=first["id"])
    assert seen(engine) == [RED, GIF]
    given = served.ask("GET", f"/v1/responses/{first['id']}/input_items").body["data"]
    assert given[0]["content"][1]["file_id"] == file
    assert "shown" not in given[0]["content"][1]


def test_a_conversation_shows_what_was_said_in_it(served: Serving, engine: OpenAIServer) -> None:
    engine.replies += ["Red.", "Still red."]
    item = {"role": "user", "content": [{"type": "input_image", "image_url": data_url(RED)}]}
    conversation = served.ask("POST", "/v1/conversations", {"items": [item]}).body["id"]
    text = {"type": "input_text", "text": "Which?"}
    assert respond(served, text, conversation=conversation).status == 200
    assert seen(engine) == [RED]
    assert respond(served, text, conversation=conversation).status == 200
    assert seen(engine) == [RED]


@pytest.mark.parametrize("kind", ["file", "url", "data"])
def test_a_thread_shows_its_images(served: Serving, engine: OpenAIServer, album: Loopback, kind: str) -> None:
    engine.replies += ["Red."]
    if kind == "file":
        file = upload(served, "red.png", RED).body["id"]
        part: dict[str, Any] = {"type": "image_file", "image_file": {"file_id": file}}
    else:
        part = of_chat(f"{album.url}/red" if kind == "url" else data_url(RED))
    assert "thread.run.completed" in run_on(served, [ASK, part]).text
    assert seen(engine) == [RED]


@pytest.mark.parametrize("kind", ["data", "file"])
def test_a_chat_on_a_thread_shows_its_images_later_too(served: Serving, engine: OpenAIServer, kind: str) -> None:
    engine.replies += ["Red.", "I said it."]
    image = of_chat(data_url(RED))
    if kind == "file":
        image = {"type": "image_file", "image_file": {"file_id": upload(served, "red.png", RED).body["id"]}}
    assert chat(served, ASK, image, thread_id=f"mine-{kind}").status == 200
    chat(served, {"type": "text", "text": "Again?"}, thread_id=f"mine-{kind}")
    assert seen(engine, 0) == seen(engine, 1) == [RED]


def test_an_image_alone_is_a_question(served: Serving, engine: OpenAIServer) -> None:
    engine.replies += ["A square."]
    assert chat(served, of_chat(data_url(RED))).status == 200
    assert seen(engine) == [RED]


def refusals(served: Serving, model: str) -> list[tuple[Answer, str]]:
    image = {"type": "input_image", "image_url": data_url(RED)}
    return [
        (chat(served, ASK, of_chat(data_url(RED)), model=model), "messages[0].content[1]"),
        (respond(served, image, model=model), "input[0].content[0]"),
        (run_on(served, [ASK, of_chat(data_url(RED))], model=model), "thread.messages[0].content[1]"),
    ]


def test_a_model_that_cannot_see_is_not_asked(served: Serving, engine: OpenAIServer) -> None:
    for answer, place in refusals(served, "blind"):
        assert (answer.status, answer.error["param"], answer.error["code"]) == (400, place, "unsupported_image")
        assert "'m' is not known to see images" in answer.error["message"]
    assistant = served.ask("POST", "/v1/assistants", {"model": "blind"}).body["id"]
    message = {"role": "user", "content": [of_chat(data_url(RED))]}
    thread = served.ask("POST", "/v1/threads", {"messages": [message]}).body["id"]
    refused = served.ask("POST", f"/v1/threads/{thread}/runs", {"assistant_id": assistant})
    assert (refused.status, refused.error["param"]) == (400, "messages[-1].content[0]")
    assert not engine.asked


def test_of_an_old_image_a_model_that_cannot_see_is_told(served: Serving, engine: OpenAIServer) -> None:
    engine.replies += ["I cannot see it."]
    assistant = served.ask("POST", "/v1/assistants", {"model": "blind"}).body["id"]
    said: list[Any] = [{"role": "user", "content": [of_chat(data_url(RED))]}, {"role": "assistant", "content": "Red."}]
    said.append({"role": "user", "content": "And?"})
    for path, body in (
        ("threads/runs", {"assistant_id": assistant, "thread": {"messages": said}, "stream": True}),
        ("chat/completions", {"model": "blind", "messages": said}),
        ("responses", {"model": "blind", "input": [{**said[0], "content": [IMAGE]}, *said[1:]]}),
    ):
        engine.replies[:] = ["I cannot see it."]
        assert served.ask("POST", f"/v1/{path}", body).status == 200
        assert engine.asked[-1].body["messages"][0]["content"] == "(an image, which cannot be shown to you)"


def test_of_what_a_client_sends_again_with_each_request_the_newest_images_are_shown(
    served: Serving, engine: OpenAIServer
) -> None:
    albums = [gif(number + 1, 1) for number in range(25)]
    for path, kind in (("chat/completions", of_chat), ("responses", of_response)):
        said: list[Any] = []
        for data in albums:
            said += [{"role": "user", "content": [kind(data_url(data))]}, {"role": "assistant", "content": "Nice."}]
        said[-1:] = []  # the newest is asked about
        engine.replies[:] = ["Nice."]
        answer = served.ask(
            "POST", f"/v1/{path}", {"model": "seeing", ("input" if kind is of_response else "messages"): said}
        )
        assert answer.status == 200, answer.body
        assert seen(engine) == albums[-20:]
    broken = [{"role": "user", "content": [of_chat(LOCAL)]}, {"role": "assistant", "content": "Nice."}, said[-1]]
    engine.replies[:] = ["Nice."]
    said = [*broken[:2], {"role": "user", "content": [of_chat(data_url(RED))]}]
    assert served.ask("POST", "/v1/chat/completions", {"model": "seeing", "messages": said}).status == 200
    assert seen(engine) == [RED]


def test_the_largest_image_fits_into_a_request(served: Serving, engine: OpenAIServer) -> None:
    large = RED + bytes(5_000_000 - len(RED))
    engine.replies[:] = ["Red."]
    said = {"model": "seeing", "messages": [{"role": "user", "content": [ASK, of_chat(data_url(large))]}]}
    body, headers = io.BytesIO(json.dumps(said).encode()), {"Content-Type": "application/json"}
    assert served.ask("POST", "/v1/chat/completions", data=body, headers=headers).status == 200
    assert seen(engine) == [large]


HOSTILE: list[tuple[str, str]] = [
    (LOCAL, "port 9 is not one of the web's"),
    ("http://169.254.169.254/latest/meta-data", "169.254.169.254"),
    ("http://[::1]/x.png", "::1"),
    ("http://localhost/x.png", "no public name"),
    ("https://user:secret@example.com/x.png", "no user"),
    ("file:///etc/passwd", "want the URL of an image"),
    ("gopher://example.com/x", "want the URL of an image"),
    ("/etc/passwd", "want the URL of an image"),
    ("", "Missing required parameter"),
    ("data:image/png;base64,!!!", "not base64"),
    ("data:image/png,abc", "want a data URL"),
    (data_url(b"<svg onload='alert(1)'/>", "image/svg+xml"), "no file that models read"),
    (data_url(png_head(60_000, 60_000)), "60,000 × 60,000 pixels"),
]


@pytest.mark.parametrize(("url", "problem"), HOSTILE)
def test_what_is_no_image_is_refused_with_its_place(
    served: Serving, engine: OpenAIServer, url: str, problem: str
) -> None:
    answer = chat(served, ASK, of_chat(url))
    assert answer.status == 400
    assert answer.error["param"].startswith("messages[0].content[1]")
    assert problem in answer.error["message"]
    assert not engine.asked


@pytest.mark.parametrize("given", [None, 5, "x", {"url": 5}, {"url": None}, [], {}])
def test_what_is_no_source_is_refused(served: Serving, given: Any) -> None:
    answer = chat(served, ASK, {"type": "image_url", "image_url": given})
    assert (answer.status, answer.error["param"]) == (400, "messages[0].content[1].image_url")


def test_too_many_and_in_the_wrong_place(served: Serving) -> None:
    many = chat(served, ASK, *[of_chat(data_url(RED))] * 21)
    assert (many.status, "at most 20 images" in many.error["message"]) == (400, True)
    for role in ("system", "assistant"):
        answer = chat(served, ASK, of_chat(data_url(RED)), role=role)
        assert (answer.status, "tools' results only" in answer.error["message"]) == (400, True)


def test_a_client_cannot_name_an_image_that_is_kept(served: Serving, engine: OpenAIServer) -> None:
    engine.replies += ["Red.", "None."]
    chat(served, ASK, of_chat(data_url(RED)))
    (kept,) = rows(served, select(images.c.id))
    marked = {**of_chat(data_url(GIF)), "shown": {"id": kept, "media_type": "image/png", "detail": "auto"}}
    chat(served, ASK, marked)
    assert seen(engine) == [GIF]


def test_a_file_of_another_tenant_is_not_there(served: Serving, engine: OpenAIServer) -> None:
    file = upload(served, "red.png", RED).body["id"]
    key = served.in_loop(served.database.write(lambda connection: create_key(connection, "others")))
    for path, body in (
        ("/v1/responses", {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": file}]}]}),
    ):
        answer = served.ask("POST", path, {"model": "seeing", **body}, key=key)
        assert (answer.status, answer.error["message"]) == (404, f"No such File object: {file}")
    assert not engine.asked


@pytest.mark.anyio
async def test_large_images_wait_for_their_tenant_s_share_whoever_keeps_them(tmp_path: Path) -> None:
    """A write that is submitted later is there first."""
    database, shares = Database(f"sqlite:///{tmp_path}/runs.db"), TenantShares()
    large, small = (File(str(size), "image/png", data=bytes(size)) for size in (150_000, 10))
    one, other = (FileLoader(database, TenantView(tenant), shares) for tenant in ("one", "other"))

    async def kept() -> list[str]:
        return await database.read(lambda connection: list(connection.execute(select(images.c.id)).scalars()))

    async with shares.of_write("one", 150_000):
        waiting = asyncio.create_task(one.keep([large], "run_1"))
        await asyncio.sleep(0)  # it has begun
        await one.keep([small])
        await other.keep([small])
        assert await kept() == ["10", "10"]
    async with asyncio.timeout(10):
        await waiting
    assert sorted(await kept()) == ["10", "10", "150000"]
    await database.close_async()


def test_a_run_fetches_the_images_of_its_thread_in_its_tenant_s_share(
    served: Serving, engine: OpenAIServer, album: Loopback
) -> None:
    engine.replies += ["Hello.", "Red."]
    share: Shares = served.app.state.server.shares.fetching
    for _ in range(4):
        served.in_loop(share.acquire("default"))
    run = run_on(served, [ASK, of_chat(f"{album.url}/red")], stream=False).body
    assert chat(served, ASK, model="blind").status == 200  # it was asked later
    assert len(engine.asked) == 1
    served.in_loop(_release(share, 4))
    path = f"/v1/threads/{run['thread_id']}/runs/{run['id']}"
    until(lambda: served.ask("GET", path).body["status"] == "completed")
    assert seen(engine) == [RED]


async def _release(share: Shares, times: int) -> None:
    for _ in range(times):
        share.release("default")


def rows(served: Serving, query: Any) -> list[Any]:
    return list(served.in_loop(served.database.read(lambda connection: connection.execute(query).scalars().all())))


def test_a_run_that_waits_for_its_client_goes_on_with_its_images(served: Serving, engine: OpenAIServer) -> None:
    tools = [{"type": "function", "function": {"name": "look"}}]
    engine.replies += [PROBED, Said(calls=[("look", {})]), "Red."]
    first = {"role": "user", "content": [ASK, of_chat(data_url(RED))]}
    said = chat(served, *first["content"], tools=tools).body["choices"][0]["message"]
    done = {"role": "tool", "tool_call_id": said["tool_calls"][0]["id"], "content": "looked"}
    asked = {"model": "seeing", "messages": [first, said, done], "tools": tools}
    answer = served.ask("POST", "/v1/chat/completions", asked)
    assert answer.body["choices"][0]["message"]["content"] == "Red."
    assert seen(engine) == [RED]


def test_no_log_holds_the_bytes_and_they_go_with_the_last_run(served: Serving, engine: OpenAIServer) -> None:
    engine.replies += ["Red."] * 2
    stored = [chat(served, ASK, of_chat(data_url(RED)), store=True).body["id"] for _ in range(2)]
    encoded = base64.b64encode(RED).decode()
    assert not [text for text in rows(served, select(events.c.payload)) if encoded in text]
    assert rows(served, select(func.count()).select_from(images)) == [1]
    for number, one in enumerate(stored, 1):
        served.ask("DELETE", f"/v1/chat/completions/{one}")
        served.in_loop(
            served.database.write(lambda connection: connection.execute(update(images).values(created_at=0)))
        )
        served.in_loop(served.database.write(delete_unused_files))
        assert rows(served, select(func.count()).select_from(images)) == [2 - number]
