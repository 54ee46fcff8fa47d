"""Broken files: each gives exactly its problems, all at once, and nothing of it is imported or run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest
from hypothesis import given, settings, strategies as st

from retinue import DataError
from retinue._internal.yaml_text import MAX_BYTES, MAX_NODES, read_text
from retinue.config import check, load_spec

BROKEN = Path(__file__).parent / "broken"
FILES = sorted(BROKEN.glob("*.yml"))


def table() -> dict[str, list[str]]:
    """`expected.txt`: what is wrong with which file."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in (BROKEN / "expected.txt").read_text("utf-8").splitlines()[1:]:
        if line.startswith("  "):
            found[name].append(line[2:])
        else:
            name = line
            found[name] = []
    return found


EXPECTED = table()


def written(path: Path) -> Iterator[str]:
    for problem in check(path):
        file = Path(problem.file)
        prefix = "" if file == path else f"{file.relative_to(BROKEN)}:"
        yield f"{prefix}{problem.line}:{problem.column}: {problem.message}"


def test_there_are_sixty_and_each_is_in_the_table() -> None:
    assert len(FILES) >= 60
    assert {path.stem for path in FILES} == set(EXPECTED)
    assert all(EXPECTED.values())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_broken_file_gives_exactly_its_problems(path: Path) -> None:
    assert list(written(path)) == EXPECTED[path.stem]
    with pytest.raises(DataError) as raised:
        load_spec(path)
    assert str(raised.value).splitlines() == [str(problem) for problem in check(path)]


WATCH = """
import json, sys
from pathlib import Path
from retinue.config import check
from retinue.config.registry import COMPONENTS, TOOLS
broken = Path(sys.argv[1])
_ = [one.parameters for one in (*COMPONENTS.values(), *TOOLS.values())]  # which imports our own modules
check(broken / "many-at-once.yml"), check(broken / "tools-broken-file.yml"), check(broken / "python-paths.yml")
seen = []
def hook(event, arguments):
    if event in ("import", "exec", "compile", "marshal.loads") or event.startswith(
        ("subprocess.", "os.system", "os.exec", "os.fork", "os.posix_spawn", "socket.")
    ) or event == "open" and str(arguments[0]).endswith((".py", ".pyc")):
        seen.append([event, str(arguments[0])])
sys.addaudithook(hook)
count = sum(bool(check(path)) for path in sorted(broken.glob("*.yml")))
print(json.dumps([count, seen]))
"""


def test_checking_imports_and_runs_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", WATCH, str(BROKEN)], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [len(FILES), []]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("version: " + "x" * MAX_BYTES, f"1:1: larger than {MAX_BYTES:,} bytes"),
        ("- 1\n" * (MAX_NODES + 10), f"{MAX_NODES}:3: more than {MAX_NODES:,} values"),
        ("version: " + "[" * 100_000, "1:59: nested deeper than 50 levels"),
        ("{a: " * 100_000, "1:201: nested deeper than 50 levels"),
        ("- " * 100_000, "1:101: nested deeper than 50 levels"),
        ("a: " + "1" * 900_000, "1:4: a number of 900,000 digits is too long"),
    ],
    ids=["bytes", "values", "lists", "mappings", "items", "digits"],
)
def test_what_is_too_much_is_refused(text: str, problem: str) -> None:
    assert [str(one) for one in read_text(text, "f").problems] == [f"f:{problem}"]
    assert [str(one) for one in read_text(text.encode(), "f").problems] == [f"f:{problem}"]


def test_after_fifty_problems_no_more_is_read() -> None:
    problems = read_text("- *a\n" * 1_000).problems
    assert len(problems) == 51
    assert problems[-1].message == "stopped reading after 50 problems"


@pytest.mark.parametrize("name", ["nowhere.yml", "", ".", "a\0b", "/dev/zero"])
def test_what_is_no_file_is_a_problem_too(name: str) -> None:
    (problem,) = check(BROKEN / name)
    assert (problem.line, problem.column) == (1, 1)


def test_links_out_of_the_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "outside.yaml").write_text("calculator: {callable_api: calculator}\n")
    (tmp_path / "outside.py").write_text("def run(): ...\n")
    folder = tmp_path / "inside"
    folder.mkdir()
    (folder / "tools.yaml").symlink_to("../outside.yaml")
    (folder / "code.py").symlink_to(tmp_path / "outside.py")
    (folder / "loop.py").symlink_to("loop.py")
    spec = folder / "agents.yml"
    spec.write_text(
        "agents:\n  - name: a\n    params: {model: local, tools: tools.yaml}\n"
        "tools:\n  a: {callable_api: 'code.py:run'}\n  b: {callable_api: 'loop.py:run'}\n"
    )
    assert [problem[1:4] for problem in check(spec)] == [
        (3, 35, "tools: 'tools.yaml' leads out of this file's folder"),
        (5, 21, "callable_api: 'code.py' leads out of this file's folder"),
        (6, 21, "callable_api: 'loop.py' is a circular link"),
    ]


def test_after_a_hundred_problems_no_more_is_looked_for(tmp_path: Path) -> None:
    path = tmp_path / "many.yml"
    path.write_text("components:\n" + "  - {name: a, type: Nothing}\n" * 1_000)
    problems = check(path)
    assert len(problems) == 101
    assert problems[-1].message == "stopped after 100 problems"


def test_a_long_pipeline_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "long.yml"
    path.write_text(
        "components:\n"
        + "".join(f"  - {{name: c{at}, type: PythonRuntime}}\n" for at in range(1_000))
        + "pipelines:\n  - name: p\n    nodes:\n"
        + "".join(
            f"      - {{name: c{at}, inputs: [{f'c{at + 1}' if at < 999 else 'Query'}]}}\n" for at in range(1_000)
        )
    )
    assert check(path) == []


PIECES = st.sampled_from([b"", b"[]", b"{a: b}", b"null", b"5", b"- ", b": ", b"\n", b"  ", b"'", b"name: a", b"\xff"])


@settings(max_examples=200)
@given(st.sampled_from(FILES), st.lists(st.tuples(st.floats(0, 1), st.integers(0, 20), PIECES), max_size=4))
def test_checking_never_raises(path: Path, changes: list[tuple[float, int, bytes]]) -> None:
    data = bytearray(path.read_bytes()[:4_000])
    for share, length, piece in changes:
        at = int(share * len(data))
        data[at : at + length] = piece
    with NamedTemporaryFile() as changed:
        changed.write(data)
        changed.flush()
        assert all(problem.line >= 1 and problem.column >= 1 for problem in check(changed.name))
