"""`PythonRuntime`: what it gives, and what it says of code that is wrong."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from retinue import Agent, DataError, Pipeline, PromptModel, Tool, ToolError, UsageError
from retinue.components import PromptNode, PythonRuntime, SandboxLimits
from retinue.config import check

SMALL = SandboxLimits(seconds=0.2, sleep=0.1, memory=20_000_000, recursion=100, printed=1_000, suspensions=50)


@pytest.fixture(scope="module")
def runtime() -> PythonRuntime:
    return PythonRuntime(SMALL)


def result(runtime: PythonRuntime, code: Any) -> Any:
    return runtime.run(code)["results"]


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("import math\ndef f():\n    return math.sqrt(16)\nfinal_result = f()", 4.0),
        ("final_result = 1\n2", 1),
        ("47**0.23", 2.4242784855673896),
        ("x = 20\nx + 1", 21),
        ("final_result = {'a': [1, (2, None)], 3: {True}}", {"a": [1, (2, None)], 3: {True}}),
        ("from decimal import Decimal\nDecimal('0.10')", "0.10"),
        ("class A:\n    pass\n[A()]", ["<A>"]),
        ("print('shown')\n'and kept'", "and kept"),
        ("def f(n):\n    return 1 if n == 0 else n * f(n - 1)\nf(20)", 2432902008176640000),
    ],
)
def test_the_result_is_final_result_or_the_last_expression(runtime: PythonRuntime, code: str, value: Any) -> None:
    assert result(runtime, code) == value


@pytest.mark.parametrize(
    "given",
    [
        "```python\nfinal_result = 6 * 7\n```",
        "Here it is:\n\n```py\nx = 6\nfinal_result = x * 7\n```\nIt prints 42.\n```output\n42\n```",
        "```\nx = 6\n```\nand then\n```\nx * 7\n```",
        "  ```Python\n  x = 42\n  x\n",
        " x = 6\nx * 7",
        "    x = 6\n    if x:\n        x *= 7\n    x\n",
        "`6 * 7`",
        ["6 * 7"],
        ["```python\n42\n```", "41"],
        ("42",),
    ],
)
def test_code_is_taken_as_models_give_it(runtime: PythonRuntime, given: Any) -> None:
    assert result(runtime, given) == 42


def test_in_a_pipeline_it_takes_what_a_prompt_node_wrote() -> None:
    pipeline = Pipeline()
    code = "```python\ndef power():\n    return 47 ** 0.23\n\nfinal_result = power()\n```"
    model = PromptModel(script=[code, "1/0"])
    pipeline.add_node(PromptNode(model, "# calculate $query", output_variable="python_runtime_input"))
    pipeline.add_node(PythonRuntime(SMALL))
    assert pipeline.run("47^0.23")["results"] == 2.4242784855673896


def test_alone_it_takes_a_query_and_tells_models_what_is_missing() -> None:
    tool = Tool("Python", PythonRuntime(SMALL))
    assert asyncio.run(tool.call("final_result = [1, 2]")) == "[1, 2]"
    for word in ("final_result", "yield", "class inheritance", "statistics", "numpy"):
        assert word in tool.description


def test_batches(runtime: PythonRuntime) -> None:
    assert [one["results"] for one in runtime.run_batch(["1", ["2"], "3"])] == [1, 2, 3]


# ── errors for a model to read ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("def f(n):\n    return 1 / n\n\nf(0)", "ZeroDivisionError: division by zero (line 2: return 1 / n)"),
        ("x = 1\nprint(y)", "NameError: name 'y' is not defined (line 2: print(y))"),
        ("def f(:\n  1", "SyntaxError: Expected a parameter or the end of the parameter list (line 1: def f(:)"),
        ("class A:\n    pass\nclass B(A):\n    pass", "class inheritance and metaclasses cannot be used here"),
        ("def f():\n    yield 1", "NotImplementedError: yield expressions cannot be used here; gather the values"),
        ("x = {1: 2}\ndel x[1]", "the 'del' statement cannot be used here; use values.pop(key)"),
        ("class A:\n    pass\n{A(): 1}", "the code could not be run: unhashable type"),
        ("import numpy as np", "ModuleNotFoundError: No module named 'numpy'; there are: asyncio, base64"),
        ("import statistics", "No module named 'statistics'; there are:"),
        ("next(n for n in [1])", "is not an iterator; a generator expression is a list here: put iter(…) around it"),
        ("max({1: 2}, key={1: 2}.get)", "not passed on: write lambda x: x.get(…) or the like (line 1: max("),
        ("list(map(str.upper, 'a'))", "not passed on: write lambda x: x.upper(…)"),
        ("(5).bit_length()", "'int' object has no attribute 'bit_length' (line 1"),
        ("x = 1", "the code gave no value; assign the result to final_result"),
        ("print()", "the code gave no value; assign the result to final_result, or print it"),
        ("final_result = None", "the code gave no value"),
        ("raise ValueError('a\\nb' + 'c' * 10_000)", "ValueError: a bccc"),
        ("", "there is no code to run"),
        ("```python\n```", "there is no code to run"),
        ([], "there is no code to run"),
        (None, "there is no code to run"),
        ("#" * 100_001, "longer than 100,000 characters"),
    ],
)
def test_errors_say_what_and_where(runtime: PythonRuntime, code: Any, problem: str) -> None:
    with pytest.raises(ToolError) as caught:
        runtime.run(code)
    assert problem in str(caught.value)
    assert len(str(caught.value)) < 800


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        ({"second": 1}, "no limit 'second'; did you mean 'seconds'\\?"),
        ({"seconds": 0}, "seconds must be a positive number, not 0"),
        ({"memory": 1.5}, "memory must be a positive whole number, not 1.5"),
        ({"memory": True}, "memory must be a positive whole number"),
        ({"seconds": "1"}, "seconds must be a positive number, not '1'"),
        ({"seconds": float("inf")}, "seconds must be a positive number"),
    ],
)
def test_limits_that_cannot_be(limits: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        PythonRuntime(limits)


def test_limits_are_said_in_files(tmp_path: Path) -> None:
    given = {"seconds": 0.2, "memory": 20_000_000, "printed": 1_000}
    agent = Agent(
        PromptModel(script=[{"when": "x", "call": {"tool": "Py", "input": "while True: pass"}}, {"finish": "."}])
    )
    agent.add_tool("Py", PythonRuntime(given), "runs Python")
    agent.add_tool("Other", PythonRuntime(), "runs Python")
    agent.save_to_yaml(tmp_path / "a.yml")
    assert check(tmp_path / "a.yml") == []
    again = Agent.load_from_yaml(tmp_path / "a.yml")
    assert [tool.something.given["limits"] for tool in again.tools] == [given, None]
    assert "> 200ms" in again.run("x").steps[0].observations[0].text
    again.save_to_yaml(tmp_path / "b.yml")
    assert Agent.load_from_yaml(tmp_path / "b.yml") == again
    (tmp_path / "a.yml").write_text((tmp_path / "a.yml").read_text().replace("seconds:", "second:"))
    with pytest.raises(DataError, match="no limit 'second'"):
        Agent.load_from_yaml(tmp_path / "a.yml")


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)
    with pytest.raises(UsageError, match=r"pip install 'retinue\[sandbox\]'"):
        PythonRuntime()


# ── one beside the other (hostile ones: test_python_corpus) ──────────────────────────────────────


def test_programs_know_nothing_of_each_other(runtime: PythonRuntime) -> None:
    assert result(runtime, "final_result = x = 1\ndef sum(a):\n    return 0") == 1
    with pytest.raises(ToolError, match="name 'x' is not defined"):
        runtime.run("x")
    assert result(runtime, "sum([1])") == 1


async def _side_by_side(runtime: PythonRuntime) -> list[Any]:
    codes = ["1", "while True: pass", "2", "1/0"]
    return list(await asyncio.gather(*map(runtime.run_async, codes), return_exceptions=True))


def test_many_run_side_by_side_and_the_loop_goes_on() -> None:
    found = asyncio.run(_side_by_side(PythonRuntime(SandboxLimits(seconds=0.2, at_once=2))))
    assert [found[0], found[2]] == [{"results": 1}, {"results": 2}]
    assert "TimeoutError" in str(found[1])
    assert "ZeroDivisionError" in str(found[3])


def test_a_killed_worker_does_not_take_our_process_along() -> None:
    code = (
        "from retinue import ToolError\n"
        "from retinue.components import PythonRuntime, SandboxLimits\n"
        "runtime = PythonRuntime(SandboxLimits(seconds=0.1))\n"
        "try:\n    runtime.run('len(str(7**10000000))')\n"
        "except ToolError as error:\n    print(error)\n"
        "print(runtime.run('1 + 1'))\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "the code was stopped: it did not end within 0.1 seconds\n{'results': 2}\n"


def test_a_run_that_is_cancelled_gives_its_place_back() -> None:
    runtime = PythonRuntime(SandboxLimits(seconds=0.1, at_once=1))

    async def cancelled() -> Any:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(runtime.run_async("while True: pass"), 0.02)
        return await runtime.run_async("2")

    assert asyncio.run(cancelled()) == {"results": 2}


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("print('hi')", "hi"),
        ("for n in range(3):\n    print(n)", "0\n1\n2"),
        ("print('noise')\nfinal_result = 4", 4),
        ("print('noise')\n2 + 2", 4),
    ],
)
def test_what_a_program_only_prints_is_its_value(code: str, value: object) -> None:
    assert PythonRuntime().run(code)["results"] == value
