"""`retinue ask` and `retinue run`: answer a question with an agent made from options, or with one of a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from ..agent import Agent
from ..config.agent_code import Target, load_agent_code
from ..config.price_file import use_prices
from ..core.budgets import Budget
from ..core.tools.tool import Tool
from ..core.values import Document
from ..display.run_tree import View
from ..display.terminal import clean
from ..errors import DataError, UsageError
from ..models import PromptModel
from ..strategies import STRATEGIES
from ..strategies.auto import find_usual_steps, preset_strategy
from ..tools import calculator, passages
from ..tools.passages import Passages, Rank, Searchable, cut
from .models import offer_embedded_model
from .option_types import AGENTS, PATH
from .person import decide
from .run_output import EVENTS_OPTION, VERBOSE_OPTION, log_option, run_and_show

Command = TypeVar("Command", bound=Callable[..., Any])
_STRATEGY = "[default: careful for the embedded model or a GGUF file with --passages, else auto]"
_STEPS = f"[default: {find_usual_steps('careful')} with careful, else {find_usual_steps('auto')}]"
_OPTIONS = (
    click.option("--passages", type=PATH, help="Folder of files, its index, or JSONL file to search."),
    click.option("--rank", is_flag=True, help="Also rank what is found by its meaning (extra rank, model minilm)."),
    click.option("--model", default="", help="local, a name, ENGINE:NAME, or a GGUF file.  [default: local]"),
    click.option("--base-url", help="An OpenAI-compatible server, e.g. http://127.0.0.1:8080"),
    click.option("--strategy", help=f"One of {', '.join(STRATEGIES)}.  {_STRATEGY}"),
    click.option("--require-human-feedback", "ask_me", is_flag=True, help="Ask before each use of a tool."),
    click.option("--max-steps", type=click.IntRange(1), help=f"Replies of the model.  {_STEPS}"),
    click.option("--max-seconds", type=click.FloatRange(0, min_open=True), help="Time for a whole run."),
    click.option("--max-tokens", type=click.IntRange(1), help="Tokens for a whole run, in and out."),
    click.option("--stream/--no-stream", default=True, help="Receive the model's reply as a stream or at once."),
)


def agent_options(command: Command) -> Command:
    """Add the options of which `AgentOptions` consists."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command("ask")
@click.argument("question")
@agent_options
@VERBOSE_OPTION
@EVENTS_OPTION
@log_option
def command(question: str, *, verbose: bool, as_json: bool, **options: Any) -> int:
    """Answer QUESTION with an agent that can calculate and, with --passages, search.

    Shows the run as a tree: what the agent thinks, does and sees in each step, what that takes, and its answer. The
    exit status is 0 only for an answer.
    """
    run = AgentOptions(**options).agent().start(question)
    return run_and_show(run, as_json=as_json, view=View(verbose=verbose))


@click.command("run")
@click.argument("file", type=AGENTS)
@click.argument("question")
@click.option("--agent", help="Which agent, if the file has several that are nobody's workers.")
@VERBOSE_OPTION
@EVENTS_OPTION
@log_option
def run(file: Target, question: str, agent: str | None, verbose: bool, as_json: bool) -> int:
    """Answer QUESTION with an agent of FILE, and show its run as a tree.

    For an executor, the question is an action as JSON: {"tool": "NAME", "input": "…"}, or a list of these. The exit
    status is 0 only for an answer.
    """
    return run_and_show(load_agent(file, agent).start(question), as_json=as_json, view=View(verbose=verbose))


def load_agent(target: Target, name: str | None) -> Agent:
    """Return an agent of a file or of Python code, which asks the person at the terminal."""
    use_prices(beside=target.file)
    if target.code:
        agent = load_agent_code(target, name)
        agent.human = agent.human or decide
        return agent
    from ..config.yaml_files import load

    found: Agent = load(target.file, "agents", name, human=decide)
    return found


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """What the options say; their help explains them."""

    passages: Path | None = None
    rank: bool = False
    model: str = ""
    base_url: str | None = None
    strategy: str | None = None
    ask_me: bool = False
    max_steps: int | None = None
    max_seconds: float | None = None
    max_tokens: int | None = None
    stream: bool = True

    def agent(self) -> Agent:
        """Return the agent. Raises `UsageError` for options that do not fit together, or weights that are missing."""
        if self.rank and not self.passages:
            raise UsageError("--rank needs --passages, whose results it ranks")
        use_prices()
        tools: list[Tool] = [calculator]
        if self.passages:
            tools.insert(0, passages(_open_passages(self.passages), rank=_load_rank() if self.rank else None))
        if self.model in ("", "local") and not self.base_url:
            offer_embedded_model()
        answering = PromptModel(self.model, base_url=self.base_url, stream=self.stream)
        strategy = self.strategy or preset_strategy(answering.engine, searches=self.passages is not None)
        return Agent(
            answering,
            tools,
            strategy=strategy,
            budget=Budget(self.max_steps or find_usual_steps(strategy), self.max_seconds, self.max_tokens),
            human=decide,
            require_human_feedback=self.ask_me,
        )


def _open_passages(path: Path) -> Path | Searchable:
    """Return what is searched: the index at `path` or of that folder, the folder's files, or a file of passages."""
    from ..documents.document_store import DocumentStore
    from ..documents.folder_index import STORE, read_folder
    from ..documents.text_extraction import READABLE

    index = path / STORE if path.is_dir() else path
    if index.is_file() and (path.is_dir() or path.suffix == STORE.suffix):
        return _Index(DocumentStore(index).keyword)
    if not path.is_dir():
        return path
    problems: list[str] = []
    pieces = [
        Document(piece, meta={"title": one.meta["path"]})
        for one in read_folder(path, problems)
        for piece in cut(one.content)
    ]
    for problem in problems:
        click.echo(f"not searched: {clean(problem)}", err=True)
    if not pieces:
        raise DataError(f"{path} contains no passages (want {READABLE}, or an index of `retinue index`)")
    return Passages(pieces)


@dataclass(frozen=True, slots=True)
class _Index:
    """An index that is searched by words."""

    keyword: Callable[[str, int], list[Document]]

    def search(self, query: str, top_k: int = 3) -> list[Document]:
        return self.keyword(query, top_k)


def _load_rank() -> Rank:
    """Return the ranking of passages by meaning. Raises `UsageError` if its model is not installed."""
    from ..components import Ranker

    ranker = Ranker("minilm")
    return lambda query, found: ranker.run(query, found)["documents"]
