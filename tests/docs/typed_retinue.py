"""`retinue`, as the reader of a page types it: Ctrl-C ends what would go on once it is ready, and it has to end well.

It listens on free ports, and opens no browser.
"""

from __future__ import annotations

import signal
import subprocess
import sys

GOES_ON = {  # by command: what it is told besides, and what it prints once it is ready
    "serve": (["--port", "0"], "Retinue is ready on"),
    "studio": (["--no-browser"], "The studio is at"),
    "up": (["--port", "0"], "Authorization: Bearer"),
    "worker": ([], "Retinue is at work"),
    "mcp": (["--http", "127.0.0.1:0"], "Authorization: Bearer"),
}


def main(words: list[str]) -> int:
    """Run it; its exit status."""
    command = [sys.executable, "-m", "retinue", *words]
    if words[0] not in GOES_ON or (words[0] == "mcp" and "--http" not in words):
        return subprocess.run(command, check=False).returncode
    more, says = GOES_ON[words[0]]
    if "--metrics-port" in words:
        more = [*more, "--metrics-port", "0"]
    going = subprocess.Popen([*command, *more], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert going.stdout is not None
    with going.stdout as lines:
        ready = False
        for line in lines:
            sys.stdout.write(line)
            sys.stdout.flush()
            if says in line and not ready:
                ready = True
                going.send_signal(signal.SIGINT)
    return going.wait() if ready else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
