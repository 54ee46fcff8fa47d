"""Documents as components: alone, in pipelines, as tools, in files."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

from fakes import fork_server
from retinue import Agent, DataError, Document, DocumentStore, Pipeline, PromptModel, Tool, UsageError
from retinue.components import DocumentSplitter, DocumentWriter, FileConverter, PromptNode, Reader, Retriever
from retinue.config import check
from retinue.documents.retrieval import fuse_rankings

TEXTS = {
    "paris": "Paris is the capital of France.\n\nThe Louvre is there.",
    "rome": "Rome is the capital of Italy.",
    "zebra": "A zebra has stripes.",
}
MEANINGS = {"paris": [1, 0, 0], "rome": [0.6, 0.8, 0], "zebra": [0, 0, 1], "animal": [0, 0.1, 1], "city": [1, 1, 0]}


class Meanings:
    """An embedder that knows a few words."""

    dimensions = 3

    def embed(self, texts: Any) -> Any:
        known = [next(vector for word, vector in MEANINGS.items() if word in text.lower()) for text in texts]
        vectors = numpy.array(known, numpy.float32)
        return vectors / numpy.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture
def store() -> Iterator[DocumentStore]:
    with DocumentStore() as store:
        documents = [Document(text, name, {"title": name.title(), "length": len(text)}) for name, text in TEXTS.items()]
        assert DocumentWriter(store, Meanings()).run(documents) == {"written": 3}
        yield store


def names(found: Any) -> list[str]:
    return [document.id for document in found["documents"]]


def test_retrieval_by_words_by_meaning_and_by_both(store: DocumentStore) -> None:
    words = Retriever(store)
    assert names(words.run("a capital in Italy")) == ["rome", "paris"]
    assert words.run("zebras")["results"] == "[Zebra] A zebra has stripes."
    assert words.run("animal")["results"] == "Nothing was found. Try other words."
    meaning = Retriever(store, "vector", 2, Meanings())
    assert names(meaning.run("animal")) == ["zebra", "rome"]
    both = Retriever(store, "hybrid", 3, Meanings())
    found = both.run("Which city is the capital of Italy?")
    assert names(found) == ["rome", "paris", "zebra"]
    assert found["documents"][0].score == pytest.approx(1 / 61 + 1 / 61)
    assert names(both.run(" ")) == []


def test_what_holds_for_a_retriever_cannot_be_asked_away(store: DocumentStore) -> None:
    retriever = Retriever(store, where={"title": "Rome"})
    assert names(retriever.run("capital", where={"title": "Paris", "length": {"gt": 1}})) == ["rome"]
    assert names(Retriever(store).run("capital", 1, {"length": {"lt": 40}})) == ["rome"]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"mode": "semantic"}, "no mode 'semantic'; there are: keyword, vector, hybrid"),
        ({"mode": "hybrid"}, "needs an embedder"),
        ({"top_k": 0}, "top_k must be at least 1"),
        ({"store": "Store"}, "store must be a DocumentStore, not 'Store'"),
    ],
)
def test_settings_that_cannot_work(store: DocumentStore, settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        Retriever(**{"store": store} | settings)


class Mine:
    """A store with the methods of one, and nothing else of it."""

    def __init__(self, inner: DocumentStore) -> None:
        self.write, self.filter, self.get, self.delete = inner.write, inner.filter, inner.get, inner.delete
        self.keyword, self.nearest, self.close = inner.keyword, inner.nearest, inner.close
        self._inner = inner

    def __len__(self) -> int:
        return len(self._inner)


def test_a_store_of_ones_own_will_do(store: DocumentStore) -> None:
    mine = Mine(store)
    assert DocumentWriter(mine, Meanings()).run([Document("An animal sleeps.", "sloth")]) == {"written": 1}
    assert names(Retriever(mine, "hybrid", 1, Meanings()).run("animal")) == ["sloth"]
    with pytest.raises(UsageError, match="store must be a DocumentStore, not <class"):
        DocumentWriter(Mine)  # type: ignore[arg-type]


def test_ranks_are_fused() -> None:
    a, b, c = (Document(name, name, score=9.0) for name in "abc")
    assert [(one.id, one.score) for one in fuse_rankings([[a, b], [b, c], []])] == [
        ("b", 1 / 62 + 1 / 61),
        ("a", 1 / 61),
        ("c", 1 / 62),
    ]


# ── files ────────────────────────────────────────────────────────────────────────────────────────


def test_files_become_documents_or_problems(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("<title>T</title><body><p>Hello.</p></body>")
    (tmp_path / "b.bin").write_bytes(b"x")
    found = FileConverter().run([tmp_path / "a.html", str(tmp_path / "b.bin"), "/no/such.md", "\x00.md"])
    path = str(tmp_path / "a.html")
    assert found["documents"] == [Document("Hello.", path, {"path": path, "title": "T"})]
    assert [problem.rpartition(": ")[2][:12] for problem in found["problems"]] == [
        "cannot be re", "there is no ", "there is no ",
    ]  # fmt: skip


def test_who_names_a_file_sees_only_the_folder(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("inside")
    (tmp_path / "out.txt").write_text("outside")
    (tmp_path / "in" / "link.txt").symlink_to(tmp_path / "out.txt")
    (tmp_path / "in" / "loop.txt").symlink_to("loop.txt")
    reading = FileConverter(tmp_path / "in")
    assert [one.content for one in reading.run("a.txt")["documents"]] == ["inside"]
    assert asyncio.run(Tool("Read", reading).call("a.txt")) == "inside"
    for path in ("../out.txt", str(tmp_path / "out.txt"), "link.txt", "loop.txt", "a\x00.txt"):
        found = reading.run([path])
        assert (found["documents"], len(found["problems"])) == ([], 1)
    with pytest.raises(UsageError, match="a single path from a model requires a folder"):
        FileConverter().run(str(tmp_path / "out.txt"))


# ── answers ──────────────────────────────────────────────────────────────────────────────────────


def reading(*replies: str) -> Reader:
    return Reader(PromptNode(PromptModel(engine="scripted", script=list(replies))))


@pytest.mark.parametrize(
    ("reply", "answers"),
    [
        ("Paris", [("Paris", "a", 0, 5)]),
        ('- "the capital OF france."\n2) Rome\n', [("the  capital\nof France", "a", 9, 31), ("Rome", "b", 0, 4)]),
        ("Paris, Rome", []),
        ("Par", []),  # not a word
        ("none", []),
        ("Berlin\n\n...\nParis\nParis", [("Paris", "a", 0, 5)]),
        ("(.*)", []),
    ],
)
def test_only_what_stands_there_is_an_answer(reply: str, answers: list[tuple[str, str, int, int]]) -> None:
    documents = [Document("Paris is the  capital\nof France; none other.", "a"), Document("Rome (Italy).", "b")]
    found = reading(reply).run("What?", documents)
    assert [(one["answer"], one["document_id"], one["start"], one["end"]) for one in found["answers"]] == [
        (text, name, start, start + len(text)) for text, name, start, _ in answers
    ]
    assert found["results"] == ("\n".join(text for text, *_ in answers) or "The documents do not say.")
    contents = {document.id: document.content for document in documents}
    assert all(contents[one["document_id"]][one["start"] : one["end"]] == one["answer"] for one in found["answers"])


def test_without_documents_no_model_is_asked() -> None:
    assert reading("never asked").run("What?", [])["answers"] == []


# ── pipelines, tools, files of agents ────────────────────────────────────────────────────────────


def test_the_example_runs() -> None:
    example = Path(__file__).parents[2] / "examples" / "documents.py"
    done = fork_server.python(["-W", "error", example])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[1] == "retinue check"
    assert "retinue check  (cli.md#" in done.stdout


def test_an_indexing_pipeline_and_one_that_answers(tmp_path: Path) -> None:
    for name, text in TEXTS.items():
        (tmp_path / f"{name}.txt").write_text(text)
    store = DocumentStore()
    indexing = Pipeline(inputs=["file_paths"])
    indexing.add_node(FileConverter(), "Files", ["Query"])
    indexing.add_node(DocumentSplitter(40), "Pieces")
    indexing.add_node(DocumentWriter(store), "Writer")
    assert indexing.run(file_paths=sorted(tmp_path.iterdir()))["written"] == 4
    answering = Pipeline()
    answering.add_node(Retriever(store, top_k=2), "Search")
    answering.add_node(reading("the capital of Italy"), "Reader")
    found = answering.run("Rome's capital?", params={"Search": {"where": {"part": 0}}})
    assert found["results"] == "the capital of Italy"
    assert found["answers"][0]["document_id"] == f"{tmp_path}/rome.txt#0"
    store.close()


FILE = """\
retinue: 1
components:
  - {name: Store, type: DocumentStore, params: {path: kept/store.sqlite}}
  - {name: Search, type: Retriever, params: {store: Store, top_k: 2, where: {part: {gte: 0}}}}
  - {name: Files, type: FileConverter, params: {folder: docs}}
  - {name: Pieces, type: DocumentSplitter, params: {size: 100}}
  - {name: Writer, type: DocumentWriter, params: {store: Store}}
  - {name: Model, type: PromptModel, params: {engine: scripted, script: ["the capital of Italy"]}}
  - {name: Node, type: PromptNode, params: {model_name_or_path: Model}}
  - {name: Answer, type: Reader, params: {prompt_node: Node, top_k: 3}}
pipelines:
  - name: indexing
    nodes:
      - {name: Files, inputs: [File]}
      - {name: Pieces, inputs: [Files]}
      - {name: Writer, inputs: [Pieces]}
  - name: answering
    nodes:
      - {name: Search, inputs: [Query]}
      - {name: Answer, inputs: [Search]}
agents:
  - name: agent
    params:
      script: [{when: "^.rome. Rome is", finish: Rome}, {call: {tool: Docs, input: capital of Italy}}]
      tools: [{name: Docs, pipeline_or_node: Search, description: The documents., effects: read}]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "kept").mkdir()
    for name, text in TEXTS.items():
        (tmp_path / "docs" / f"{name}.txt").write_text(text)
    path = tmp_path / "file.yml"
    path.write_text(FILE)
    return path


def test_a_file_indexes_answers_and_gives_agents_a_tool(file: Path, tmp_path: Path) -> None:
    assert check(file) == []
    indexing = Pipeline.load_from_yaml(file, "indexing")
    assert indexing.run(file_paths=["paris.txt", "rome.txt", "../file.yml"])["written"] == 2
    found = Pipeline.load_from_yaml(file, "answering").run("What is the capital of Italy?")
    assert found["answers"][0]["document_id"] == "rome.txt#0"
    agent = Agent.load_from_yaml(file)
    result = agent.run("Which city is the capital of Italy?")
    assert result.answer == "Rome"
    assert "[rome] Rome is the capital of Italy." in result.transcript


@pytest.mark.parametrize("what", ["indexing", "answering", "agent"])
def test_what_is_saved_is_loaded_as_the_same(file: Path, what: str, tmp_path: Path) -> None:
    kind: Any = Agent if what == "agent" else Pipeline
    loaded = kind.load_from_yaml(file, what)
    loaded.save_to_yaml(tmp_path / "again.yml")
    assert kind.load_from_yaml(tmp_path / "again.yml", what) == loaded
    with pytest.raises(UsageError, match="names files in"):
        loaded.save_to_yaml(tmp_path / "docs" / "again.yml")


def test_what_was_made_in_code_is_written_with_its_store(tmp_path: Path) -> None:
    with DocumentStore(tmp_path / "store") as store:
        search = Retriever(store, where={"title": {"ne": "x"}}, top_k=4)
        agent = Agent(PromptModel(engine="scripted", script=[{"finish": "x"}]), [Tool("Docs", search, "The docs.")])
        agent.save_to_yaml(tmp_path / "agent.yml")
        text = (tmp_path / "agent.yml").read_text()
        assert "path: store\n" in text
        (found,) = Agent.load_from_yaml(tmp_path / "agent.yml").tools
        assert (found.something.top_k, found.something.where) == (4, {"title": {"ne": "x"}})
        (tmp_path / "inner").mkdir()
        with pytest.raises(UsageError, match=r"path cannot be written: .* is not under"):
            agent.save_to_yaml(tmp_path / "inner" / "agent.yml")


@pytest.mark.parametrize("path", ["../store.sqlite", "/tmp/store.sqlite", "~/store"])
def test_a_files_store_is_under_its_folder(tmp_path: Path, path: str) -> None:
    file = tmp_path / "file.yml"
    file.write_text(f"components:\n  - {{name: Store, type: DocumentStore, params: {{path: {path}}}}}\n")
    (problem,) = check(file)
    assert "path: " in str(problem)
    with pytest.raises(DataError, match="path: "):
        Pipeline.load_from_yaml(file)
