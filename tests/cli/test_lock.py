"""`retinue lock`: the packages of tools, from the file's words to a call that uses them. The pip is real."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fakes.wheels import write_wheel
from retinue import Agent, DataError
from retinue.cli.main import main
from retinue.config import load_tools

TOOLS = """\
shout:
  description: Makes a text loud.
  callable_api: tools.py:shout
  pip_dependencies: "retinue_test_loud>=1,<2, retinue_test_extra"
  args_schema: {text: {type: str}}
plain: {description: Leaves a text alone., callable_api: "tools.py:plain"}
"""
CODE = """\
def shout(text):
    import retinue_test_loud
    return retinue_test_loud.loud(text)
def plain(query):
    return query
"""
AGENTS = """\
agents:
  - name: agent
    params:
      tools: tools
      script: [{when: hello, call: {tool: shout, input: hello}}, {finish: "done"}]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shelf = tmp_path / "shelf"
    quiet = "import retinue_test_mark\ndef loud(text): return text.upper() + retinue_test_mark.MARK\n"
    write_wheel(shelf, "retinue_test_loud", "1.2", quiet, "retinue_test_mark")
    write_wheel(shelf, "retinue_test_loud", "2.0", "not this")
    write_wheel(shelf, "retinue_test_mark", "0.1", "MARK = '!'\n")
    write_wheel(shelf, "retinue_test_extra", "3", "")
    monkeypatch.setenv("RETINUE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "tools.yaml").write_text(TOOLS)
    (tmp_path / "tools" / "tools.py").write_text(CODE)
    (tmp_path / "agents.yml").write_text(AGENTS)
    return tmp_path


@pytest.mark.full
def test_what_is_locked_is_installed_for_that_tool_alone(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["lock", str(folder / "agents.yml")]) == 0
    lock = folder / "tools" / "locked" / "shout.txt"
    assert capfd.readouterr().out == f"shout: 3 packages, locked in {lock}\n"
    lines = lock.read_text().splitlines()
    assert lines[0] == "# for: retinue_test_loud>=1,<2, retinue_test_extra"
    named = [line.partition(" --hash=sha256:")[0] for line in lines[2:]]
    assert named == ["retinue_test_extra==3", "retinue_test_loud==1.2", "retinue_test_mark==0.1"]
    result = Agent.load_from_yaml(folder / "agents.yml").run("Shout hello.")
    assert result.steps[0].observations[0].text == "HELLO!"
    with pytest.raises(ImportError):
        __import__("retinue_test_loud")


@pytest.mark.full  # pip is started again and again, half a second of CPU each
def test_a_lock_that_is_there_is_kept_until_it_is_upgraded(folder: Path) -> None:
    assert main(["lock", str(folder / "tools")]) == 0
    lock = folder / "tools" / "locked" / "shout.txt"
    before = lock.read_text()
    write_wheel(folder / "shelf", "retinue_test_extra", "4", "")
    assert main(["lock", str(folder / "tools")]) == 0
    assert lock.read_text() == before
    assert main(["lock", "--upgrade", str(folder / "tools")]) == 0
    assert "retinue_test_extra==4" in lock.read_text()
    (tool,) = [tool for tool in load_tools(folder / "tools") if tool.name == "shout"]
    assert asyncio.run(tool.call("hey")) == "HEY!"


@pytest.mark.full
def test_nothing_is_installed_when_tools_are_loaded(folder: Path) -> None:
    with pytest.raises(DataError, match=r"tools\.yaml:3:17: shout: .*: not locked yet; run: retinue lock FILE"):
        load_tools(folder / "tools")
    main(["lock", str(folder / "tools")])
    file = folder / "tools" / "tools.yaml"
    file.write_text(TOOLS.replace(", retinue_test_extra", ""))
    with pytest.raises(DataError, match="locks other packages"):
        load_tools(folder / "tools")
    file.write_text(TOOLS)
    lock = folder / "tools" / "locked" / "shout.txt"
    lock.write_text(lock.read_text() + "# another machine\n")
    with pytest.raises(DataError, match="locked, but not installed here"):
        load_tools(folder / "tools")


@pytest.mark.full
def test_a_package_that_is_not_the_one_that_was_locked_is_refused(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    main(["lock", str(folder / "tools")])
    lock = folder / "tools" / "locked" / "shout.txt"
    lock.write_text(lock.read_text() + "# elsewhere\n")
    write_wheel(folder / "shelf", "retinue_test_mark", "0.1", "MARK = 'stolen'\n")
    capfd.readouterr()
    assert main(["lock", str(folder / "tools")]) == 2
    said = capfd.readouterr().err
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in said
    assert "Traceback" not in said
    with pytest.raises(DataError, match="not installed here"):
        load_tools(folder / "tools")


def test_what_cannot_be_had_as_a_wheel_is_an_error(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "tools" / "tools.yaml").write_text(TOOLS.replace("retinue_test_extra", "retinue_test_nowhere"))
    (folder / "shelf" / "retinue_test_nowhere-1.tar.gz").write_bytes(b"an sdist, whose building would run code")
    assert main(["lock", str(folder / "tools")]) == 2
    assert "No matching distribution found for retinue_test_nowhere" in capfd.readouterr().err
    assert not (folder / "tools" / "locked" / "shout.txt").exists()


@pytest.mark.parametrize(
    "wanted", ["--index-url=http://evil", "./here", "git+https://x/y", "a @ https://x/y.whl", "a b"]
)
def test_only_names_with_versions_can_be_wanted(wanted: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "tools" / "tools.yaml").write_text(TOOLS.replace("retinue_test_extra", wanted))
    assert main(["check", str(folder / "agents.yml")]) == 1
    said = capfd.readouterr().out
    assert "tools.yaml:4:21: pip_dependencies: want packages with versions" in said
    assert main(["lock", str(folder / "agents.yml")]) == 2


def test_a_file_without_dependencies_needs_no_lock(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "agents.yml").write_text("agents: [{name: a, params: {script: [{finish: x}], tools: [calculator]}}]")
    assert main(["lock", str(folder / "agents.yml")]) == 0
    assert "no tool has pip_dependencies" in capfd.readouterr().out
