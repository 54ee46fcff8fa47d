"""The studio of a server that another application has at a prefix, for the users of its own login."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
import uvicorn
from fastapi import FastAPI, Request

import retinue
from fakes.studio_browser import Visitor, expect
from fakes.until import until
from retinue import Agent, PromptModel

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def user_of(request: Request) -> retinue.Login | None:
    name = request.cookies.get("session")
    return retinue.Login(name) if name else None


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """An application on loopback."""
    agent = Agent(PromptModel(script=[{"finish": "Paris."}]), name="guide")
    agents = retinue.asgi(agent, db=str(tmp_path / "runs.db"), user_of=user_of)
    app = FastAPI(lifespan=agents.lifespan)
    app.mount("/own/ai", agents)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None))
        serving = threading.Thread(target=server.run, args=[[listening]])
        serving.start()
        until(lambda: server.started)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/own/ai"
        server.should_exit = True
        serving.join()


def test_a_user_looks_at_their_runs_without_a_key(chromium: Browser, address: str) -> None:
    visitor = Visitor(chromium, address, "")
    visitor.expects = "401"
    visitor.page.goto(f"{address}/studio/")
    expect(visitor.page.get_by_text("You are not logged in to the application")).to_be_visible()
    visitor.context.add_cookies([{"name": "session", "value": "ann", "url": address.removesuffix("/own/ai")}])
    visitor.expects = ""
    asked = {"model": "guide", "messages": [{"role": "user", "content": "Which city?"}]}
    httpx.post(f"{address}/v1/chat/completions", json=asked, headers={"cookie": "session=ann"}).raise_for_status()
    page = visitor.page
    page.goto(f"{address}/studio/")
    page.get_by_text("Which city?").first.click()
    expect(page.get_by_text("Paris.").first).to_be_visible()
    assert page.url.startswith(f"{address}/studio/runs/")
    assert page.get_by_role("button", name="Sign out").count() == 0
    page.reload()
    expect(page.get_by_text("Paris.").first).to_be_visible()
    page.get_by_role("link", name="Agents").click()
    expect(page.get_by_text("guide").first).to_be_visible()
    assert visitor.troubles == []
    visitor.context.close()
