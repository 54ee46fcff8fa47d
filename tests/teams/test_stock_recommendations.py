"""RFC 003's question, asked of a team of two levels over HTTP, on recorded data."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from fakes.openai_server import OpenAIServer
from fakes.reading_model import Chat, Said, reading
from fakes.served import Served, serving
from retinue.tools.function_loader import load_module

FOLDER = Path(__file__).parents[2] / "examples" / "stock_recommendations"
QUESTION = (
    "Generate an Analyst Stock Recommendations by taking an average of all analyst recommendations and classifying "
    "them as Strong Buy, Buy, Hold, Underperform or Sell."
)
COUNTS = ("strongBuy", "buy", "hold", "sell", "strongSell")


def supervisor(chat: Chat) -> Said:
    match len(chat.seen):
        case 0:
            return [("research", {"query": "What are the newest recommendations for each stock?"})]
        case 1:
            return [("rating", {"query": f"What are the averages and classes?\n{chat.seen[0][0]}"})]
        case _:
            return f"Analyst stock recommendations:\n{chat.seen[1][0]}"


def research(chat: Chat) -> Said:
    if not chat.seen:
        return [("recommendations", {})]
    rows = json.loads(chat.seen[0][0])
    return "\n".join(f"{row['symbol']}: {', '.join(f'{name} {row[name]}' for name in COUNTS)}" for row in rows)


def rating(chat: Chat) -> Said:
    stocks = re.findall(
        r"^(\w+): strongBuy (\d+), buy (\d+), hold (\d+), sell (\d+), strongSell (\d+)$", chat.task, re.M
    )
    match len(chat.seen):
        case 0:
            return [
                ("calculator", {"expression": f"(1*{a} + 2*{b} + 3*{c} + 4*{d} + 5*{e}) / ({a}+{b}+{c}+{d}+{e})"})
                for _, a, b, c, d, e in stocks
            ]
        case 1:
            return [("classify", {"average": float(average)}) for average in chat.seen[0]]
        case _:
            rated = zip(stocks, *chat.seen, strict=True)
            return "\n".join(f"{stock[0]}: {float(average):.2f}, {class_}" for stock, average, class_ in rated)


def expected() -> dict[str, tuple[str, str]]:
    """By counting each analyst's vote, in fractions, and by the nearest class; nothing of the example computes it."""
    rows = json.loads((FOLDER / "recommendations.json").read_text("utf-8"))
    newest = sorted({row["period"] for row in rows})[-1]
    found = {}
    for row in (row for row in rows if row["period"] == newest):
        votes = [number for number, name in enumerate(COUNTS, 1) for _ in range(row[name])]
        average = Fraction(sum(votes), len(votes))
        classes = ["Strong Buy", "Buy", "Hold", "Underperform", "Sell"]
        nearest = min(range(5), key=lambda at: (abs(average - (at + 1)), at))
        found[row["symbol"]] = (f"{float(average):.2f}", classes[nearest])
    return found


def told(answer: str) -> dict[str, tuple[str, str]]:
    return {
        symbol: (average, class_) for symbol, average, class_ in re.findall(r"^(\w+): ([\d.]+), (.+)$", answer, re.M)
    }


@contextmanager
def team(folder: Path) -> Iterator[tuple[Served, OpenAIServer]]:
    """`retinue serve` with the example's own files, its recorded service, and the scripted model."""
    service = load_module(FOLDER / "service.py").serve(0)
    listening = threading.Thread(target=service.serve_forever, daemon=True)
    listening.start()
    (folder / "rating.py").write_bytes((FOLDER / "rating.py").read_bytes())
    try:
        with OpenAIServer() as model:
            model.always = reading({"research": supervisor, "recommendations": research, "calculator": rating})
            env = {
                "MODEL_PARAMS_MODEL_NAME_OR_PATH": "fake-model",
                "MODEL_PARAMS_BASE_URL": model.url,
                "RECOMMENDATIONS": f"127.0.0.1:{service.server_port}",
            }
            with serving(folder, (FOLDER / "agents.yml").read_text("utf-8"), env=env) as server:
                yield server, model
    finally:
        service.shutdown()
        service.server_close()
        listening.join()


def asked(server: Served, method: str, path: str, given: Any = None) -> Any:
    headers = {"Authorization": f"Bearer {server.key}", "Content-Type": "application/json"}
    data = None if given is None else json.dumps(given).encode()
    with urlopen(Request(f"{server.url}{path}", data, headers, method=method), timeout=60) as response:
        return json.load(response)


def test_the_seeds_question_over_chat_completions(tmp_path: Path) -> None:
    assert json.loads((FOLDER / "question.json").read_text("utf-8"))["messages"] == QUESTION
    with team(tmp_path) as (server, model):
        assert "research" not in {one["id"] for one in asked(server, "GET", "/models")["data"]}
        done = asked(server, "POST", "/chat/completions", json.loads((FOLDER / "question.json").read_text("utf-8")))
        answer = done["choices"][0]["message"]["content"]
        assert told(answer) == expected()
        assert {class_ for _, class_ in expected().values()} == {"Strong Buy", "Buy", "Hold", "Underperform", "Sell"}
        members = asked(server, "GET", "/runs?kind=member&order=asc")["data"]
        assert [(one["model"], one["status"]) for one in members] == [
            ("supervisor/research", "completed"),
            ("supervisor/rating", "completed"),
        ]
        requests = len([one for one in model.asked if "messages" in one.body and len(one.body["tools"]) != 0])
        assert requests == 3 + 2 + 3 + 1  # the team's replies, and whether the model can call tools


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # OpenAI's of its assistants
def test_the_seeds_question_in_a_thread(tmp_path: Path) -> None:
    with team(tmp_path) as (server, _):
        client = server.client()
        assistant = client.beta.assistants.create(model="supervisor")
        thread = client.beta.threads.create(messages=[{"role": "user", "content": QUESTION}])
        run = client.beta.threads.runs.create_and_poll(thread_id=thread.id, assistant_id=assistant.id)
        assert run.status == "completed"
        message = client.beta.threads.messages.list(thread_id=thread.id).data[0]
        assert message.content[0].type == "text"
        assert told(message.content[0].text.value) == expected()
        client.close()


@pytest.mark.parametrize(
    ("average", "class_"),
    [
        (1, "Strong Buy"), (1.5, "Strong Buy"), (1.51, "Buy"), (2.5, "Buy"), (2.51, "Hold"), (3.5, "Hold"),
        (3.51, "Underperform"), (4.5, "Underperform"), (4.51, "Sell"), (5, "Sell"),
    ],
)  # fmt: skip
def test_the_bands_are_those_of_the_readme(average: float, class_: str) -> None:
    classify = load_module(FOLDER / "rating.py").classify
    assert classify(average) == class_
    with pytest.raises(ValueError, match="between 1 and 5"):
        classify(0.9)
