"""The SDK's tests as a whole: a server, the proxy before it, pytest in a process of its own, and what came of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

from retinue import DataError

from . import sources
from .objects import AGENT
from .proxy import Proxy
from .serving import KEY, served

# In the SDK's `tests/api_resources`; what begins with `lib/` is beside that.
FILES = (
    "test_models.py",
    "chat/test_completions.py",
    "chat/completions/test_messages.py",
    "beta/test_assistants.py",
    "beta/test_threads.py",
    "beta/threads/test_messages.py",
    "beta/threads/test_runs.py",
    "beta/threads/runs/test_steps.py",
    "test_responses.py",
    "responses/test_input_items.py",
    "responses/test_input_tokens.py",
    "lib/responses/test_websocket_live.py",
    "beta/test_responses.py",
    "beta/responses/test_input_items.py",
    "beta/responses/test_input_tokens.py",
    "test_conversations.py",
    "conversations/test_items.py",
    "test_files.py",
    "test_vector_stores.py",
    "vector_stores/test_files.py",
    "vector_stores/test_file_batches.py",
    "test_embeddings.py",
    "test_batches.py",
    "test_completions.py",
    "test_containers.py",
    "containers/test_files.py",
    "containers/files/test_content.py",
    "test_moderations.py",
    "test_uploads.py",
    "uploads/test_parts.py",
)
OUTCOMES = ("passed", "failed", "refused", "skipped")
_HERE = Path(__file__).parent
_SECONDS = 900
_LOGGED = 5_000  # characters


@dataclass(frozen=True, slots=True)
class Outcome:
    """How many tests of each file ended in each of `OUTCOMES`, and what pytest and the server wrote."""

    counts: Mapping[str, Counter[str]]
    said: str

    def total(self, outcome: str) -> int:
        """Tests of all files that ended so."""
        return sum(count[outcome] for count in self.counts.values())

    def table(self) -> str:
        """The counts in Markdown."""
        rows = [(file, *(count[outcome] for outcome in OUTCOMES)) for file, count in self.counts.items()]
        rows.append(("all", *(self.total(outcome) for outcome in OUTCOMES)))
        lines = [f"| file | {' | '.join(OUTCOMES)} |", "|---" * (len(OUTCOMES) + 1) + "|"]
        return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)]) + "\n"


def run(files: Sequence[str] = FILES, *options: str) -> Outcome:
    """Run these of `FILES`, with more options of pytest.

    Raises `DataError` if pytest could not run them, `ModelUnavailable` if they cannot be fetched, `UsageError`
    if the server does not start.
    """
    folder = sources.folder()
    with served() as (url, log), Proxy(url, KEY) as proxy, TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        words = [sys.executable, "-m", "pytest", "-c", str(_HERE / "sdk.ini"), "--rootdir", str(folder)]
        words += ["--junitxml", str(report), *options, *map(_place, files)]
        path = os.pathsep.join(filter(None, [str(_HERE.parent), os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "PYTHONPATH": path, "TEST_API_BASE_URL": f"{proxy.url}/v1", **_live(url)}
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=_SECONDS)
        said = f"{done.stdout}{done.stderr}\nThe server's log ends with:\n{log.read_text(encoding='utf-8')[-_LOGGED:]}"
        if done.returncode not in (0, 1):
            raise DataError(f"pytest could not run the SDK's tests:\n{said}")
        return Outcome(_counts(report, files), said)


def _place(file: str) -> str:
    return f"tests/{file}" if file.startswith("lib/") else f"tests/api_resources/{file}"


def _live(url: str) -> Mapping[str, str]:
    """What the tests of WebSockets look for, which they open to the server itself."""
    asked = {"OPENAI_WEBSOCKET_LIVE_TEST": "1", "OPENAI_WEBSOCKET_TEST_MODEL": AGENT}
    return asked | {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": KEY}


def _counts(report: Path, files: Sequence[str]) -> Mapping[str, Counter[str]]:
    modules = {_place(file).removesuffix(".py").replace("/", "."): file for file in files}
    counts = {file: Counter[str]() for file in files}
    for case in ElementTree.parse(report).iter("testcase"):
        name = case.get("classname", "")  # of a module, or of a class in one
        counts[modules.get(name) or modules[name.rpartition(".")[0]]][_outcome(case)] += 1
    return counts


def _outcome(case: ElementTree.Element) -> str:
    skipped = case.find("skipped")
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    if skipped is None:
        return "passed"
    return "refused" if skipped.get("type") == "pytest.xfail" else "skipped"
