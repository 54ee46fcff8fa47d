"""Components that come along keep to the contract of components, and the suite that says so finds those that do not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

import pytest

from fakes.free_services import FrankfurterServer
from fakes.search_server import KEY, WRONG_KEY, SearchServer, results
from retinue import Document, DocumentStore, PromptModel, components
from retinue.components import (
    CurrencyConverter,
    DocumentSplitter,
    PromptNode,
    PythonRuntime,
    Ranker,
    Reader,
    ReportWriter,
    Retriever,
    SearchEngine,
    TopPSampler,
)
from retinue.core.component import DeclaredComponent
from retinue.extend import Component
from retinue.testing import Case, ComponentSubject, component_cases

every_case = pytest.mark.parametrize("case", component_cases(), ids=str)
PARIS, PEARS = Document("Paris is the capital of France.", "1"), Document("Pears are fruit.", "2")


class Longest:
    """A cross-encoder to which a long text is a good one."""

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        return [float(len(text)) for text in texts]


def retriever() -> Retriever:
    store = DocumentStore()
    store.write([PARIS, PEARS])
    return Retriever(store, top_k=1)


def model() -> PromptModel:
    return PromptModel(script=[{"when": "", "raw": "Paris"}])


DOCUMENTS = [PEARS, PARIS]
SUBJECTS: Mapping[str, ComponentSubject] = {
    "PromptNode": ComponentSubject(lambda: PromptNode(model(), "About $query."), [{"query": "France"}]),
    "PythonRuntime": ComponentSubject(PythonRuntime, [{"query": "print(19 + 23)"}]),
    "DocumentSplitter": ComponentSubject(lambda: DocumentSplitter(40), [{"documents": DOCUMENTS}]),
    "Ranker": ComponentSubject(lambda: Ranker(Longest()), [{"query": "a", "documents": DOCUMENTS}], yaml=False),
    "TopPSampler": ComponentSubject(
        lambda: TopPSampler(0.9, Longest()), [{"query": "a", "documents": DOCUMENTS}], yaml=False
    ),
    "Reader": ComponentSubject(lambda: Reader(PromptNode(model())), [{"query": "Where?", "documents": DOCUMENTS}]),
    "Retriever": ComponentSubject(retriever, [{"query": "capital"}, {"query": "fruit"}], yaml=False),
}


@pytest.mark.matrix
@pytest.mark.parametrize("subject", SUBJECTS.values(), ids=SUBJECTS)
@every_case
def test_a_component_keeps_to_the_contract(case: Case[ComponentSubject], subject: ComponentSubject) -> None:
    case.run(subject)


@every_case
def test_a_service_keeps_to_the_contract(case: Case[ComponentSubject]) -> None:
    with FrankfurterServer() as server:
        values = [{"query": "100 EUR in USD"}, {"query": "5 EUR in EUR"}]
        wrong = [{"query": "1 EUR in XYZ"}]
        case.run(ComponentSubject(lambda: CurrencyConverter(base_url=server.url), values, wrong))


@every_case
def test_a_writer_of_reports_keeps_to_the_contract(case: Case[ComponentSubject], tmp_path: Path) -> None:
    values = [{"title": "A", "report": "Text [b](c)."}, {"title": "B", "report": "Another."}]
    wrong = [{"title": "", "report": "Text."}, {"title": "A", "report": " "}]
    case.run(ComponentSubject(lambda: ReportWriter(tmp_path), values, wrong, yaml=False))


@every_case
def test_a_service_with_a_key_keeps_to_the_contract(case: Case[ComponentSubject]) -> None:
    with SearchServer("serper") as server:
        server.pages = results(3)
        subject = ComponentSubject(
            lambda: SearchEngine("serper", api_key=KEY, base_url=server.url), [{"query": "coffee"}], yaml=False
        )
        if "raises" in case.name or "secret" in case.name:
            server.failure = WRONG_KEY["serper"]
            subject = replace(subject, failing=subject.inputs, secret=KEY)
        case.run(subject)


# ── components that break it ─────────────────────────────────────────────────────────────────────


class Said(TypedDict):
    said: str


class Honest(Component):
    async def run_async(self, text: str, tags: list[str] | None = None) -> Said:
        if text == "nothing":
            raise ValueError("nothing to say")
        return {"said": f"{text} {tags}"}


class Lopsided:
    def run(self, text: str) -> Said:
        return {"said": text}

    async def run_async(self, text: str, tags: list[str] | None = None) -> Said:
        return {"said": text}


class Talkative:
    def run(self, text: str, tags: list[str] | None = None) -> Said:
        return {"said": text, "more": text}  # type: ignore[typeddict-unknown-key]


class Changing:
    def run(self, text: str, tags: list[str] | None = None) -> Said:
        (tags or []).append(text)
        return {"said": text}


class TwoFaced:
    def run(self, text: str, tags: list[str] | None = None) -> Said:
        return {"said": text.upper()}

    async def run_async(self, text: str, tags: list[str] | None = None) -> Said:
        return {"said": text}


class Rooted:
    loop: Any = None

    async def run_async(self, text: str, tags: list[str] | None = None) -> Said:
        self.loop = self.loop or asyncio.get_running_loop()
        if self.loop is not asyncio.get_running_loop():
            raise RuntimeError("attached to a different loop")
        return {"said": text}


class Overlapping:
    text = ""

    async def run_async(self, text: str, tags: list[str] | None = None) -> Said:
        self.text = text
        await asyncio.sleep(0)
        return {"said": self.text}


class Unique(Honest):
    def __copy__(self) -> Unique:
        raise TypeError("there is only one")


class Clashing:
    def run(self, params: str) -> Said:
        return {"said": params}


class Swallowing:
    def run(self, text: str, tags: list[str] | None = None) -> Said:
        return {"said": text}


class Weather:
    """Is called as one that files know."""

    def run(self, text: str, tags: list[str] | None = None) -> Said:
        return {"said": text}


class Telling(Honest):
    def __repr__(self) -> str:
        return f"Telling(api_key={KEY!r})"


class Unchecked(DeclaredComponent):
    """Takes what it is given as it is, and gives batches in their reverse order."""

    def check_names(self, values: Iterable[str]) -> None:
        pass

    def select_arguments(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {"text": str(values.get("text"))}

    async def run_batch_async(self, batch: Iterable[Any], *, at_once: int = 4) -> list[Any]:
        return (await super().run_batch_async(batch, at_once=at_once))[::-1]


class Declaring(Honest):
    def as_component(self) -> Unchecked:
        declared = DeclaredComponent.__new__(Unchecked)
        found = SUBJECT.component()
        for name in ("name", "function", "inputs", "outputs", "always", "output", "whole", "branches", "takes_all"):
            object.__setattr__(declared, name, getattr(found, name))
        return declared


SUBJECT = ComponentSubject(Honest, [{"text": "a", "tags": ["x"]}, {"text": "b"}], [{"text": "nothing"}], secret=KEY)


@every_case
def test_a_component_of_ones_own_keeps_to_the_contract(case: Case[ComponentSubject]) -> None:
    case.run(SUBJECT)


@pytest.mark.parametrize(
    ("kind", "clause", "problem"),
    [
        (Lopsided, "its inputs are its parameters", "what `run` takes .*: {'text': True} / {'text': True, 'tags'"),
        (Talkative, "its outputs are those it declares", "it gave more, and declares said"),
        (Declaring, "a missing input is named", "want a UsageError; it gave {'said': 'None None'}"),
        (Declaring, "an unknown input is named", "want a UsageError; it gave {'said': 'a None'}"),
        (Declaring, "an input of a wrong type is named", "want a UsageError; it gave {'said': '<object"),
        (Changing, "its inputs are not changed", "the inputs before and after"),
        (TwoFaced, "blocking and awaited are the same", "awaited, and blocking: {'said': 'a'} / {'said': 'A'}"),
        (Rooted, "any event loop will do", "unexpectedly raised RuntimeError: attached to a different loop"),
        (Declaring, "a batch keeps its order", "alone, and as a batch"),
        (Overlapping, "runs side by side are independent", "alone, and at once: .*'a'.*/.*'b'"),
        (Unique, "a copy gives the same", "unexpectedly raised TypeError: there is only one"),
        (Clashing, "a pipeline may be made of it", "unexpectedly raised "),
        (Swallowing, "what it raises names its node", "given {'text': 'nothing'}, want an error; it gave"),
        (Weather, "a file can say it", "unexpectedly raised UsageError: .*a Weather cannot be written"),
        (Telling, "a secret is not shown", "its repr has the key in it"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_broken_component_is_found_and_the_clause_named(kind: type, clause: str, problem: str) -> None:
    subject = replace(SUBJECT, make=kind, inputs=[{"params": "a"}] if kind is Clashing else SUBJECT.inputs)
    (case,) = [one for one in component_cases() if one.name == clause]
    with pytest.raises(AssertionError, match=f"^component: {clause}: .*({problem})"):
        case.run(subject)


def test_every_component_runs_batches() -> None:
    lacking = []
    for name in components.__all__:
        kind = getattr(components, name)
        if isinstance(kind, type) and hasattr(kind, "run"):
            lacking += [f"{name}.{method}" for method in ("run_batch", "run_batch_async") if not hasattr(kind, method)]
    assert lacking == []
    assert DocumentSplitter(size=100).run_batch([{"documents": [PARIS]}]) == [DocumentSplitter(size=100).run([PARIS])]
