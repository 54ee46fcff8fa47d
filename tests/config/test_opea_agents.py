"""Seed 003's tool files, as they are, from files of agents to answers: functions and endpoints are the tests'."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from fakes.config_files import SEED
from fakes.loopback import Loopback
from retinue import Agent, PromptModel
from retinue.core.events import Called

WORKER = "def search_knowledge_base(query: str) -> dict:\n    return {'retrieved_data': f'{query}: Thriller', 'n': 1}\n"
MUSIC = "\n".join(
    f"def {name}(*, {argument}) -> dict:\n    return {{'{output}': f'{name} {{{argument}}}'}}\n"
    for name, argument, output in (
        ("search_knowledge_base", "query", "retrieved_data"),
        ("search_sql_database", "query", "retrieved_data"),
        ("get_artist_birth_place", "artist_name", "birth_place"),
        ("get_song_release_date", "song_name", "release_date"),
        ("get_members", "band_name", "members"),
        ("get_grammy_best_artist_by_year", "year", "grammy_best_new_artist"),
    )
)
MUSIC += "def get_billboard_rank_date(rank, date):\n    return {'billboard_info': f'{rank + 1} on {date}'}\n"
AGENTS = """\
tools: tools/supervisor.yaml
agents:
  - name: supervisor
    params:
      strategy: STRATEGY
      role_description: LLM enhanced agent
      recursion_limit: 12
      script:
        - {when: sold 70, finish: "Thriller, 70 million"}
        - {when: best, call: {tool: ask_worker, input: best album}}
        - {when: Thriller, call: {tool: get_billboard_rank_date, input: {rank: 1, date: "1984"}}}
        - {when: 2 on 1984, call: {tool: chart, input: {album: Thriller}}}
      tools:
        - tools/supervisor.yaml
        - tools/chart.yaml
        - {name: ask_worker, pipeline_or_node: worker, description: Knows the documents., effects: read}
  - name: worker
    params:
      strategy: react
      tools: tools/worker.yaml
      script:
        - {when: "^best album$", call: {tool: search_knowledge_base, input: best album}}
        - {finish: It is Thriller.}
"""


@pytest.fixture
def chart() -> Iterator[Loopback]:
    async def answer(request: web.Request) -> web.Response:
        given = await request.json()
        return web.json_response({"sold": f"{given['album']} sold 70 million"})

    app = web.Application()
    app.router.add_post("/chart", answer)
    server = Loopback(app)
    server.start()
    yield server
    server.stop()


@pytest.mark.parametrize("strategy", ["react", "react_json", "tool_calling"])
def test_supervisor_and_worker_answer(strategy: str, chart: Loopback, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    shutil.copy(SEED.parent / "opea_supervisor_agent_tools.yaml", tools / "supervisor.yaml")
    shutil.copy(SEED.parent / "opea_worker_agent_tools.yaml", tools / "worker.yaml")
    (tools / "tools.py").write_text(MUSIC)
    (tools / "worker_agent_tools.py").write_text(WORKER)
    described = {
        "description": "Sales of an album.",
        "callable_api": f"{chart.url}/chart",
        "args_schema": {"album": {"type": "str", "description": "its name"}},
        "return_output": "sold",
    }
    (tools / "chart.yaml").write_text(json.dumps({"chart": described}))
    path = tmp_path / "agents.yml"
    path.write_text(AGENTS.replace("STRATEGY", strategy))
    agent = Agent.load_from_yaml(path, "supervisor")
    result = agent.run("Which album was the best, and how many were sold?")
    assert result.answer == "Thriller, 70 million"
    called = [event.action.tool for event in result.events if isinstance(event, Called)]
    assert called == ["ask_worker", "get_billboard_rank_date", "chart"]
    seen = [step.observations[0].text for step in result.steps]
    assert seen == ["It is Thriller.", "2 on 1984", "Thriller sold 70 million"]


def test_an_endpoint_as_seed_003_names_it(tmp_path: Path) -> None:
    path = tmp_path / "a.yml"
    path.write_text(
        "agents:\n  - name: a\n    params: {llm_engine: vllm, llm_endpoint_url: 'http://127.0.0.1:1', \n"
        "      llm_model_id: m, strategy: planexec, tools: [calculator]}\n"
    )
    agent = Agent.load_from_yaml(path)
    assert isinstance(agent.model, PromptModel)
    assert (agent.model.name, agent.strategy.name) == ("m", "planexec")


FINANCE = """\
agents:
  - name: agent
    params:
      strategy: STRATEGY
      tools: tools
      script:
        - {when: report says hold, finish: "Hold."}
        - {when: cloud grew, call: {tool: summarization_tool, input: {doc_name: 10-K, company: Acme}}}
        - {when: Acme in short, call: {tool: research_agent, input: {company: Acme}}}
        - {call: {tool: finqa_agent, input: which unit of Acme grew in 2024}}
"""
FINANCE_CODE = """\
import json, os, urllib.request
def finqa_agent(query: str):
    body = json.dumps({"messages": query}).encode()
    asked = urllib.request.Request(os.environ["FINQA_URL"] + "/v1/chat/completions", body)
    return {"retrieved_data": json.load(urllib.request.urlopen(asked))["text"], "sources": [1, 2]}
def research_agent(company: str) -> dict:
    return {"report": f"the report says hold {company}", "cost": 3}
"""


@pytest.mark.parametrize("strategy", ["react", "react_json", "tool_calling"])
def test_the_finance_file_answers(strategy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the original, its functions ask another agent's server, whose address is in the environment."""

    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"text": f"{json.loads(await request.text())['messages']}: cloud grew"})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    server = Loopback(app)
    server.start()
    monkeypatch.setenv("FINQA_URL", server.url)
    tools = tmp_path / "tools"
    tools.mkdir()
    shutil.copy(SEED.parent / "opea_finance_supervisor_agent_tools.yaml", tools / "finance.yaml")
    (tools / "supervisor_tools.py").write_text(FINANCE_CODE)
    summary = "def summarize(doc_name, company):\n    return {'summary': f'{company} in short', 'of': doc_name}\n"
    (tools / "sum_agent_tools.py").write_text(summary)
    (tmp_path / "agents.yml").write_text(FINANCE.replace("STRATEGY", strategy))
    result = Agent.load_from_yaml(tmp_path / "agents.yml").run("Should I buy Acme?")
    server.stop()
    assert result.answer == "Hold."
    seen = [step.observations[0].text for step in result.steps]
    assert seen == ["which unit of Acme grew in 2024: cloud grew", "Acme in short", "the report says hold Acme"]
