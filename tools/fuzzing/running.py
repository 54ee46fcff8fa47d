"""A run of Schemathesis over a server's operations, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import schemathesis
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import events, from_schema
from schemathesis.engine.recorder import ScenarioRecorder

from conformance.serving import KEY, served

from . import checks
from .families import Case, Families

SEED = 7
# Checks of Schemathesis that contradict what OpenAI does, and Retinue with it.
LEFT_OUT: Mapping[str, str] = {
    "positive_data_acceptance": "a body of the schema may still name a model, a file or a thread that is not there",
    "negative_data_rejection": "parameters that are not known are ignored, in bodies and queries",
}
_SECONDS = 30  # for an answer
_SHOWN = 300  # characters of a request and of an answer
_FAILURES = 3  # shown of each operation


@dataclass(slots=True)
class Outcome:
    """How many cases there were of each operation, how many of their answers were good (2xx) and how many failed a
    check; `said` shows the first failures."""

    cases: Counter[str] = field(default_factory=Counter)
    good: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    said: list[str] = field(default_factory=list)

    def table(self) -> str:
        """The counts in Markdown."""
        rows = [(f"`{name}`", self.cases[name], self.good[name], self.failed[name]) for name in sorted(self.cases)]
        count = f"all {len(rows)} operations"
        rows.append((count, self.cases.total(), self.good.total(), self.failed.total()))
        lines = ["| operation | cases | answered with 2xx | failures |", "|---|---|---|---|"]
        return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)]) + "\n"

    def note(self, recorder: ScenarioRecorder) -> None:
        """Count what an operation's scenario recorded."""
        name = recorder.label
        self.cases[name] += len(recorder.interactions)
        shown = 0
        for case, interaction in recorder.interactions.items():
            answer = interaction.response
            self.good[name] += answer is not None and answer.status_code < 300
            problems = [one.failure_info.failure for one in recorder.checks.get(case, ()) if one.failure_info]
            self.failed[name] += bool(problems) or answer is None
            if (problems or answer is None) and shown < _FAILURES:
                shown += 1
                said = f"{answer.status_code} {answer.text[:_SHOWN]}" if answer is not None else "nothing"
                request = interaction.request
                body = (request.body or b"")[:_SHOWN]
                what = "; ".join(f"{one.title}: {one.message}" for one in problems) or "no answer"
                self.said.append(f"{name}: {what}\n  {request.method} {request.uri}\n  {body!r}\n  {said}\n")


def run(
    examples: int, *, coverage: bool = True, only: Sequence[str] = (), tell: Callable[[str], None] = lambda _: None
) -> Outcome:
    """Try each operation with at most `examples` generated cases, and with those that `coverage` enumerates.

    `only`: the operations whose paths begin so. `tell` is told of each when it was tried. Raises `UsageError` if the
    server does not start.
    """
    outcome = Outcome()
    with served() as (url, log):
        _use(Families(url, KEY))
        try:
            schema: schemathesis.BaseSchema = schemathesis.openapi.from_url(
                f"{url}/openapi.json", config=_config(examples, coverage), headers=_AUTH
            )
            if only:
                schema = schema.include(path_regex=f"^({'|'.join(only)})")
            for event in from_schema(schema).execute():
                if isinstance(event, events.ScenarioFinished):
                    outcome.note(event.recorder)
                    tell(
                        f"{event.phase.value}: {event.label}: {len(event.recorder.interactions)}, {event.status.value}"
                    )
                elif isinstance(event, events.NonFatalError):
                    outcome.failed[event.label] += 1
                    outcome.said.append(f"{event.label}: {event.info}: {event.value}\n")
                elif isinstance(event, events.FatalError):
                    raise event.exception
        finally:
            schemathesis.hooks.unregister_all()
        if outcome.failed:
            outcome.said.append(f"The server's log ends with:\n{log.read_text(encoding='utf-8')[-5000:]}")
    return outcome


CHECKS = (checks.error_envelope, checks.sdk_types)  # which registered themselves
_AUTH = {"Authorization": f"Bearer {KEY}"}


def _config(examples: int, coverage: bool) -> SchemathesisConfig:
    return SchemathesisConfig.from_dict(
        {
            "seed": SEED,
            "continue-on-failure": True,
            "headers": _AUTH,
            "request-timeout": _SECONDS,
            "generation": {"max-examples": examples, "no-shrink": True, "database": "none"},
            "phases": {
                "examples": {"enabled": False},
                "coverage": {"enabled": coverage},
                "stateful": {"enabled": False},
            },
            "checks": {name: {"enabled": False} for name in LEFT_OUT},
        }
    )


def _use(families: Families) -> None:
    """Give every case real ids before it is sent."""

    @schemathesis.hook
    def before_call(context: Any, case: Case, kwargs: Any) -> None:
        families.fill(case)

    @schemathesis.hook
    def after_call(context: Any, case: Case, response: schemathesis.Response) -> None:
        families.done(case, response.status_code)
