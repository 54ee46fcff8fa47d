"""`simple`: a strategy of two functions, in LangChain's vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from fakes.said import Said
from retinue import Agent, Budget, Message, StopReason, Tool
from retinue.core.protocols import Strategy
from retinue.extend import AgentAction, AgentFinish
from retinue.strategies import UnreadableReply, simple
from retinue.strategies.simple import CLOSING

LOOK = Tool("look", lambda name: f"{name} is 47", "Look somebody up", effects="read")


def prompt(inputs: Mapping[str, Any]) -> str:
    tools = ", ".join(tool.name for tool in inputs["tools"])
    chat = "".join(f"{message.role}: {message.content}\n" for message in inputs["chat_history"])
    steps = "".join(f"{action.log}\n> {seen}\n" for action, seen in inputs["intermediate_steps"])
    return f"{chat}Tools: {tools}\n{inputs['input']}\n{steps}"


def parse(text: str) -> AgentAction | list[AgentAction] | AgentFinish:
    if text.startswith("! "):
        return AgentFinish({"output": text[2:]}, text)
    if text.startswith("? "):
        return [AgentAction("look", name, text) for name in text[2:].split()]
    raise UnreadableReply("begin with ! or ?")


def own(**options: Any) -> Strategy:
    return simple("own", **({"prompt": prompt, "parse": parse} | options))


def test_the_prompt_is_made_of_the_inputs_and_grows() -> None:
    model = Said(["? Ada", "! 47"])
    history = [Message("user", "Hi")]
    result = Agent(model, [LOOK], strategy=own(stop=["\n>"])).run("How old is Ada?", history=history)
    assert (result.answer, result.transcript) == (
        "47", "user: Hi\nTools: look\nHow old is Ada?\n? Ada\n> Ada is 47\n! 47",
    )  # fmt: skip
    assert model.asked[1].prompt.messages[0] is model.asked[0].prompt.messages[0], "the former prompt is extended"
    assert model.asked[0].stop == ("\n>",)


def test_a_prompt_that_does_not_grow_is_a_new_one() -> None:
    def last_only(inputs: Mapping[str, Any]) -> str:
        return f"{inputs['input']} {[seen for _, seen in inputs['intermediate_steps']][-1:]}"

    model = Said(["? Ada", "? Bob", "! 47"])
    Agent(model, [LOOK], strategy=own(prompt=last_only)).run("Why?")
    assert [len(request.prompt.messages) for request in model.asked] == [1, 1, 1]
    assert model.asked[2].prompt.text == "Why? ['Bob is 47']"


def test_several_actions_are_steps_of_their_own() -> None:
    result = Agent(Said(["? Ada Bob", "! both"]), [LOOK], strategy=own()).run("Why?")
    assert len(result.steps[0].actions) == 2
    assert result.transcript.endswith("? Ada Bob\n> Ada is 47\n? Ada Bob\n> Bob is 47\n! both")


@pytest.mark.parametrize("error", [ValueError("odd"), UnreadableReply("odd")])
def test_what_parse_cannot_read_is_a_step_as_in_langchain(error: Exception) -> None:
    seen: list[Any] = []

    def failing(text: str) -> AgentFinish:
        if text != "fine":
            raise error
        return AgentFinish({"output": text})

    def watching(inputs: Mapping[str, Any]) -> str:
        seen.append([(action.tool, observation) for action, observation in inputs["intermediate_steps"]])
        return prompt(inputs)

    result = Agent(Said(["x", "fine"]), [LOOK], strategy=own(prompt=watching, parse=failing)).run("Why?")
    assert result.answer == "fine"
    assert seen == [[], [("_Exception", "odd")]]


@pytest.mark.parametrize(
    ("reply", "answer"), [("! 47", "47"), ("It is 47.", "It is 47."), ("? Ada", ""), (" ", "")]
)  # fmt: skip
def test_the_closing_question_is_langchains(reply: str, answer: str) -> None:
    model = Said([reply])
    result = Agent(model, [LOOK], strategy=own(), budget=Budget(1)).run("Why?")
    assert model.asked[0].prompt.text == "Tools: look\nWhy?\n" + CLOSING
    assert result.answer == answer
    assert (result.stop_reason is StopReason.ANSWER) is bool(answer)


def test_no_action_at_all_is_unreadable() -> None:
    model = Said(["? ", "! x"])
    assert Agent(model, [LOOK], strategy=own()).run("Why?").answer == "x"
    assert model.asked[1].problem == "there is no action and no answer"


WANT = "want an AgentAction, a list of these, or an AgentFinish"


@pytest.mark.parametrize(
    ("given", "kind"), [(None, "NoneType"), ("47", "str"), ({"tool": "look"}, "dict"), (["look"], "str"), ((), "tuple")]
)
@pytest.mark.parametrize("steps", [1, 5], ids=["closing", "first"])
def test_a_parser_that_gives_anything_else_ends_the_run_and_is_told_what_to_give(
    given: Any, kind: str, steps: int
) -> None:
    strategy = own(parse=lambda text: given)
    result = Agent(Said(["x"]), [LOOK], strategy=strategy, budget=Budget(steps)).run("Why?")
    assert result.stop_reason is StopReason.ERROR
    assert result.error == f"parse of the strategy 'own' returned a {kind}; {WANT}"


def test_a_prompt_that_is_no_text_ends_the_run_and_is_told_so() -> None:
    result = Agent(Said(["x"]), [LOOK], strategy=own(prompt=lambda inputs: None)).run("Why?")
    assert (result.stop_reason, result.error) == (
        StopReason.ERROR, "prompt of the strategy 'own' returned a NoneType; want the whole prompt, a str",
    )  # fmt: skip


@pytest.mark.parametrize("trim", [0, 1, lambda steps: steps[-1:]])
def test_trimmed_steps_are_only_left_out_of_the_prompt(trim: Any) -> None:
    model = Said(["? Ada", "? Bob", "! 47"])
    result = Agent(model, [LOOK], strategy=own(trim_intermediate_steps=trim)).run("Why?")
    kept = "? Bob\n> Bob is 47\n" if trim != 0 else ""
    assert model.asked[2].prompt.text == f"Tools: look\nWhy?\n{kept}"
    assert len(result.steps) == 2
