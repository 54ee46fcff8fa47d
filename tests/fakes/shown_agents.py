"""Agents, teams and a pipeline that the studio's views show, answered for by scripts; and an evaluation."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from retinue import Agent, PromptModel, tool
from retinue.evals.configurations import Configuration
from retinue.evals.questions import Dataset, Question
from retinue.evals.study import Study, conduct, write_reports
from retinue.pipelines import Pipeline
from retinue.server.agents.deployment import as_agent
from retinue.teams import END, START, HumanGate, MessageGroup, Role, When

HOSTILE = (
    "<img src=x onerror=\"window.__pwned=1\"><script>window.__pwned=2</script>"
    "<svg onload=window.__pwned=3>{{7*7}}<a href=\"javascript:window.__pwned=4\">x</a> http://evil.test/a.png "
    "![x](http://evil.test/b.png) \u202egnp.exe"
)  # fmt: skip


@tool(effects="once")
def book(place: str, people: int = 2) -> str:
    """Book a table."""
    return f"A table for {people} at {place} is booked for tonight."


@tool(effects="read")
def look(place: str) -> str:
    """Look how the weather is at a place."""
    return f"In {place} it rains, at 14 °C."


@tool(effects="read")
def report(topic: str) -> str:
    """Give back what a stranger wrote."""
    return HOSTILE


MARKED_UP = "What does <img src=x onerror='window.__pwned=3'> mean?"


def waiter() -> Agent:
    """An agent one of whose tools needs a person, and another none."""
    script = [
        {"when": "is booked for", "say": "Done: your table is booked. Shall I order a taxi, too?"},
        {"when": "at 14 °C", "say": "It rains in Paris. Take an umbrella, and a coat: it is 14 °C."},
        {"when": "Refused|reject", "say": "Then I shall not book it."},
        {"when": "weather", "call": {"tool": "look", "input": {"place": "Paris"}}},
        {"when": "(?i)table", "call": {"tool": "book", "input": {"place": "Nopi", "people": 2}}},
        {"when": "(?i)report", "call": {"tool": "report", "input": {"topic": "all"}}},
        {"when": "onerror", "say": f"It says: {HOSTILE}"},
        {"when": "", "say": "Good evening. I look at the weather, and I book tables."},
    ]
    model = PromptModel(script=script, sees=True)
    return Agent(
        model,
        [book, look, report],
        name="waiter",
        strategy="tool_calling",
        instructions="Be kind.",
        require_human_feedback=["book"],
        questions=["How is the weather in Paris?", MARKED_UP],
    )


def review() -> Agent:
    """A graph with a loop, a gate and an edge for errors: the first draft is too short."""
    drafts = iter(["Rain.", "It rains in Paris all day long, so take an umbrella."] * 20)
    group = MessageGroup("review", state={"draft": "str", "score": "int"})
    group.add_role(Role("research", look, input={"place": "question"}, effects="read"))
    group.add_role("write", lambda research: next(drafts), output="draft")
    group.add_role("grade", lambda draft: len(draft) // 5, output="score")
    group.add_role(HumanGate("editor", shows="draft", question="May this be published?"))
    group.add_role("publish", lambda draft: f"Published: {draft}", output="answer")
    group.add_role("apologize", lambda: "There is no report today.", output="answer")
    group.add_edge(START, "research").add_edge("research", "write").add_edge("research", "apologize", on_error=True)
    group.add_edge("write", "grade").add_edge("editor", "publish").add_edge("publish", END).add_edge("apologize", END)
    good = When([("score > 5", "good")], "too short")
    group.add_conditional_edges("grade", {"good": "editor", "too short": "write"}, good)
    return group.compile()


def boss() -> Agent:
    """A team of two levels."""
    looks = [
        {"when": "14 °C", "say": "It rains, at 14 °C."},
        {"when": "", "call": {"tool": "look", "input": {"place": "Rome"}}},
    ]
    looker = Agent(
        PromptModel(script=looks), [look, report], name="looker", strategy="tool_calling", instructions="Look closely."
    )
    poet = Agent(PromptModel(script=["Rain on every dome."]), name="poet")
    script = [
        {"when": "every dome", "say": "Rain on every dome of Rome, at 14 °C."},
        {"when": "It rains, at", "call": {"tool": "poet", "input": {"query": "A line on rain in Rome"}}},
        {"when": "", "call": {"tool": "looker", "input": {"query": "What of Rome?"}}},
    ]
    return Agent(PromptModel(script=script), [looker, poet, book], name="boss", strategy="tool_calling")


def sorting() -> Agent:
    """A pipeline with two branches that meet again."""
    pipeline = Pipeline(name="sorting")
    pipeline.add_node(lambda query: ({"text": query}, "output_2" if "?" in query else "output_1"), "Sort", ["Query"])
    pipeline.add_node(lambda text: {"said": f"A question: {text}"}, "Question", ["Sort.output_2"])
    pipeline.add_node(lambda text: {"said": f"A statement: {text}"}, "Statement", ["Sort.output_1"])
    pipeline.add_node(lambda said: {"answer": said}, "Tell", ["Question", "Statement"])
    return as_agent(pipeline)


def shown_agents() -> Mapping[str, Agent]:
    """All of them, by the names of the models that are served."""
    return {"waiter": waiter(), "review": review(), "boss": boss(), "sorting": sorting()}


def evaluated(out: Path) -> None:
    """Ask two configurations the same questions, and write the reports."""
    questions = [
        Question("film", "Who directed The Piano?", ("Jane Campion",), tags=("people",)),
        Question("deep", "How deep is Lake Orlo?", ("84",), tags=("numbers",)),
        Question("wide", "How wide is Lake Orlo?", ("7",), tags=("numbers",)),
        Question("evil", f"What of {HOSTILE}?", ("nothing",), tags=("people", "<b>odd</b>")),
    ]
    script = [
        {"when": "Piano", "finish": "Jane Campion"},
        {"when": "14 °C", "finish": "84"},
        {"when": "deep", "call": {"tool": "look", "input": {"place": "Orlo"}}},
        {"when": "wide", "finish": "About 7"},
        {"finish": HOSTILE},
    ]
    good = Agent(PromptModel(script=script), [look], strategy="tool_calling", name="careful")
    bad = Agent(PromptModel(script=[{"when": "wide", "finish": "7"}, {"finish": "I do not know"}]), name="hasty")
    configurations = [Configuration("careful", good), Configuration("hasty", bad)]
    study = Study(configurations, Dataset("lakes", tuple(questions), None), out)
    with ThreadPoolExecutor(1) as thread:  # a browser's loop may run in this one
        write_reports(study, thread.submit(asyncio.run, conduct(study)).result())
