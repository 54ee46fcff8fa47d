"""What tests of migrations share."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from retinue.store import migrations
from retinue.store.migrations import load_migrations


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Release a version with some more migrations."""

    def released(files: Mapping[str, str]) -> None:
        folder = tmp_path / "migrations"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for file in Path(migrations.__file__).parent.glob("*.sql"):
            (folder / file.name).write_bytes(file.read_bytes())
        for name, script in files.items():
            (folder / name).write_text(script)
        monkeypatch.setattr(migrations, "files", lambda _: folder)
        load_migrations.cache_clear()

    yield released
    monkeypatch.undo()
    load_migrations.cache_clear()
