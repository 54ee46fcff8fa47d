"""A file of prices: what it says, where it is found, and what is wrong with it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes import fork_server
from retinue import Agent, Budget, DataError, PromptModel, UsageError
from retinue.config.price_file import load_prices, use_prices
from retinue.core.prices import Price, PriceList, use_price_list

FILE = """\
currency: EUR
models:
  gpt-5: {input: 1, output: 2}
  azure:gpt-5: {input: 3, output: 4}
  gpt-*: {input: 5, output: 6, cached: 1}
  "gpt-5-*": {input: 7, output: 8}
  "local:*": {input: 0, output: 0}
  "scripted:*": {input: 1000000, output: 1000000}
"""
AGENT = """
retinue: 1
agents:
  - {name: agent, params: {model: scripted, script: [{finish: forty-two}], budget: {cost: 100}}}
"""


@pytest.fixture(autouse=True)
def prices_as_before(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("RETINUE_PRICES", raising=False)
    yield
    use_price_list(PriceList())


def written(path: Path, text: str = FILE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize(
    ("engine", "model", "price"),
    [
        ("openai", "gpt-5", Price(1, 2, 1)),
        ("azure", "gpt-5", Price(3, 4, 3)),
        ("openai", "gpt-4", Price(5, 6, 1)),
        ("openai", "gpt-5-mini", Price(7, 8, 7)),  # the longest pattern
        ("local", "qwen", Price(0, 0, 0)),
        ("openai", "qwen", None),
        ("openai", "", None),
    ],
)
def test_which_price_counts(tmp_path: Path, engine: str, model: str, price: Price | None) -> None:
    assert load_prices(written(tmp_path / "prices.yml")).of(engine, model) == price


def test_a_money_budget_works_with_it(tmp_path: Path) -> None:
    agent = Agent(PromptModel(script=["one two three"]), budget=Budget(cost=1000))
    with pytest.raises(UsageError, match="a budget of cost needs the prices"):
        agent.run("Hi")
    use_prices(written(tmp_path / "prices.yml"))
    usage = agent.run("Hi").usage
    assert usage.cost == usage.total_tokens > 0
    own = Agent(PromptModel(script=["one two three"], price={"input": 0, "output": 0}))
    assert own.run("Hi").usage.cost == 0, "a model's own price counts first"


def test_a_model_that_was_made_before_has_them_too(tmp_path: Path) -> None:
    model = PromptModel(script=["x"])
    assert model.price is None
    use_prices(written(tmp_path / "prices.yml"))
    assert model.price == Price(10**6, 10**6, 10**6)


def test_where_it_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agents = tmp_path / "agents" / "agents.yml"
    assert use_prices(beside=agents) is None
    mine = written(tmp_path / "config" / "retinue" / "prices.yml")
    assert use_prices(beside=agents) == mine
    theirs = written(agents.with_name("prices.yml"))
    assert use_prices(beside=agents) == theirs
    said = written(tmp_path / "said.yml")
    monkeypatch.setenv("RETINUE_PRICES", str(said))
    assert use_prices(beside=agents) == said
    monkeypatch.setenv("RETINUE_PRICES", str(tmp_path / "none.yml"))
    with pytest.raises(DataError, match=r"none.yml:1:1: there is no such file"):
        use_prices()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "1:1: want a mapping `models`"),
        ("[]", "1:1: want a mapping `models`"),
        ("gpt: {input: 1, output: 1}", "1:1: want a mapping `models`"),
        ("models: {}\nmodel: {}", "2:1: unknown key 'model'; did you mean 'models'?"),
        ("currency: 5\nmodels: {}", "1:11: want a text, such as USD"),
        ("models:\n  a: 5", "2:6: want {input: …, output: …} for a million tokens each"),
        ("models:\n  a: {input: 1}", "2:6: 'output' is missing; want {input: …, output: …} per million tokens"),
        ("models:\n  a: {input: 1, output: -1}", "2:6: output is -1; want 0 or more per million tokens"),
        ("models:\n  a: {input: 1, output: x}", "2:6: output is 'x'; want 0 or more"),
        ("models:\n  a: {input: 1, output: 1, cashed: 1}", "2:6: there is no 'cashed'; did you mean 'cached'?"),
        ("models:\n  a*b: {input: 1, output: 1}", "2:8: 'a*b': a * may only be at the end of a name"),
        ("models:\n  a: {input: 1, output: 1}\n  a: {input: 2, output: 2}", "3:3: "),
        ("models:\n  *: {input: 1, output: 1}", "2:"),
    ],
)
def test_what_is_wrong_has_its_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(DataError) as raised:
        use_prices(written(tmp_path / "prices.yml", text))
    assert str(raised.value).startswith(f"{tmp_path / 'prices.yml'}:{problem}")
    assert "\n" not in str(raised.value)


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(DataError) as raised:
        load_prices(written(tmp_path / "prices.yml", "models:\n  a: 1\n  b: 2\n"))
    assert str(raised.value).count("want {input") == 2


def test_a_command_finds_it_beside_the_file(tmp_path: Path) -> None:
    file = written(tmp_path / "agents.yml", AGENT)
    env = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "config")}
    refused = fork_server.retinue("run", file, "Why?", env=env)
    assert refused.returncode == 2
    assert "a budget of cost needs the prices of the model" in refused.stderr
    written(tmp_path / "prices.yml")
    done = fork_server.retinue("run", file, "Why?", env=env)
    assert (done.returncode, done.stderr) == (0, "")
