"""Output in another encoding than UTF-8, as a pipe has on Windows: what it lacks is escaped, and nothing is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FILE = """
agents:
  - name: a
    params:
      model: scripted
      script: [{finish: "x → é 😀 done"}]
"""


@pytest.mark.full
@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
def test_json_stays_json_and_text_is_shown(encoding: str, tmp_path: Path) -> None:
    file = tmp_path / "a.yml"
    file.write_text(FILE, "utf-8")
    wrong = tmp_path / "wrong.yml"
    wrong.write_text("größe → 😀: 1", "utf-8")

    def retinue(*arguments: str) -> bytes:
        command = [sys.executable, "-m", "retinue", *arguments]
        env = os.environ | {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
        done = subprocess.run(command, capture_output=True, env=env, check=False)
        assert done.stderr == b"" or arguments[0] == "check"
        return done.stdout + done.stderr

    lines = retinue("run", str(file), "Q → ?", "--json").decode(encoding).splitlines()
    assert json.loads(lines[-1])["answer"] == "x → é 😀 done"
    assert "x \\u2192" in retinue("run", str(file), "Q → ?").decode(encoding)
    assert "unknown key 'gr" in retinue("check", str(wrong)).decode(encoding)
