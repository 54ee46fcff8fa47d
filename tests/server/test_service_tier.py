"""`service_tier` says which of a tenant's runs that wait for room comes first."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import select

from fakes.app_server import Serving, answering
from retinue import Agent, PromptModel
from retinue.core.tools.tool import Tool
from retinue.runs.agent_versions import AgentVersions
from retinue.store.database import Database
from retinue.store.tables import runs


@pytest.mark.parametrize("tier", ["flex", "priority", "auto", None])
def test_it_is_kept_with_the_run(tmp_path: Path, tier: str | None) -> None:
    more = {} if tier is None else {"service_tier": tier}
    with Serving(tmp_path, {"agent-1": answering("agent-1", "Hi.", "Hi.")}) as server:
        chat = {"model": "agent-1", "messages": [{"role": "user", "content": "Hi"}]}
        assert server.ask("POST", "/v1/chat/completions", {**chat, **more}).status == 200
        said = server.ask("POST", "/v1/responses", {"model": "agent-1", "input": "Hi", **more})
        assert (said.status, said.body["service_tier"]) == (200, "default")
        with server.database.engine.connect() as connection:
            kept = [one.get("service_tier") for one in connection.execute(select(runs.c.request)).scalars()]
    assert kept == [tier if tier in ("flex", "priority") else None] * 2


def test_a_model_is_named_by_its_address(tmp_path: Path) -> None:
    here = PromptModel("llama", engine="openai", base_url="http://gpu-1:8000/v1", api_key="none")
    scripted = PromptModel(engine="scripted", script=["Hi."])
    inner = Agent(here, name="inner")
    agents = {"outer": Agent(scripted, [Tool("inner", inner, "Answers.")], name="outer"), "inner": inner}
    database = Database(f"sqlite:///{tmp_path}/runs.db")
    try:
        versions = AgentVersions(agents, database)
        assert versions.names_at("inner") == ("inner", "gpu-1:8000")
        assert versions.names_at("outer/inner") == ("inner", "gpu-1:8000")
        assert versions.names_at("outer") == ("outer", "")
        assert versions.names_at("gone") == ("gone", "")
    finally:
        database.close()
