"""The command, run in the test's own process: for what is said and returned, where no signal, no terminal and no
process's end is the subject.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import chdir
from pathlib import Path
from subprocess import CompletedProcess

from click.testing import CliRunner

from retinue.cli.main import main

_LOGGERS = (logging.getLogger(), logging.getLogger("retinue"))


def retinue(
    *words: str | Path, env: Mapping[str, str] | None = None, cwd: Path | None = None, said: str = ""
) -> CompletedProcess[str]:
    """What `retinue` with these words came to, with `said` as its standard input. `env` is the whole environment."""
    texts = [str(word) for word in words]
    given = dict(os.environ if env is None else env)
    changed = {name: given.get(name) for name in {*os.environ, *given} if os.environ.get(name) != given.get(name)}
    before = [(one, one.level, list(one.handlers)) for one in _LOGGERS]
    with chdir(cwd or Path.cwd()), CliRunner(env=changed).isolation(said) as (out, err, _):
        try:
            status = main(texts)
        finally:
            for logger, level, handlers in before:
                logger.setLevel(level)
                logger.handlers[:] = handlers
        return CompletedProcess(texts, status, out.getvalue().decode(), err.getvalue().decode())
