"""Files that are replaced as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from retinue._internal.files import replace_file


def test_a_replaced_file_keeps_its_mode_and_a_private_one_is_for_its_user(tmp_path: Path) -> None:
    shared, private = tmp_path / "shared", tmp_path / "private"
    shared.write_text("old")
    shared.chmod(0o640)
    replace_file(shared, "é")
    replace_file(private, b"key", private=True)
    assert (shared.read_bytes(), shared.stat().st_mode & 0o777) == ("é".encode(), 0o640)
    assert (private.read_text(), private.stat().st_mode & 0o777) == ("key", 0o600)
    assert sorted(tmp_path.iterdir()) == [private, shared]


def test_a_failed_replacement_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    place = tmp_path / "folder"
    place.mkdir()
    with pytest.raises(OSError, match="folder"):
        replace_file(place, "text")
    assert list(tmp_path.iterdir()) == [place]
