"""Questions to the embedded model behind `retinue serve`, through the SDK, streamed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from fakes.served import serving

pytestmark = pytest.mark.model
PASSAGES = Path(__file__).parents[2] / "data" / "demo" / "passages.jsonl"
QUESTION = "Who is Olivia Wilde's boyfriend? What is his current age raised to the 0.23 power?"
AGENTS = """\
tools:
  Search: {callable_api: passages, params: {path: passages.jsonl}}
  Calculator: {callable_api: calculator}
agents:
  - {name: agent, params: {model: local}}
"""


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        pytest.param("What is 15% of 1,234?", "185.1", id="one-call"),
        pytest.param(QUESTION, "2.42", id="seed-000", marks=pytest.mark.full),  # half a minute
    ],
)
def test_it_answers(embedded_model: Path, tmp_path: Path, question: str, answer: str) -> None:
    shutil.copy(PASSAGES, tmp_path)
    messages: Any = [{"role": "user", "content": question}]
    with serving(tmp_path, AGENTS) as server, server.client(timeout=300) as client:
        stream = client.chat.completions.create(model="agent", messages=messages, stream=True)
        pieces = [chunk.choices[0].delta.content for chunk in stream if chunk.choices]
    texts = [piece for piece in pieces if piece]
    assert len(texts) > 1
    assert answer in "".join(texts)
