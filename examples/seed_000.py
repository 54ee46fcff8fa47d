"""The agent of seed 000: a search engine, and a calculator that is a pipeline of a prompt and a Python runtime.

    python examples/seed_000.py

runs without a network: OpenAI's completions and SerpAPI are the tests' stand-ins on this machine. For the real ones
set OPENAI_API_KEY and SERPAPI_API_KEY, and leave out base_url.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))  # where the stand-ins are

from fakes.openai_server import OpenAIServer
from fakes.seed_000 import ABOUT, CALCULATOR, QUESTION, REPLIES
from fakes.serpapi_server import KEY, SerpAPIServer
from retinue import Agent, Pipeline, PromptModel
from retinue.components import PromptNode, PromptTemplate, PythonRuntime, SerpAPIComponent


def main() -> None:
    """Ask the seed's question, and print the transcript."""
    with OpenAIServer() as openai, SerpAPIServer() as serpapi:
        openai.replies += REPLIES
        serpapi.found["Olivia Wilde's boyfriend"] = {"answer_box": {"title": "Timeline", "snippet": ABOUT}}
        serpapi.found["Jason Sudeikis age"] = {"answer_box": {"title": "Jason Sudeikis / Age", "answer": "47 years"}}

        model = PromptModel("text-davinci-003", base_url=f"{openai.url}/v1")
        calculator = Pipeline()
        template = PromptTemplate(prompt_text=CALCULATOR)
        calculator.add_node(PromptNode(model, template, output_variable="python_runtime_input"))
        calculator.add_node(PythonRuntime())

        agent = Agent(prompt_node=PromptNode(model, stop_words=["Observation:"]))
        agent.add_tool(
            "Search",
            SerpAPIComponent(KEY, base_url=serpapi.url),
            "useful for when you need to answer questions about current events. You should ask targeted questions",
        )
        agent.add_tool("Calculator", calculator, "useful for when you need to answer questions about math")
        print(agent.run(QUESTION).transcript)


if __name__ == "__main__":
    main()
