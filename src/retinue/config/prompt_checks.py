"""Checks of agents' prompts for variables that are never filled in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from string import Template

from .places import Found, Node, unknown

_FILLED = (
    "tools",
    "tool_names",
    "answer",
    "examples",
    "history",
    "question",
    "query",
)  # by `React.question`
_TRANSCRIPT = "; the transcript follows the prompt automatically, so leave it out"


def check_prompts(params: Node, components: Mapping[str, Node]) -> Iterator[Found]:
    """Yield a warning for each variable of an agent's prompt that is not filled in."""
    if (params.at("strategy").text or "react") != "react":
        return
    prompts = [params.at("custom_prompt"), _template(params.at("prompt_node"), components)]
    for prompt in prompts:
        names = list(dict.fromkeys(_variables(prompt.text)))
        if not {"question", "query"} & set(names):
            continue  # not a whole prompt, but text before ours
        for name in names:
            if name not in _FILLED:
                more = _TRANSCRIPT if name == "transcript" else " (for a dollar sign, write $$)"
                said = unknown("variable", f"${name}", [f"${one}" for one in _FILLED])
                yield Found(prompt.path, f"{prompt.path[-1]}: {said}{more}", warning=True)


def _template(prompt_node: Node, components: Mapping[str, Node]) -> Node:
    """Return the text of the prompt node's template, if it is in the file."""
    node = components.get(prompt_node.text, Node(None))
    named = node.at("params").at("default_prompt_template")
    template = components.get(named.text)
    return named if template is None else template.at("params").at("prompt_text")


def _variables(text: str) -> Iterator[str]:
    for match in Template.pattern.finditer(text):
        if name := match["named"] or match["braced"]:
            yield name
