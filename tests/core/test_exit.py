"""How our own programs end."""

from __future__ import annotations

import subprocess
import sys
import time

PROGRAM = """
import atexit, time
from retinue._internal.sync_bridge import limit_exit
atexit.register(time.sleep, 60)
limit_exit(0.2)
"""


def test_a_hook_of_foreign_code_does_not_delay_the_end() -> None:
    began = time.monotonic()
    assert subprocess.run([sys.executable, "-c", PROGRAM], timeout=30, check=False).returncode == 0
    assert time.monotonic() - began < 20
