"""A run that is pinned as a test: its log in a JSON file, with which agents of today are compared.

The recorded replies and what the tools gave answer the agent, so the test asks no model and calls no tool.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, TypeAlias

from .._internal.redaction import redact
from .._internal.sync_bridge import run_blocking
from ..core.events import ENDINGS, Event, Reported, Said, find_started
from ..core.serialization import from_json, to_json
from ..errors import DataError, LogMismatch
from .recorded_effects import number_events
from .replay import Recording, Replay, replay_team
from .spec import RunSpec, Specified

AgentSource: TypeAlias = Specified | Callable[[str], Specified]
"""An agent, or what returns one by the name in a pinned run."""
_FIELDS = {"object", "version", "agent", "kept", "events", "members"}
_SECRET_SHAPES = re.compile(
    r"\b(?:sk|pk|rk|hf|gh[opsu]|github_pat|glpat|xox[abpr])[-_][A-Za-z0-9_-]{16,}|\bAKIA[0-9A-Z]{16}\b"
    r"|(?<=[Bb]earer )[A-Za-z0-9._~+/-]{16,}|(?<=://)[^/@\s\"\\]+:[^/@\s\"\\]+(?=@)"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"
)


@dataclass(frozen=True, slots=True)
class PinnedRun:
    """A run that is pinned.

    Args:
        agent: The name of its agent.
        events: Its log.
        members: The logs of the agents that were called, by the paths of their calls.
        kept: The last step that was another run's, of which it is a fork; -1 if there is none.
    """

    agent: str
    events: Sequence[Event]
    members: Mapping[str, Sequence[Event]] = field(default_factory=dict)
    kept: int = -1

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a pinned run. Raises `DataError`, which names the place, if the file holds none."""
        try:
            given = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise DataError(f"{path}: cannot be read as a pinned run: {error}") from error
        if not isinstance(given, dict) or given.get("object") != "run.pinned" or given.get("version") != 1:
            raise DataError(f"{path}: no pinned run of version 1; `retinue runs pin` writes them")
        if given.keys() != _FIELDS or not isinstance(given["members"], dict) or not isinstance(given["kept"], int):
            raise DataError(f"{path}: a pinned run has the fields {', '.join(sorted(_FIELDS))}")
        members = {name: _read_events(log, f"{path}: members.{name}") for name, log in given["members"].items()}
        return cls(str(given["agent"]), _read_events(given["events"], f"{path}: events"), members, given["kept"])

    def write(self, path: Path) -> None:
        """Write the pinned run, without secrets."""
        values = {
            "object": "run.pinned",
            "version": 1,
            "agent": self.agent,
            "kept": self.kept,
            "events": _write_events(self.events),
            "members": {name: _write_events(log) for name, log in self.members.items()},
        }
        text = _SECRET_SHAPES.sub("***", redact(json.dumps(values, indent=1, ensure_ascii=False)))
        path.write_text(f"{text}\n", "utf-8")

    def replay(self, source: AgentSource, *, accepting: bool = False) -> dict[str, Replay]:
        """Return the replays of the run, under the empty path, and of its members. Raises `LogMismatch` if a member is
        no longer in the team."""
        agent: Any = source if hasattr(source, "run_spec") else source(self.agent)
        spec: RunSpec = agent.run_spec()
        recording = Recording(number_events(self.events), spec.budget, accepting=accepting, kept=self.kept)
        found = run_blocking(replay_team(spec, recording, self.members))
        return {"": found, **found.members}

    def find_problem(self, source: AgentSource) -> str:
        """Return where the run is decided otherwise by now, as a diff; an empty string if it is not."""
        try:
            found = self.replay(source)
        except LogMismatch as error:
            return str(error)
        said = []
        for path, replay in found.items():
            if (differs := replay.differs) is not None:
                whose = f" of the member's run {path}" if path else ""
                said.append(f"it differs at event {differs.event}, step {differs.step}{whose}:")
                said += [f"  {line}" for line in differs.diff()]
        return "\n".join(said)

    def accept_changes(self, source: AgentSource) -> PinnedRun:
        """Return the run with the prompts and the answer of today. Raises `LogMismatch` if other calls are decided on,
        of which no outcome is recorded."""
        found = self.replay(source, accepting=True)
        for path, replay in found.items():
            if replay.differs is not None:
                where = f"event {replay.differs.event}{f' of {path}' if path else ''}"
                raise LogMismatch(f"{where} is another decision, whose outcome is not recorded: pin a new run")
        members = {path: _complete_log(self.members[path], replay) for path, replay in found.items() if path}
        return replace(self, events=_complete_log(self.events, found[""]), members=members)


def _complete_log(recorded: Sequence[Event], replay: Replay) -> Sequence[Event]:
    """Return the log as it is now; where it ends from outside, with the end that is recorded."""
    if replay.events and isinstance(replay.events[-1], ENDINGS):
        return replay.events
    return [*replay.events, *(recorded[-1:] if recorded and isinstance(recorded[-1], ENDINGS) else ())]


def _write_events(log: Sequence[Event]) -> list[Any]:
    return [json.loads(to_json(event)) for event in log if not isinstance(event, Said | Reported)]


def _read_events(given: Any, place: str) -> list[Event]:
    if not isinstance(given, list):
        raise DataError(f"{place}: want a list of events")
    found: list[Event] = []
    for one in given:
        try:
            found.append(from_json(json.dumps(one)))
        except DataError as error:
            raise DataError(f"{place}.{len(found)}: {error}") from error
    if find_started(found) is None:
        raise DataError(f"{place}: a log begins with the event 'started'")
    return found
