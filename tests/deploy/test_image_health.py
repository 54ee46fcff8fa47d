"""The image's health check: what it says of each command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

DOCKERFILE = Path(__file__).parents[2] / "deploy" / "Dockerfile"


def test_a_worker_is_healthy_and_a_server_that_does_not_answer_is_not(tmp_path: Path) -> None:
    (line,) = (
        line
        for line in DOCKERFILE.read_text("utf-8").splitlines()
        if line.lstrip().startswith("CMD [") and "health" in line
    )
    *_, program = json.loads(line.strip().removeprefix("CMD "))
    first = tmp_path / "cmdline"
    program = program.replace("/proc/1/cmdline", str(first)).replace(":8000/", ":1/")
    for words, healthy in (("retinue worker /agents.yml", True), ("retinue serve /agents.yml --host=0.0.0.0", False)):
        first.write_bytes(words.replace(" ", "\0").encode() + b"\0")
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, check=False)
        assert (done.returncode == 0) == healthy, words
