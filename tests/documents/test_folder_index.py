"""A folder in a store: what is there, what has changed, what is gone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

from retinue import DataError, DocumentStore, UsageError
from retinue.documents import Indexed, index_folder


class Hashed:
    """An embedder whose vectors say how long a text is and how many words it has."""

    dimensions = 2

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed(self, texts: Any) -> Any:
        self.texts += texts
        vectors = numpy.array([[len(text), 10 * len(text.split())] for text in texts], numpy.float32)
        return vectors / numpy.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    (folder / "inner").mkdir(parents=True)
    (folder / "guide.md").write_text("# The guide\n\nInstall the tool.\n\nThen run it.")
    (folder / "inner" / "page.html").write_text("<title>A page</title><body><p>Pages are read too.</p></body>")
    (folder / "notes.txt").write_text("Notes on zebras.")
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DocumentStore]:
    with DocumentStore(tmp_path / "store") as store:
        yield store


def test_files_are_found_by_what_is_in_them(folder: Path, store: DocumentStore) -> None:
    seen: list[tuple[str, int, int]] = []
    done = index_folder(folder, store, size=30, report=lambda *how: seen.append(how))
    assert done == Indexed(new=3, pieces=4)
    assert seen == [("guide.md", 1, 3), ("inner/page.html", 2, 3), ("notes.txt", 3, 3)]
    (found,) = store.keyword("installation")
    assert (found.id, found.content) == ("guide.md#0", "# The guide\n\nInstall the tool.")
    assert found.meta == {"path": "guide.md", "title": "The guide", "part": 0}
    assert store.keyword("page", 1)[0].meta["title"] == "A page"


def test_only_what_has_changed_is_read_again(folder: Path, store: DocumentStore) -> None:
    embedder = Hashed()
    index_folder(folder, store, embedder=embedder)
    assert len(embedder.texts) == 3
    assert index_folder(folder, store, embedder=embedder) == Indexed(unchanged=3)
    os.utime(folder / "guide.md", (1, 1))  # touched, and the same
    assert index_folder(folder, store, embedder=embedder) == Indexed(unchanged=3)
    (folder / "guide.md").write_text("Everything is new.")
    (folder / "notes.txt").unlink()
    (folder / "more.text").write_text("More.")
    assert index_folder(folder, store, embedder=embedder) == Indexed(1, 1, 1, 1, 2)
    assert embedder.texts[3:] == ["guide\nEverything is new.", "more\nMore."]
    assert {one.id for one in store.filter()} == {"guide.md#0", "inner/page.html#0", "more.text#0"}
    assert not store.keyword("zebras install")
    assert len(store.nearest([1, 1])) == 3


def test_other_pieces_or_vectors_are_made_anew(folder: Path, store: DocumentStore) -> None:
    index_folder(folder, store)
    assert index_folder(folder, store, size=20).changed == 3
    assert all(len(one.content) <= 20 for one in store.filter())
    assert store.nearest([1, 1]) == []
    assert index_folder(folder, store, size=20, embedder=Hashed()).changed == 3
    assert len(store.nearest([1, 1], 100)) == len(store)


def test_what_cannot_be_read_is_said_and_the_rest_goes_on(folder: Path, store: DocumentStore) -> None:
    index_folder(folder, store)
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 broken")
    (folder / "guide.md").write_text(" \n")
    (folder / "picture.png").write_bytes(b"\x89PNG")
    os.mkfifo(folder / "pipe.txt")
    done = index_folder(folder, store)
    assert (done.new, done.removed, done.unchanged) == (0, 1, 2)
    assert [problem.partition(": ")[0] for problem in done.problems] == ["picture.png", "broken.pdf", "guide.md"]
    assert done.problems[2] == "guide.md: there is no text in it"
    assert not store.keyword("install")


def test_hidden_files_and_links_are_passed_over(folder: Path, store: DocumentStore, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "a.txt").write_text("secret")
    (folder / ".env.txt").write_text("secret")
    (folder / "out.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "away").symlink_to(tmp_path)
    assert index_folder(folder, store) == Indexed(new=3, pieces=3)
    assert not store.keyword("secret")


def test_an_interrupted_file_is_not_there_in_part(folder: Path, store: DocumentStore) -> None:
    class Interrupted(Hashed):
        def embed(self, texts: Any) -> Any:
            if len(self.texts) > 1:
                raise KeyboardInterrupt
            return super().embed(texts)

    index_folder(folder, store)
    with pytest.raises(KeyboardInterrupt):
        index_folder(folder, store, size=10, embedder=Interrupted())
    for path in ("guide.md", "inner/page.html", "notes.txt"):
        sizes = [len(one.content) for one in store.filter({"path": path})]
        assert sizes
        assert len(sizes) == 1 or max(sizes) <= 10
    assert index_folder(folder, store, size=10).problems == []
    assert max(len(one.content) for one in store.filter()) <= 10


def test_a_store_is_of_one_folder_and_moves_with_it(folder: Path, tmp_path: Path) -> None:
    with DocumentStore(folder / "store") as store:
        index_folder(folder, store)
        with pytest.raises(UsageError, match=rf"is the index of {folder}; use another store for"):
            index_folder(folder / "inner", store)
    with DocumentStore(folder.rename(tmp_path / "moved") / "store") as store:
        assert index_folder(tmp_path / "moved", store) == Indexed(unchanged=3)


@pytest.mark.parametrize("name", ["missing", "docs/notes.txt"])
def test_what_is_no_folder_is_refused(folder: Path, store: DocumentStore, name: str) -> None:
    with pytest.raises(DataError, match="is not a folder"):
        index_folder(folder.parent / name, store)
