"""What is forked instead of started does the same, and says the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fakes import fork_server

SAYS = "import os, sys, time; print(sys.argv, sys.path[0], __name__, os.getcwd(), os.environ['TOLD'], time.tzname)"


@pytest.mark.parametrize(
    "words",
    [
        ["-c", SAYS, "a", "b"],
        ["-c", "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"],
        ["-c", "def f():\n    raise ValueError('no')\nf()"],
        ["-c", "import os; os.kill(os.getpid(), 9)"],
        ["-c", "raise SystemExit(-1)"],
        ["-c", "raise KeyboardInterrupt"],
        ["-c", "import os; os.write(1, b'out'); print('more'); os.close(1)"],
        ["-c", "import threading; threading.Thread(target=lambda: print('in the end')).start()"],
        ["-c", "import atexit; atexit.register(print, 'ended'); raise SystemExit('no')"],
        ["-W", "error", "-c", "import warnings; warnings.warn('x')"],
        ["-W", "error", "-W", "ignore::UserWarning", "-c", "import warnings; warnings.warn('x')"],
        ["program.py", "a"],
        ["-m", "retinue", "check", "missing.yml"],
        ["-m", "retinue", "--version"],
    ],
    ids=lambda words: " ".join(words)[:40],
)
def test_a_program_that_is_forked_is_one_that_is_started(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(f"{SAYS}\nprint(__file__, flush=True)\n1 / 0\n")
    env = {**os.environ, "TOLD": "so", "TZ": "Asia/Tokyo"}
    forked = fork_server.python(words, env=env, cwd=tmp_path)
    started = subprocess.run([sys.executable, *words], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert (forked.stdout, forked.stderr, forked.returncode) == (started.stdout, started.stderr, started.returncode)


def test_a_program_that_takes_too_long_is_ended() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        fork_server.python(["-c", "while True: pass"], timeout=0.1)


@pytest.mark.parametrize("name", ["LD_PRELOAD", "PYTHONPATH", "PYTHONUTF8", "LANG", "LC_ALL"])
def test_what_is_looked_at_before_a_program_runs_needs_an_interpreter(name: str) -> None:
    assert fork_server.can(os.environ)
    assert not fork_server.can({**os.environ, name: "x"})
