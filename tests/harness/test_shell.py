"""`run_command`: what a model is told, what of a command stays, and what is never left behind."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from retinue import Agent, PromptModel, UsageError
from retinue.core.events import Observed, Reported
from retinue.errors import NotDone
from retinue.harness import Harness
from retinue.harness.command_effects import find_effects
from retinue.harness.folder_workspace import FolderWorkspace
from retinue.harness.sandbox import Sandbox
from retinue.harness.shell import run_command, run_in_workspace

needs_bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap: make sandbox")


class Desk:
    """A workspace in which commands run."""

    def __init__(self, folder: Path, **limits: Any) -> None:
        self.workspace = FolderWorkspace(folder)
        self.sandbox = Sandbox(**limits)

    async def run(self, command: str, seconds: float = 20, mounts: Mapping[str, Any] = {}) -> tuple[str, Any]:
        result = await run_in_workspace(self.workspace, command, seconds, self.sandbox, mounts)
        return result.text, result.data

    async def read(self) -> dict[str, bytes]:
        return dict(await self.workspace.read_files([one.path for one in await self.workspace.list_files()]))


@needs_bwrap
def test_what_a_command_changes_is_one_version(tmp_path: Path) -> None:
    async def main() -> None:
        desk = Desk(tmp_path / "files")
        text, data = await desk.run("mkdir -p a/b empty; echo 1 > a/b/c; printf '#!/bin/sh\necho hi' > run.sh; exit 3")
        assert text.startswith("Exit code 3 after ")
        assert text.endswith("Files changed: a/b/c (2 bytes), run.sh (17 bytes).")
        assert data["command"]["exit"] == 3
        assert data["workspace"] == {
            "version": 1,
            "changed": [{"path": "a/b/c", "size": 2, "was": None}, {"path": "run.sh", "size": 17, "was": None}],
        }
        await desk.workspace.change_files({"run.sh": b"#!/bin/sh\necho ho", "d": b"x"}, "written")
        text, data = await desk.run("./run.sh && ls -d */ && rm -r a && touch d && echo y >> e")
        assert "\nho\na/\nFiles changed: a/b/c (removed), e (2 bytes)." in text  # no empty folder, and `d` is as it was
        assert data["workspace"]["version"] == 3
        assert await desk.read() == {"run.sh": b"#!/bin/sh\necho ho", "d": b"x", "e": b"y\n"}
        text, data = await desk.run("ls && cat d 2>/dev/null")
        assert "workspace" not in data
        assert text.endswith("d\ne\nrun.sh\nx")
        text, data = await desk.run("ln -s d link; mkfifo pipe; echo z > $'new\\nline'; head -c 30M /dev/zero > big")
        assert "Not kept: " in text
        assert all(
            name in text for name in ("'link' (a link, or", "'pipe'", "'new\\nline' (its name)", "'big' (more than")
        )
        assert len(await desk.read()) == 3

    asyncio.run(main())


@needs_bwrap
def test_output_is_kept_at_both_ends_and_without_controls(tmp_path: Path) -> None:
    desk = Desk(tmp_path, output=200)
    text, data = asyncio.run(desk.run("echo begin; seq 100000; printf '\\e[31mred\\e[0m\\r\\n\\xff end'"))
    assert "begin\n1\n2\n" in text
    assert "bytes are left out here" in text
    assert text.endswith("100000\nred\n� end")
    assert (data["command"]["cut"], len(text) < 400) == (True, True)


@needs_bwrap
@pytest.mark.skipif(shutil.which("xxd", path="/usr/bin") is None, reason="needs xxd")
def test_a_command_that_reads_cannot_write(tmp_path: Path) -> None:
    """The list of commands that read is no fence: `xxd` writes to a second file, if it is let."""
    desk = Desk(tmp_path / "files")
    asyncio.run(desk.workspace.change_files({"a": b"x"}, "first"))
    text, data = asyncio.run(desk.run("xxd a b || ls"))
    assert "b: Read-only file system\na" in text
    assert "workspace" not in data
    text, data = asyncio.run(desk.run("exec xxd a b"))
    assert data["workspace"]["version"] == 2


@needs_bwrap
def test_what_takes_too_long_is_stopped_and_its_files_stay(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    text, data = asyncio.run(desk.run("echo so far; echo 1 > done; trap '' TERM; sleep 60; echo 2 > done", seconds=0.5))
    assert text.startswith("Stopped: it did not end within 0.5 seconds. Exit code 137")
    assert "so far\nFiles changed: done (2 bytes)." in text
    assert data["command"]["seconds"] < 2


@needs_bwrap
def test_limits_stop_a_command(tmp_path: Path) -> None:
    limits: dict[str, Any] = {"memory": 150_000_000, "disk": 20_000_000, "processes": 60}
    many = "for i in 1 2 3 4 5 6; do (x=$(head -c 50M /dev/zero | tr '\\0' x); sleep 20) & done; wait"
    found = {}
    for name, command in {
        "of memory": many,
        "of files": "head -c 15M /dev/zero > a; head -c 15M /dev/zero > b; sleep 20",
        "levels deep": "for i in $(seq 90); do mkdir d; cd d; done; sleep 20",
        "written": "for i in $(seq 40); do head -c 15M /dev/urandom > a; done; sleep 20",
    }.items():
        text, _ = asyncio.run(Desk(tmp_path / name.replace(" ", "-"), **limits).run(command, seconds=30))
        if name not in text.partition("\n")[0]:
            found[name] = text[:300]
    assert found == {}


@needs_bwrap
def test_a_folder_of_the_operator_is_shown_read_only(tmp_path: Path) -> None:
    skill = tmp_path / "skill"
    skill.mkdir()
    (skill / "go.sh").write_text("echo going")
    for folder in (skill, *list(skill.parents)[:4]):
        folder.chmod(folder.stat().st_mode | 0o755)
    desk = Desk(tmp_path / "files")
    mounts = {"skills/go": lambda: skill}
    text, data = asyncio.run(
        desk.run("sh skills/go/go.sh; echo x > skills/go/go.sh; echo x > skills/other", mounts=mounts)
    )
    assert "going\n" in text
    assert "Read-only file system" in text
    assert [one["path"] for one in data["workspace"]["changed"]] == ["skills/other"]
    text, _ = asyncio.run(desk.run("cat skills/go/go.sh", mounts=mounts))
    assert text.endswith("echo going")

    def refuse() -> Path:
        raise UsageError("the skill go was changed")

    with pytest.raises(NotDone, match="was not run: the skill go was changed"):
        asyncio.run(desk.run("true", mounts={"skills/go": refuse}))


@needs_bwrap
def test_two_at_once_see_nothing_of_each_other(tmp_path: Path) -> None:
    """Files, processes, sockets: of two tenants' runs, and of two commands of one run."""
    command = """
    echo MARK > secret-MARK; cp secret-MARK /tmp; cp secret-MARK /dev/shm
    (exec -a MARK sleep 3) &
    sleep 1
    cat /workspace/* /tmp/* /dev/shm/* /tmp/../*/secret* 2>/dev/null
    cat /proc/*/cmdline /proc/net/unix /proc/net/tcp | tr '\\0' ' ' | grep 'sleep\\|other'
    find / -name 'secret-*' 2>/dev/null
    """

    async def main() -> list[str]:
        desks = [Desk(tmp_path / name) for name in ("ann", "bob")]
        both = (
            desk.run(command.replace("MARK", f"of-{name}")) for desk, name in zip(desks, ("ann", "bob"), strict=True)
        )
        same = (desks[0].run(command.replace("MARK", f"of-{name}")) for name in ("cay", "dan"))
        return [text for text, _ in await asyncio.gather(*both, *same)]

    for name, text in zip(("ann", "bob", "cay", "dan"), asyncio.run(main()), strict=True):
        assert f"of-{name}" in text
        assert not [other for other in ("ann", "bob", "cay", "dan") if other != name and f"of-{other}" in text], text


@needs_bwrap
@pytest.mark.parametrize("command", ["sleep 61.25", "setsid sleep 61.25 & (trap '' TERM; sleep 61.25)"])
def test_a_cancelled_command_is_dead_within_a_second(tmp_path: Path, command: str) -> None:
    def count() -> int:
        return sum(b"61.25" in one.read_bytes() for one in Path("/proc").glob("[0-9]*/cmdline") if one.exists())

    async def main() -> float:
        running = asyncio.create_task(Desk(tmp_path).run(command))
        while count() < 3:  # bwrap, twice, and the command
            await asyncio.wait([running], timeout=0.02)
        began = time.monotonic()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return time.monotonic() - began

    assert asyncio.run(main()) < 1
    assert count() == 0


def model(*script: Mapping[str, Any]) -> PromptModel:
    return PromptModel(engine="scripted", script=list(script))


def call(command: str, when: str = "Begin", **given: Any) -> dict[str, Any]:
    return {"when": when, "call": {"tool": "run_command", "input": {"command": command, **given}}}


@needs_bwrap
def test_an_agent_runs_commands_and_tells_how_far_they_are() -> None:
    script = [
        call("for i in 1 2 3 4 5; do echo line $i; sleep 0.9; done"),
        call("exit 1", "line 5"),
        {"finish": "Done."},
    ]
    result = Agent(model(*script), harness=Harness(), strategy="tool_calling").run("Begin")
    assert result.answer == "Done."
    seen = [event.observation for event in result.events if isinstance(event, Observed)]
    assert [(one.outcome, one.data["command"]["exit"]) for one in seen] == [("result", 0), ("result", 1)]
    told = [event.text for event in result.events if isinstance(event, Reported)]
    assert told
    assert all(one.startswith("line ") for one in told)


@pytest.mark.parametrize(
    ("program", "told"),
    [("", "there is no bwrap"), ("echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1", "uid map: Perm")],
)
def test_without_a_sandbox_nothing_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, told: str
) -> None:
    if program:
        (tmp_path / "bwrap").write_text(f"#!/bin/sh\n{program}\n")
        (tmp_path / "bwrap").chmod(0o755)
    for folder in (tmp_path, *list(tmp_path.parents)[:3]):
        folder.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    result = Agent(model(call("touch x"), {"finish": "Done."}), harness=Harness(), strategy="tool_calling").run("Begin")
    (seen,) = [event.observation for event in result.events if isinstance(event, Observed)]
    assert seen.outcome == "failed"  # and not unknown: it did not happen
    assert told in seen.text
    assert "apt-get install bubblewrap" in seen.text


def test_a_shell_needs_a_workspace() -> None:
    with pytest.raises(UsageError, match="the shell runs commands in a workspace"):
        Harness(workspace=False)
    with pytest.raises(NotDone, match="no workspace"):
        run_command.run({"command": "ls"})


def test_wrong_settings_are_said() -> None:
    for wrong, told in (
        ({"network": "pypi.org"}, "network: want a list of texts, not 'pypi.org'"),
        ({"folders": ["venv"]}, "want an absolute path such as /opt/venv, not 'venv'"),
        ({"folders": ["/"]}, "want an absolute path"),
        ({"memory": 0}, "memory: want a number above 0, not 0"),
        ({"seconds": float("nan")}, "seconds: want a number above 0"),
        ({"processes": True}, "processes: want a number above 0"),
    ):
        with pytest.raises(UsageError, match=told):
            Sandbox(**wrong)


READING = """
ls | ls -la src | cd src && ls | cat a.py 2>/dev/null | grep -n 'x$' a.py b.py | grep -rn "foo" . && wc -l a | ls||true
find . -name '*.py' -type f | git status | git log --oneline -5 | head -n 5 'a b.txt' | sort a; uniq b > /dev/null
"""
CHANGING = """
ls; rm x ¦ ls > a ¦ find . -delete ¦ find . -exec rm {} \\; ¦ echo $(rm x) ¦ echo `rm x` ¦ echo "it's $(rm it)" 'x'
ls & rm x ¦ python x.py ¦ FOO=1 ls ¦ git commit ¦ git -c x=y status ¦ git diff --output=x ¦ cat < a ¦ sort -o a b
sort --output=a b ¦ uniq a b ¦ /bin/ls ¦ ls || rm x ¦ ! ls ¦ cat {a,b} ¦ diff <(ls) <(ls) ¦ ls >| a ¦ ls &> a ¦ (ls)
tail -f a & ¦ ls # ¦ 'rm' x ¦ r''m x ¦ "rm" x ¦ \\rm x ¦ date -s 1 ¦ >x ls ¦ ls 3> x ¦ ls >/dev/null.txt ¦ ls 2>&1x
"""


def test_only_simple_commands_count_as_reading() -> None:
    reading = [one for line in READING.split("\n")[1:-1] for one in line.split(" | ")]
    changing = [
        one for line in CHANGING.splitlines() for one in line.replace("||", "\0").replace(">|", "\1").split("|")
    ]
    changing = [one.replace("\0", "||").replace("\1", ">|") for one in changing]
    changing += ["", " ", "ls\nrm x", "cat <<E\nx\nE", "ls ;", "| ls", "x" * 50_000]
    assert [one for one in reading if find_effects({"command": one}) != "read"] == []
    assert [one for one in changing if find_effects({"command": one}) != "once"] == []
    assert run_command.find_effects({"command": "ls"}) == "read"
    assert (run_command.find_effects({"command": "rm x"}), run_command.find_effects({})) == ("once", "once")
