"""`retinue index` and `retinue search`."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.test_ask import refused, retinue
from retinue.server.models.embeddings import is_here


def test_a_folder_is_indexed_and_searched(tmp_path: Path) -> None:
    (tmp_path / "zebras.md").write_text("# Zebras\n\nThey have stripes.")
    (tmp_path / "bad.pdf").write_bytes(b"no PDF")
    store = tmp_path / ".retinue" / "documents.sqlite"
    done = retinue("index", str(tmp_path))
    assert done.returncode == 0
    assert done.stdout == f"1 new, 0 changed, 0 removed, 0 unchanged files; 1 passages in {store}\n"
    (*_, said) = done.stderr.splitlines()  # after how far it was, on a slow machine
    assert said.startswith("not indexed: bad.pdf: this PDF cannot be read")
    assert "0 new, 0 changed, 0 removed, 1 unchanged" in retinue("index", str(tmp_path)).stdout
    for place in (tmp_path, store):
        found = retinue("search", str(place), "which animal has a stripe")
        assert (found.returncode, found.stdout.splitlines()[1]) == (0, "  # Zebras They have stripes.")
    assert retinue("search", str(tmp_path), "nothing").returncode == 1
    assert "1 new" in retinue("index", str(tmp_path), "--store", str(tmp_path / "other"), "--size", "5").stdout


def test_what_cannot_be_searched_or_indexed(tmp_path: Path) -> None:
    assert "is not indexed; see `retinue index`" in refused(retinue("search", str(tmp_path), "x"))
    (tmp_path / "store").write_text("no store " * 999)
    assert "is not a document store" in refused(retinue("index", str(tmp_path), "--store", str(tmp_path / "store")))
    assert "does not exist" in refused(retinue("index", str(tmp_path / "missing")))
    (tmp_path / ".retinue").touch()
    assert "say with --store" in refused(retinue("index", str(tmp_path)))


@pytest.mark.skipif(not is_here(), reason="needs minilm: retinue models pull minilm")
def test_a_folder_is_searched_by_meaning(tmp_path: Path) -> None:
    (tmp_path / "zebras.md").write_text("# Zebras\n\nThey have stripes.")
    assert retinue("index", str(tmp_path), "--vectors").returncode == 0
    assert retinue("search", str(tmp_path), "equine pattern").returncode == 1
    found = retinue("search", str(tmp_path), "equine pattern", "--vectors")
    assert (found.returncode, found.stdout.splitlines()[1]) == (0, "  # Zebras They have stripes.")
