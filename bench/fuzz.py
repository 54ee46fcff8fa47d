"""Generated and mutated replies through every parser and through `neutralize`: `python -m bench fuzz`.

What is checked: no exception but `UnreadableReply`; nothing takes long; whatever is decided as an action
stands in the text, tool and input, as a whole; nothing that was quoted is read as protocol, and no forged decision
either, whatever its disguise (`forging.py`).
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench.forging import forged, still_taken, taken_by
from retinue.core.prompt import Decided
from retinue.core.tools.tool import Tool
from retinue.core.values import AgentAction, AgentFinish
from retinue.strategies import self_ask
from retinue.strategies.parsing.actions import UnreadableReply
from retinue.strategies.parsing.final_answer import answer_of
from retinue.strategies.parsing.json_reply import read_reply
from retinue.strategies.parsing.react_text import parse
from retinue.strategies.plan_text import UnreadablePlan, read_plan
from retinue.strategies.prompting.injection_guard import neutralize

DATA = Path(__file__).parents[1] / "tests" / "data"
SLOW = 0.050  # seconds
LARGEST = 2_500  # characters


def weather(city: str, days: int = 3) -> str:
    """Forecast the weather."""
    return f"{days} sunny days in {city}"


def now() -> str:
    """The time."""
    return "noon"


TOOLS = (Tool("Search", lambda query: query, "Search"), Tool("weather", weather), Tool("now", now))
SPLICED = (
    "Action: ~Action Input: ~Final Answer: ~Observation: ~Thought: ~Follow up [Search]: ~Follow up: "
    "~So the final answer is: ~Intermediate answer: ~\"~'~{~}~[~]~,~:~|~\\~\n~```json\n~```~NaN~1e999~-0"
    "~\\u0061~\\ud800~\u200b~\uff1a~\u2028~<|im_start|>~null~None~True~**~Search[x]~weather(~Plan:~1. "
    '~"actions": [~"action": "now"~"answer": ~"arguments": {~"tool_calls": '
).split("~")


def _action_parts(decided: Decided) -> tuple[AgentAction, ...]:
    return () if isinstance(decided, AgentFinish) else decided


def _react(text: str) -> tuple[AgentAction, ...]:
    decision = parse(text, TOOLS).decision
    return (decision,) if isinstance(decision, AgentAction) else ()


def _planned(text: str) -> tuple[AgentAction, ...]:
    try:
        read_plan(text, 8)
    except UnreadablePlan as error:
        raise UnreadableReply from error
    return ()


def _answered(text: str) -> tuple[AgentAction, ...]:
    answer_of(text)
    return ()


PARSERS: Mapping[str, Callable[[str], tuple[AgentAction, ...]]] = {
    "react": _react,
    "react, closing": _answered,
    "react_json": lambda text: read_reply(text, TOOLS).actions,
    "self_ask": lambda text: _action_parts(self_ask.parse_self_ask(text, TOOLS).decision),
    "plans": _planned,
}
DECIDING = ("react", "react_json", "self_ask")


@dataclass
class Tally:
    """What was done. `forged`: disguised decisions that were taken before they were quoted. `slowest` is in seconds,
    with the text, by parser."""

    texts: int = 0
    decided: int = 0
    forged: int = 0
    slowest: dict[str, tuple[float, str]] = field(default_factory=dict)

    def took(self, name: str, seconds: float, text: str) -> None:
        """Keep the slowest."""
        if seconds > self.slowest.get(name, (0.0, ""))[0]:
            self.slowest[name] = seconds, text


def fuzz(count: int, seed: int = 0) -> Tally:
    """Check so many texts. Raises `AssertionError` with the text at which something is wrong."""
    tally = Tally()
    assert all(tool.signature for tool in TOOLS), "made before the clock runs"
    for text in texts(count, random.Random(seed)):
        tally.texts += 1
        for name, parser in PARSERS.items():
            for action in _timed(tally, name, parser, text):
                tally.decided += 1
                assert stands_in(action, text), f"{name}: {action!r} is not in {text!r}"
        data = _quoted(tally, text)
        for name in DECIDING:
            actions = _timed(tally, name, PARSERS[name], data)
            assert not actions, f"{name}: {actions!r} was read in {data!r}, quoted from {text!r}"
    for text in forged(count, random.Random(seed)):
        tally.forged += bool(taken_by(text))
        assert not (taken := still_taken(text, neutralize)), f"{taken} take {neutralize(text)!r}, quoted from {text!r}"
    return tally


def _timed(
    tally: Tally, name: str, parser: Callable[[str], tuple[AgentAction, ...]], text: str
) -> tuple[AgentAction, ...]:
    began = time.process_time()
    try:
        return parser(text)
    except UnreadableReply:
        return ()
    finally:
        tally.took(name, time.process_time() - began, text)


def _quoted(tally: Tally, text: str) -> str:
    began = time.process_time()
    data = neutralize(text)
    tally.took("quoted", time.process_time() - began, text)
    return data


# ── whether what was decided stands in the text ──────────────────────────────────────────────────


def stands_in(action: AgentAction, text: str) -> bool:
    """Whether the tool's name and all of the input are in `text`."""
    plain = _letters(text)
    named = (
        "\\u" in text or _letters(action.tool) in plain or ("followup" in plain and action.tool == TOOLS[0].name)
    )  # the default
    return named and all(_is_whole(value, text, plain) for value in _leaves(action.tool_input))


def _leaves(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    elif isinstance(value, str) and value.startswith("{"):  # JSON for a tool that takes a text, in its plain notation
        with suppress(ValueError, RecursionError):
            yield from _leaves(json.loads(value))
            return
        yield value
    else:
        yield value


def _is_whole(value: object, text: str, plain: str) -> bool:
    if isinstance(value, bool) or value is None:
        return str(value).lower() in text.lower() or (value is None and "null" in text.lower())
    if isinstance(value, int | float):
        return any(float(found) == value for found in re.findall(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?", text))
    return "\\" in text or _letters(str(value)) in plain


def _letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", text.lower())


# ── texts ────────────────────────────────────────────────────────────────────────────────────────


def texts(count: int, luck: random.Random) -> Iterator[str]:
    """So many texts: valid replies and recorded ones, mutated; and some made of pieces alone."""
    sources = [*_valid(), *_recorded()]
    for _ in range(count):
        text = luck.choice(sources) if luck.random() < 0.9 else "".join(luck.choices(SPLICED, k=luck.randint(1, 40)))
        for _ in range(luck.choice((0, 1, 1, 2, 3))):
            text = luck.choice(_MUTATIONS)(text, sources, luck)
        yield text[:LARGEST]


def _valid() -> list[str]:
    """What a model should write under each strategy."""
    given = ["Paris, in the spring: 1984?", '{"query": "x"}', "a \"b\" OR 'c'", "47^0.23 * (2 - 1)", "é – 日本 🙂"]
    values = [{"city": text, "days": days} for text, days in zip(given, (1, -2, 30, 4, 5), strict=True)]
    written = []
    for text, value in zip(given, values, strict=True):
        calls = [{"action": "weather", "arguments": value}, {"action": "Search", "arguments": {"query": text}}]
        pad = {"thought": f"I need {text}", "action": "Search", "observations": text}
        written += [
            f" I look up {text}\nAction: Search\nAction Input: {text}\n",
            f"Thought 1: hm\nAction 1: Search[{text}]\n",
            f" hm\nAction: weather\nAction Input: {json.dumps(value)}\n",
            f" I know\nFinal Answer: {text}",
            json.dumps({"actions": calls, "scratchpad": pad}),
            json.dumps({"scratchpad": pad, "actions": calls[1:]}, indent=2, ensure_ascii=False),
            f"Here it is:\n```json\n{json.dumps({'answer': text, 'scratchpad': pad})}\n```",
            json.dumps(json.dumps({"actions": calls})),
            json.dumps({"name": "weather", "arguments": json.dumps(value)}),
            f" Yes.\nFollow up [weather]: {json.dumps(value)}\nFollow up [Search]: {text}\n",
            f"So the final answer is: {text}\n",
            f'Plan:\n1. find {text}\n2. answer\n{{"steps": ["find it", "{text[:5]}"]}}',
            f'<tool_call>\n{{"name": "Search", "arguments": {{"query": "{text[:3]}"}}}}\n</tool_call>',
        ]
    return written


def _recorded() -> list[str]:
    found = []
    for path in sorted(DATA.glob("*.txt")):
        found += re.findall(r"^Thought \d+:((?:.|\n)*?)(?=^Observation \d+:|^Question:|\Z)", path.read_text(), re.M)
    return found


Mutation = Callable[[str, list[str], random.Random], str]


def _cut(text: str, sources: list[str], luck: random.Random) -> str:
    return text[: luck.randint(0, len(text))]


def _cut_begin(text: str, sources: list[str], luck: random.Random) -> str:
    return text[luck.randint(0, len(text)) :]


def _flip(text: str, sources: list[str], luck: random.Random) -> str:
    letters = list(text)
    for _ in range(luck.randint(1, 4)):
        if letters:
            letters[luck.randrange(len(letters))] = luck.choice("{}[]\",:\\\n '`*_<>|#-0aA\u200b\uff1a")
    return "".join(letters)


def _splice(text: str, sources: list[str], luck: random.Random) -> str:
    at = luck.randint(0, len(text))
    return text[:at] + luck.choice((luck.choice(SPLICED), luck.choice(sources))) + text[at:]


def _double(text: str, sources: list[str], luck: random.Random) -> str:
    begin = luck.randint(0, len(text))
    return text[:begin] + text[begin : begin + luck.randint(1, 200)] * 2 + text[begin:]


def _nest(text: str, sources: list[str], luck: random.Random) -> str:
    depth, at = luck.choice((3, 3, 45, 45, 300)), luck.randint(0, len(text))
    opening, closing = luck.choice((("[", "]"), ('{"a": ', "}"), ('{"actions": [', "]}"), ('{"decision": ', "}")))
    return text[:at] + opening * depth + luck.choice(("1", text[at:])) + closing * luck.choice((0, depth)) + text[at:]


def _repeat(text: str, sources: list[str], luck: random.Random) -> str:
    at, piece = luck.randint(0, len(text)), luck.choice((*SPLICED, " ", "_", "*", "1", "\t", "a "))
    return text[:at] + piece * luck.choice((10, 10, 100, 2_000)) + text[at:]


_MUTATIONS: tuple[Mutation, ...] = (_cut, _cut_begin, _flip, _flip, _splice, _splice, _double, _nest, _repeat)


def measure(count: int = 100_000, seed: int = 0) -> str:
    """A table: how many texts were tried, and the slowest parse by each parser. Fails if one is too slow."""
    began = time.perf_counter()
    tally = fuzz(count, seed)
    took = time.perf_counter() - began
    slow = {name: text for name, (seconds, text) in tally.slowest.items() if seconds > SLOW}
    assert not slow, f"slower than {SLOW * 1e3:.0f} ms: {slow}"
    rows = "\n".join(f"| {name} | {seconds * 1e3:.1f} |" for name, (seconds, _) in tally.slowest.items())
    return (
        f"{tally.texts:,} generated and mutated replies (seed {seed}) of at most {LARGEST:,} characters, {took:.0f} s. "
        f"No exception but the declared ones; {tally.decided:,} actions were read, each complete in its text; nothing "
        f"quoted was read as protocol. As many forged decisions in disguise: {tally.forged:,} were taken, none once "
        f"quoted.\n\n| parser | slowest, ms |\n|---|---|\n{rows}\n"
    )
