"""An agent that hands the conversation over: the other one answers, and has the thread from then on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fakes.app_server import Serving
from retinue import Agent, Message, PromptModel, handoff
from retinue.config import check
from retinue.server.agents.deployment import Deployment

FILE = """\
retinue: 1
agents:
  - name: front
    params:
      script:
        - {when: bill, call: {tool: transfer_to_billing, input: {query: a bill}}}
        - {when: "", say: front}
      strategy: tool_calling
      handoffs: [billing]
  - name: billing
    params:
      script:
        - {when: thanks, call: {tool: transfer_to_front, input: {query: done}}}
        - {when: "", say: billing}
      strategy: tool_calling
      handoffs: [front]
"""


def agent(name: str, *rules: Any, tools: Any = ()) -> Agent:
    return Agent(PromptModel(script=rules), tools, name=name, strategy="tool_calling")


def test_the_other_agent_sees_the_conversation_and_its_answer_is_the_runs() -> None:
    other = agent("other", {"when": "", "say": "taken over"})
    over = {"when": "", "call": {"tool": "transfer_to_other", "input": {"query": "why"}}}
    first = agent("first", over, tools=[handoff(other)])
    said = (Message("user", "Hello"), Message("assistant", "Hi"))
    done = first.run("Help me", history=said)
    assert done.answer == "taken over"
    begun = done.children["call_1_0"][0]
    assert (begun.question, begun.history) == ("Help me", said)  # type: ignore[union-attr]


def test_a_thread_remembers_who_has_it(tmp_path: Path) -> None:
    path = tmp_path / "agents.yml"
    path.write_text(FILE)
    assert list(check(path)) == []
    with Serving(tmp_path, dict(Deployment.load(path).agents)) as served:
        who = served.ask("POST", "/v1/assistants", {"model": "front"}).body["id"]
        thread = served.ask("POST", "/v1/threads", {}).body["id"]
        conversation = served.ask("POST", "/v1/conversations", {}).body["id"]
        for said, answer in [
            ("Hello", "front"),
            ("My bill?", "billing"),
            ("And how much?", "billing"),
            ("thanks", "front"),
            ("Hello again", "front"),
            ("The bill again", "billing"),
            ("Well?", "billing"),
        ]:
            body = {"model": "front", "input": said, "conversation": conversation}
            response = served.ask("POST", "/v1/responses", body).body
            assert response["output"][-1]["content"][0]["text"] == answer, said
            served.ask("POST", f"/v1/threads/{thread}/messages", {"role": "user", "content": said})
            told = served.ask("POST", f"/v1/threads/{thread}/runs", {"assistant_id": who, "stream": True}).text
            assert f'"value":"{answer}"' in told, said
        other = served.ask("POST", "/v1/threads", {"messages": [{"role": "user", "content": "Hi"}]}).body["id"]
        told = served.ask("POST", f"/v1/threads/{other}/runs", {"assistant_id": who, "stream": True}).text
        assert '"value":"front"' in told


def test_unknown_agents_and_names_that_are_taken_are_told_with_their_places(tmp_path: Path) -> None:
    path = tmp_path / "agents.yml"
    path.write_text(FILE.replace("handoffs: [billing]", "handoffs: [biling, billing, billing]"))
    problems = [str(problem) for problem in check(path)]
    assert len(problems) == 2
    assert "unknown agent 'biling'; did you mean 'billing'?" in problems[0]
    assert "two tools are called 'transfer_to_billing'" in problems[1]
