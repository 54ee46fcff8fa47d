"""What `make release` checks: the changelog, versions, and what archives hold."""

from __future__ import annotations

import tarfile
import zipfile
from pathlib import Path

import click
import pytest
from releasing.archives import pack, same, strange, tree
from releasing.changelog import released, section
from releasing.chart import check_chart
from releasing.version import version_of

ROOT = Path(__file__).parents[2]
TEXT = "# Changelog\n\n## Unreleased\n\n### Added\n- This.\n\n## 0.0.9 - 2026-01-01\n- That.\n"


def test_a_section_is_that_of_its_version_alone() -> None:
    assert section(TEXT, "0.0.9") == "- That.\n"
    moved = released(TEXT, "0.1.0", "2026-02-01")
    assert section(moved, "0.1.0") == "### Added\n- This.\n"
    assert section(moved, "0.0.9") == "- That.\n"
    assert "## Unreleased\n\n## 0.1.0 - 2026-02-01\n" in moved


@pytest.mark.parametrize(
    ("text", "version", "problem"),
    [
        (TEXT, "0.1.0", "has no section '## 0.1.0'; only '## Unreleased'; make release VERSION=0.1.0 makes"),
        (TEXT, "0.0", "has no section '## 0.0'"),
        ("## 0.1.0\n\n## 0.0.9\n- That.\n", "0.1.0", "is empty"),
    ],
)
def test_a_changelog_without_the_section_is_refused(text: str, version: str, problem: str) -> None:
    with pytest.raises(click.ClickException) as error:
        section(text, version)
    assert problem in error.value.message


@pytest.mark.parametrize(
    ("text", "version", "problem"),
    [
        (TEXT, "0.0.9", "has a section '## 0.0.9' already"),
        ("## Unreleased\n\n## 0.0.9\n- That.\n", "0.1.0", "nothing is unreleased"),
        ("# Changelog\n", "0.1.0", "nothing is unreleased"),
    ],
)
def test_a_section_is_made_once_and_of_something(text: str, version: str, problem: str) -> None:
    with pytest.raises(click.ClickException) as error:
        released(text, version, "2026-02-01")
    assert problem in error.value.message


@pytest.mark.parametrize("name", ["version", "appVersion"])
def test_a_chart_of_another_version_is_refused(name: str, tmp_path: Path) -> None:
    versions = {"version": "1.2.3", "appVersion": '"1.2.3"'}
    file = tmp_path / "Chart.yaml"
    file.write_text("".join(f"{key}: {value}\n" for key, value in versions.items()), "utf-8")
    check_chart(tmp_path, "1.2.3")
    file.write_text("".join(f"{key}: {value}\n" for key, value in {**versions, name: "1.2.4"}.items()), "utf-8")
    with pytest.raises(click.ClickException, match=f"{name} is 1.2.4; it should be 1.2.3"):
        check_chart(tmp_path, "1.2.3")


def test_a_packed_archive_is_the_same_bytes_each_time(tmp_path: Path) -> None:
    (tmp_path / "in" / "__pycache__").mkdir(parents=True)
    (tmp_path / "in" / "a.txt").write_text("a", "utf-8")
    (tmp_path / "in" / "__pycache__" / "b.pyc").write_text("b", "utf-8")
    files = tree(tmp_path / "in", ["."])
    first = pack(tmp_path / "1.tgz", "there", files, 1_000_000_000)
    (tmp_path / "in" / "a.txt").touch()
    second = pack(tmp_path / "2.tgz", "there", files, 1_000_000_000)
    same(first, second)
    with tarfile.open(first) as archive:
        assert archive.getnames() == ["there/a.txt"]
    with pytest.raises(click.ClickException, match=r"two builds of 1\.tgz differ"):
        same(first, pack(tmp_path / "3.tgz", "there", files, 1_000_000_001))


def test_what_does_not_belong_into_a_wheel_is_found(tmp_path: Path) -> None:
    wheel = tmp_path / "x.whl"
    good = {"retinue/testing/cases.py": "", "retinue/store/migrations/1.sql": "", "x.dist-info/METADATA": ""}
    bad = {
        "tests/test_x.py": "",
        "retinue/__pycache__/a.pyc": "",
        "retinue/.env": "",
        "retinue/runs.db": "",
        "retinue/keys.py": f"KEY = 'sk-{'a' * 24}'",
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in {**good, **bad}.items():
            archive.writestr(name, text)
    assert sorted(strange(wheel)) == sorted(bad)


def test_the_version_is_that_of_the_source() -> None:
    import retinue

    assert version_of(ROOT) == retinue.__version__
