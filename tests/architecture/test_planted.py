"""Breakages are planted by `make planted`; here, each still fits the tree."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from planted.breakages import BREAKAGES, ROOT, Breakage, DoesNotStand


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda one: one.name)
def test_a_breakage_fits_the_tree(breakage: Breakage, tmp_path: Path) -> None:
    file = tmp_path / "retinue" / breakage.file
    file.parent.mkdir(parents=True)
    shutil.copy(ROOT / "src" / "retinue" / breakage.file, file)
    breakage.apply(tmp_path)
    compile(file.read_bytes(), file, "exec")
    assert [name for name in breakage.tests if not (ROOT / "tests" / name).is_file()] == []
    with pytest.raises(DoesNotStand, match="stands 0 times"):
        replace(breakage, text=f"{breakage.text} of former days").apply(tmp_path)
