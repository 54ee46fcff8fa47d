"""Names that are nearly right, variables that nobody fills in, outputs that are not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakes.said import Said
from retinue import Agent, DataError, Pipeline, Tool, UsageError
from retinue.components import SearchEngine
from retinue.config import check
from retinue.extend import component

HEAD = """\
components:
  - {name: Search, type: SearchEngine, params: {provider: serper, api_key: k}}
  - {name: Web, type: WebRetriever, params: {search_engine: Search}}
  - {name: Own, type: SearchEngine}
"""
AGENT = "agents:\n  - {name: a, params: {model: openai:m, api_key: k, TOOLS}}\n"


def problems(folder: Path, text: str) -> list[str]:
    path = folder / "a.yml"
    path.write_text(text)
    return [str(problem).removeprefix(f"{path}:") for problem in check(path)]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("provider: serper", "provider: SerperDev",
         "provider: unknown provider 'SerperDev'; did you mean 'serper'?"),
        ("search_engine: Search}", "search_engine: Search, mode: snippets}",
         "mode: unknown mode 'snippets'; did you mean 'snippet'?"),
        ("type: SearchEngine}", "type: SearchEngine, top_k: 3}",
         "unknown key 'top_k' here; it belongs under 'params'"),
        ("type: SearchEngine}", "type: MyEngineOfMine}",
         "unknown type of component 'MyEngineOfMine'; there are: "),
    ],
)  # fmt: skip
def test_a_near_name_in_a_file_is_told_which_was_meant(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in HEAD
    (found,) = problems(tmp_path, HEAD.replace(old, new))
    assert f" {said}" in found
    if "Mine" in new:
        assert found.endswith("A component of your own is named by its module: package.module:Name")


def test_a_near_name_in_python_too() -> None:
    with pytest.raises(UsageError, match=r"there is no provider 'SerperDev'; did you mean 'serper'\?"):
        SearchEngine("SerperDev", api_key="k")

    def find(query: str, top_k: int = 3) -> str:
        return query * top_k

    pipeline = Pipeline()
    pipeline.add_node(find, "Finder")
    assert pipeline.run("a", params={"Finder": {"top_k": 1}})["results"] == "a"
    with pytest.raises(UsageError, match=r"no node 'top_k'; 'Finder' has it: params=\{'Finder': \{'top_k': …\}\}"):
        pipeline.run("a", params={"top_k": 1})  # type: ignore[dict-item]
    with pytest.raises(UsageError, match=r"no node 'Findr'; did you mean 'Finder'\?"):
        pipeline.run("a", params={"Findr": {"top_k": 1}})


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ("Answer $question with $tools and $tool_names.", ""),
        ("It costs $$5: $question", ""),
        ("You like $money.", ""),
        ("$question $transcript", "unknown variable '$transcript'; there are: $tools, "),
        ("${query} ${toolz}", "unknown variable '$toolz'; did you mean '$tools'? (for a dollar sign, write $$)"),
    ],
)
def test_a_variable_that_nobody_fills_in_is_a_warning(tmp_path: Path, prompt: str, said: str) -> None:
    own = problems(tmp_path, AGENT.replace("TOOLS", f"custom_prompt: '{prompt}'"))
    template = f"components:\n  - {{name: T, type: PromptTemplate, params: {{prompt_text: '{prompt}'}}}}\n"
    template += "  - {name: N, type: PromptNode, params: {default_prompt_template: T}}\n"
    named = problems(tmp_path, template + "agents: [{name: a, params: {prompt_node: N}}]\n")
    for found, where in ((own, "custom_prompt"), (named, "prompt_text")):
        assert len(found) == bool(said)
        assert not said or f"warning: {where}: {said}" in found[0]
        assert "transcript" not in prompt or found[0].endswith("follows the prompt automatically, so leave it out")


def two_ends() -> Pipeline:
    @component(output="summary")
    def shorten(query: str) -> str:
        return f"{query} in short"

    @component(output="language")
    def guess(query: str) -> str:
        return f"{query} is English"

    pipeline = Pipeline(name="texts")
    pipeline.add_node(shorten, "Shorten", ["Query"])
    pipeline.add_node(guess, "Guess", ["Query"])
    return pipeline


def test_a_model_is_shown_all_outputs_of_a_pipeline_that_ends_at_several_nodes() -> None:
    agent = Agent(Said([" t\nAction: texts\nAction Input: hi\n", " t\nFinal Answer: x"]), [two_ends()])
    (step,) = agent.run("?").steps
    assert step.observations[0].text == '{"summary": "hi in short", "language": "hi is English"}'


def test_an_output_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    tools = "tools: [{name: t, pipeline_or_node: P, description: d, output_variable: nope}]"
    text = "components:\n  - {name: S, type: DocumentSplitter}\n  - {name: F, type: FileConverter}\npipelines:\n"
    text += "  - {name: P, nodes: [{name: F, inputs: [File]}, {name: S, inputs: [F]}]}\n"
    path = tmp_path / "a.yml"
    path.write_text(text + AGENT.replace("TOOLS", tools))
    with pytest.raises(DataError, match=r"output_variable: P has no output 'nope'; there are: .*documents"):
        Agent.load_from_yaml(path)


def test_an_output_that_only_its_run_knows_is_told_then() -> None:
    def free(query: str) -> dict[str, str]:
        return {"said": query}

    pipeline = Pipeline()
    pipeline.add_node(free, "Free")
    tool = Tool("t", pipeline, "d", output_variable="nope")
    agent = Agent(Said(["Action: t\nAction Input: q", "Final Answer: x"]), [tool])
    (step,) = agent.run("?").steps
    assert "there is no output 'nope'; there are: query, said" in step.observations[0].text
