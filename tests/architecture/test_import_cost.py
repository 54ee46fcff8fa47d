"""What `from retinue import Agent, tool` does not need is not imported by it."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "pydantic",
    "pydantic_core",
    "jsonschema",
    "yaml",
    "httptools",
    "re2",
    "retinue.components",
    "retinue.documents",
    "retinue.strategies.careful",
    "retinue.strategies.planexec",
    "retinue.strategies.self_ask",
)


@pytest.mark.parametrize(
    ("code", "heavy"),
    [("import retinue", (*HEAVY, "asyncio", "importlib.resources")), ("from retinue import Agent, tool", HEAVY)],
)
def test_an_import_brings_only_what_it_needs(code: str, heavy: tuple[str, ...]) -> None:
    program = f"import sys; {code}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert sorted(set(done.stdout.split()) & set(heavy)) == []


def test_what_is_imported_on_first_use_is_there() -> None:
    program = """
from pydantic import BaseModel
from retinue import Message, Usage
import retinue.memory as memory

class Kept(BaseModel):
    message: Message
    usage: Usage

assert Kept(message=Message("user", "x"), usage=Usage(1)).model_dump(mode="json") == {
    "message": {"role": "user", "content": "x", "calls": [], "call_id": "", "tool": ""},
    "usage": {"input_tokens": 1, "output_tokens": 0, "cached_tokens": 0, "requests": 0},
}
assert all(getattr(memory, name).__name__ == name for name in memory.__all__)
try:
    memory.Nothing
except AttributeError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("module 'retinue.memory' has no attribute 'Nothing'\n", "")
