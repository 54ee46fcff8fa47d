"""`fork`: another run, which begins with the log of a run up to a step, and goes on from there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..core.events import Event, Started
from ..core.log_fork import ForkPoint, fork_log
from ..core.replay import call_of
from ..core.run_result import RunResult
from ..net.file_source import FileSource
from .nested import Earlier
from .run import Run
from .spec import Specified


def fork(
    agent: Specified,
    log: RunResult | Sequence[Event],
    step: int | None = None,
    *,
    observations: Mapping[str, str] | None = None,
    instructions: str | None = None,
    files: Sequence[FileSource] = (),
) -> Run:
    """Return a run of `agent` that begins with a log (of a result, or its `events`) up to the end of `step`, and goes
    on: `fork(…).finish()` runs it. The other run stays as it is.

    What was done until then stays done, and the model sees it under the prompt that `agent` has by now; so another
    model, other tools or other words are those of another `agent`. New calls have keys of their own.

    Args:
        agent: Who goes on.
        log: The run.
        step: The last step that is kept; 0 keeps only the question. By default the last one, or the one before the
            answer.
        observations: Texts in place of what calls brought, by call id; the run goes on after them.
        instructions: A new system message; by default that of the log.
        files: Those of the run, since a stored log lacks them.

    Raises `UsageError` if there is no such step or call, or if nothing would be left to decide.
    """
    events = log.events if isinstance(log, RunResult) else tuple(log)
    children = log.children if isinstance(log, RunResult) else {}
    kept = [one.event for one in fork_log(events, ForkPoint(step, observations or {}, instructions))]
    calls = {call_of(event) for event in kept}
    members = {path: log for path, log in children.items() if path.partition("/")[0] in calls}
    started = next(event for event in kept if isinstance(event, Started))
    run = Run(agent, started.question, started.history, Earlier(kept, {}, members))
    run.regardless, run.files = True, tuple(files)
    return run
