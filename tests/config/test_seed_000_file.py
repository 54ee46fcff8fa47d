"""Seed 000's file, unchanged, against stand-ins for SerpAPI and OpenAI: its transcript, line for line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.config_files import SEED
from fakes.openai_server import OpenAIServer
from fakes.seed_000 import ABOUT, ANSWER, QUESTION, REPLIES, TRANSCRIPT
from fakes.serpapi_server import KEY, SerpAPIServer
from retinue import Agent


@pytest.fixture
def _vendors(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """The addresses and keys, by the environment: the file says XYZ."""
    with SerpAPIServer() as serpapi:
        for query, found in (("Olivia Wilde's boyfriend", ABOUT), ("Jason Sudeikis age", "47 years")):
            serpapi.found[query] = {"answer_box": {"title": "t", "link": "https://example.com", "answer": found}}
        monkeypatch.setenv("SERP_PARAMS_BASE_URL", serpapi.url)
        monkeypatch.setenv("SERP_PARAMS_API_KEY", KEY)
        monkeypatch.setenv("DAVINCIMODEL_PARAMS_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("DAVINCIMODEL_PARAMS_API_KEY", "the OpenAI key")
        server.api_key = "the OpenAI key"
        server.replies += REPLIES
        yield serpapi


@pytest.mark.usefixtures("_vendors")
def test_the_seeds_file_gives_the_seeds_transcript(server: OpenAIServer, tmp_path: Path) -> None:
    agent = Agent.load_from_yaml(SEED, agent_name="agent")
    result = agent.run(QUESTION)
    assert result.transcript.splitlines() == TRANSCRIPT.splitlines()
    assert result.answer == ANSWER
    assert server.replies == []
    assert server.asked[0].body["stop"] == ["Observation:"]
    agent.save_to_yaml(tmp_path / "again.yml")
    text = (tmp_path / "again.yml").read_text()
    assert not any(secret in text for secret in ("XYZ", KEY, "OpenAI key"))
    server.replies += REPLIES
    assert Agent.load_from_yaml(tmp_path / "again.yml").run(QUESTION).answer == ANSWER
