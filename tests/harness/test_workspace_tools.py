"""The tools of a workspace, in a folder and in a store."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fakes.until import until
from fakes.workspaces import HOSTILE, make_links, seen, told, writer
from retinue import Agent, PromptModel, RunContext
from retinue.core.workspace import WorkspaceError
from retinue.harness import Harness
from retinue.harness.folder_workspace import FolderWorkspace

Make = Callable[..., Agent]
KINDS = ("a folder", "a store", "temporary")


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Makes a `writer` whose files are of this kind."""
    store = str(tmp_path / "runs.db") if request.param == "a store" else None
    where: Any = str(tmp_path / "out") if request.param == "a folder" else True
    return lambda calls, **options: writer(calls, Harness(workspace=where), store=store, **options)


def test_files_are_written_read_edited_listed_and_found(make: Make) -> None:
    with make(
        [
            ("list_files", {}),
            ("write_file", {"path": "src/./a.py", "content": "def one():\n    return 1\n"}),
            ("write_file", {"path": "notes.md", "content": "# Plan\n"}),
            ("write_file", {"path": ".hidden", "content": ""}),
            ("edit_file", {"path": "src/a.py", "old": "return 1", "new": "return 'é'"}),
            ("read_file", {"path": "src/a.py"}),
            ("read_file", {"path": "src/a.py", "first_line": 2, "last_line": 2}),
            ("list_files", {}),
            ("list_files", {"folder": "src/"}),
            ("search_files", {"pattern": r"^\s+return|plan"}),
            ("search_files", {"pattern": "(?i)PLAN", "files": "*.md"}),
            ("search_files", {"pattern": "*.py", "among": "names"}),
            ("write_file", {"path": "notes.md", "content": "# Plan\n"}),
            ("read_file", {"path": ".hidden"}),
        ]
    ) as agent:
        result = agent.run("Begin")
    assert seen(result) == [
        "There are no files yet.",
        "src/./a.py is written.",
        "notes.md is written.",
        ".hidden is written.",
        "src/a.py is changed.",
        "def one():\n    return 'é'",
        "    return 'é'",
        "notes.md (7)\nsrc/a.py (27)\n.hidden (0)",
        "src/a.py (27)",
        "src/a.py:2: return 'é'",
        "notes.md:1: # Plan",
        "src/a.py",
        "notes.md is written.",
        "(The file is empty.)",
    ]
    changes = [one for one in told(result) if one]
    assert changes == [
        {"version": 1, "changed": [{"path": "src/a.py", "size": 24, "was": None}]},
        {"version": 2, "changed": [{"path": "notes.md", "size": 7, "was": None}]},
        {"version": 3, "changed": [{"path": ".hidden", "size": 0, "was": None}]},
        {"version": 4, "changed": [{"path": "src/a.py", "size": 27, "was": 24}]},
        {"version": 5, "changed": []},
    ]


def test_an_edit_says_why_it_cannot_be_made(make: Make) -> None:
    text = "one = 1\r\ntwo = 2\r\none = 1\r\n"
    with make(
        [
            ("edit_file", {"path": "a.py", "old": "1", "new": "2"}),
            ("write_file", {"path": "a.py", "content": text}),
            ("edit_file", {"path": "a.py", "old": "one = 1", "new": "2"}),
            ("edit_file", {"path": "a.py", "old": "two  = 2\none", "new": "three"}),
            ("edit_file", {"path": "a.py", "old": "", "new": "2"}),
            ("edit_file", {"path": "a.py", "old": "quite another thing", "new": "two = 2"}),
            ("edit_file", {"path": "a.py", "old": "two = 2\none", "new": "two = 3\none"}),
            ("search_files", {"pattern": "("}),
        ]
    ) as agent:
        said = seen(agent.run("Begin"))
    assert "there is no file a.py" in said[0]
    assert "`old` occurs 2 times, in lines 1, 3: give more of the text around it" in said[2]
    assert "`old` occurs 0 times. The nearest is in lines 2 to 3:\ntwo = 2\none = 1" in said[3]
    assert "`old` is empty" in said[4]
    assert "`new` is in it already. Nothing in it is like that: read the file." in said[5]
    assert said[6] == "a.py is changed."
    assert "cannot be matched in linear time" in said[7]


def test_what_a_model_is_shown_is_bounded_and_says_how_to_read_on(make: Make, tmp_path: Path) -> None:
    lines = "\n".join(f"line {at} {'x' * 90}" for at in range(1, 1001))
    with make(
        [
            ("write_file", {"path": "long.txt", "content": lines}),
            ("read_file", {"path": "long.txt"}),
            ("read_file", {"path": "long.txt", "first_line": 900}),
            ("read_file", {"path": "long.txt", "first_line": 1001}),
            ("write_file", {"path": "wide.txt", "content": "y" * 50_000}),
            ("read_file", {"path": "wide.txt"}),
            ("search_files", {"pattern": "line", "files": "long.*"}),
            ("write_file", {"path": "bin", "content": "a\0b"}),
            ("read_file", {"path": "bin"}),
            ("edit_file", {"path": "bin", "old": "a", "new": "b"}),
        ]
    ) as agent:
        said = seen(agent.run("Begin"))
    assert len(said[1]) < 17_000
    assert said[1].endswith("… long.txt has 1,000 lines, of which 1 to 161 are shown")
    assert said[2].startswith("line 900 ")
    assert said[2].endswith("x" * 90)
    assert "long.txt has the lines 1 to 1,000, and no line 1,001" in said[3]
    assert said[5].endswith("… (34,000 more characters of this line)")
    assert said[6].endswith("… there is more: 100 are shown; say more exactly what you look for")
    assert said[8].startswith("(bin, 3 bytes, not shown:")
    assert "bin is no text" in said[9]


def test_no_path_leads_out_of_a_workspace(make: Make, tmp_path: Path) -> None:
    changes = {"content": "x"}, {"old": "a", "new": "b"}
    tools: Any = (changes[0], "write_file"), ({}, "read_file"), (changes[1], "edit_file")
    calls = [(tool, {"path": path, **given}) for path in HOSTILE for given, tool in tools]
    with make(calls) as agent:
        result = agent.run("Begin", key="hostile")
    assert result.text == "Done."
    outcomes = {one.outcome for step in result.steps for one in step.observations}
    assert outcomes == {"failed"}, [one for one in seen(result) if "failed" not in one]
    assert {one.name for one in tmp_path.iterdir()} <= {"out", "runs.db", "runs.db-wal", "runs.db-shm", "runs.db.lock"}


def test_no_link_leads_out_of_a_folder(tmp_path: Path) -> None:
    folder, outside = tmp_path / "out", tmp_path / "outside"
    folder.mkdir()
    make_links(folder, outside)
    there = ("link/secret.txt", "file", "self", "up/outside/secret.txt", "link/../secret.txt", "pipe", "link", "up")
    calls = [("read_file", {"path": path}) for path in there]
    calls += [("write_file", {"path": path, "content": "changed"}) for path in ("link/new.txt", "up/new.txt", "self/x")]
    with writer([*calls, ("list_files", {}), ("search_files", {"pattern": "."})], Harness(workspace=folder)) as agent:
        result = agent.run("Begin")
    *said, listed, found = [one for step in result.steps for one in step.observations]
    assert {one.outcome for one in said} == {"failed"}, [one.text for one in said]
    assert (listed.text, found.text) == ("There are no files yet.", "Nothing matches in 0 files.")

    async def overwrite() -> None:
        """What is written takes the place of a link; nothing is written through it."""
        workspace = FolderWorkspace(folder)
        with pytest.raises(WorkspaceError):
            await workspace.change_files({"link/x": b""}, "1")
        with pytest.raises(WorkspaceError):
            await workspace.change_files({"file": b"changed"}, "2")

    asyncio.run(overwrite())
    assert (outside / "secret.txt").read_text() == "secret"
    assert [one.name for one in outside.iterdir()] == ["secret.txt"]


def test_a_folder_tells_what_others_changed_in_it(tmp_path: Path) -> None:
    async def main() -> None:
        workspace = FolderWorkspace(tmp_path / "out")
        await workspace.change_files({"a": b"1", "d/b": b"1", "c": b"1"}, "one")
        assert await workspace.find_change("one") == await workspace.change_files({}, "one")
        (workspace.folder / "a").write_text("22")
        (workspace.folder / "c").unlink()
        (workspace.folder / "e").write_text("new")
        assert [tuple(one) for one in await workspace.list_files()] == [("a", 2, 2), ("d/b", 1, 1), ("e", 3, 2)]
        with pytest.raises(WorkspaceError, match="only the newest version of its files, 2, not 1"):
            await workspace.list_files(1)
        with pytest.raises(WorkspaceError, match="a file is in the way"):
            await workspace.change_files({"a/b": b""}, "three")
        (workspace.folder / "run.sh").write_text("")
        (workspace.folder / "run.sh").chmod(0o755)
        await workspace.change_files({"run.sh": b"echo"}, "four")
        assert (workspace.folder / "run.sh").stat().st_mode & 0o777 == 0o755

    asyncio.run(main())


def test_temporary_files_live_as_long_as_the_agent() -> None:
    script: list[dict[str, Any]] = [
        {"when": r"is written|\(1\)|no files", "finish": "Done."},
        {"when": "write", "call": {"tool": "write_file", "input": {"path": "a", "content": "1"}}},
        {"when": "", "call": {"tool": "list_files", "input": {}}},
    ]
    folders: list[Path] = []

    def note(context: RunContext) -> None:
        assert isinstance(context.workspace, FolderWorkspace)
        folders.append(context.workspace.folder)

    agent = Agent(PromptModel(script=script), strategy="tool_calling", harness=True, deps_of=note)
    agent.run("write", thread="t")
    assert seen(agent.run("list", thread="t")) == ["a (1)"]
    assert seen(agent.run("list", thread="u")) == seen(agent.run("list")) == ["There are no files yet."]
    assert len({*folders}) == 3
    assert all(one.is_dir() for one in folders)
    del agent

    def are_gone() -> bool:
        gc.collect()
        return not any(one.exists() for one in folders)

    assert until(are_gone)  # the loop in the background may still hold what has just ended


def test_members_share_the_files_of_the_run_at_the_top(tmp_path: Path) -> None:
    member = writer([("write_file", {"path": "a", "content": "1"})], Harness(workspace=tmp_path / "other"))
    top = writer(
        [("writer", {"query": "Begin"}), ("list_files", {})], Harness(workspace=tmp_path / "out"), tools=[member]
    )
    assert seen(top.run("Begin"))[1] == "a (1)"
    assert not (tmp_path / "other").exists()


def test_a_kept_run_may_work_in_a_folder(tmp_path: Path) -> None:
    calls = [("write_file", {"path": f"{at}", "content": "1"}) for at in range(2)]
    with writer(calls, Harness(workspace=tmp_path / "out"), store=tmp_path / "runs.db") as agent:
        assert [one["version"] for one in told(agent.run("Begin"))] == [1, 2]
    assert sorted(one.name for one in (tmp_path / "out").iterdir()) == ["0", "1"]
