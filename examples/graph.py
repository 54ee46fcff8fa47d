"""A graph of roles: `python examples/graph.py [QUESTION]`.

Two roles look for material side by side, a third waits for both and writes, and a reviewer sends the text back until it
is good enough. Then a person is asked. The writer is scripted, so the example runs offline; give it a model instead.
"""

import sys
from typing import Any

from retinue import Agent, Decision, MessageGroup, PromptModel
from retinue.teams import END, START, HumanGate, StateField, When


def search(question: str) -> str:
    """Look for passages."""
    return f"a passage on {question}"


def count(question: str) -> str:
    """Look for numbers."""
    return f"{len(question.split())} words were asked"


def review(draft: str, visits: dict[str, int]) -> dict[str, Any]:
    """Rate a draft from 0 to 10, and say what is missing."""
    return {"score": 4 * visits["review"], "advice": "" if visits["review"] > 1 else "name the numbers"}


def group(writer: Agent) -> MessageGroup:
    """Return the group."""
    state = {"material": StateField(list, "append"), "draft": str, "score": int, "advice": str}
    made = MessageGroup("article", state=state, answer="draft")
    made.add_role("search", search, output="material")
    made.add_role("count", count, output="material")
    made.add_role("write", writer, input=["question", "material", "advice"], output="draft")
    made.add_role("review", review, output=["score", "advice"])
    made.add_role(HumanGate("approve", shows="draft", question="Publish it?"))
    for head, tail in [(START, "search"), (START, "count"), ("search", "write"), ("count", "write")]:
        made.add_edge(head, tail)
    made.add_edge("write", "review").add_edge("approve", END)
    good = When([("score >= 8 or visits.review > 3", "approve")], otherwise="write")
    return made.add_conditional_edges("review", ["write", "approve"], good)


def main(question: str) -> None:
    """Draw the graph, and answer with it."""
    script = [{"when": "name the numbers", "say": "A text with numbers."}, {"say": "A text."}]
    made = group(Agent(PromptModel(script=script), name="writer"))
    sys.stdout.write(f"{made.text()}\n\n")
    agent = made.compile()
    waiting = agent.run(question)
    done = agent.resume(waiting.events, {"consult_1": Decision("approve")})
    sys.stdout.write(f"{done.answer} {done.return_values['state']['visits']}\n")


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]) or "How is tea made?")
