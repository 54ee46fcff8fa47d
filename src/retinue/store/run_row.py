"""The model of a stored run: its request, what became of it so far, and the submissions by which it resumed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple, TypedDict

from ..core.values import Decision, File, Usage

Kind = Literal["assistant", "chat", "response", "a2a", "member", "fork", "imported", "python"]
Status = Literal[
    "queued",
    "in_progress",
    "requires_action",
    "cancelling",
    "cancelled",
    "failed",
    "completed",
    "incomplete",
    "expired",
]
UNREADABLE = (ValueError, TypeError, AttributeError, KeyError)
"""What reading a row raises that holds data which we did not write."""
REGARDLESS = ""
"""The `snapshot` of a run that goes on although its agent is another now."""
BY_MEMBERS = "members"
"""The `driver` of a run that waits for the runs of its members: no process drives it until they have ended."""
ACTIVE: frozenset[Status] = frozenset({"queued", "in_progress", "requires_action", "cancelling"})
ENDED: tuple[Status, ...] = ("completed", "failed", "cancelled", "expired", "incomplete")


class RunError(NamedTuple):
    """Why a run failed: OpenAI's error code and a message for clients. `cause` is the engine's own error code, and
    `retry_after` the seconds to wait before another attempt, if it said so."""

    code: str
    message: str
    cause: str | None = None
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Submission:
    """What a waiting run was given, by which it resumed.

    Args:
        number: Counts the run's submissions from 1.
        at: When it was submitted, in Unix seconds.
        mark: A fingerprint by which a repeated submission is recognized.
        told: The number of the log's last event before it.
        decisions: The decisions on the pending calls, by call id in the log.
        answered: The calls that were answered rather than decided on.
        usage: The run's token usage before it.
        asked: The parameters of the request for a further response, as that response echoes them.
        input: That request's input items.
        include: That request's `include`.
        calls: The client's ids of the calls that it answers.
    """

    number: int
    at: int
    mark: str
    told: int = 0
    decisions: Mapping[str, Decision] = field(default_factory=dict)
    answered: Sequence[str] = ()
    usage: Usage = field(default_factory=Usage)
    asked: Mapping[str, Any] | None = None
    input: Sequence[Mapping[str, Any]] | None = None
    include: Sequence[str] | None = None
    calls: Sequence[str] | None = None


class RunValues(TypedDict, total=False):
    """The values of a run that change while it is driven."""

    status: Status
    holds: bool
    expires_at: int | None
    epoch: int
    driver: str | None
    attempts: int
    progress: int | None
    started_at: int | None
    ended_at: int | None
    ending: str | None
    error: RunError | None
    incomplete: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    waiting: Sequence[Mapping[str, Any]]
    turns: int
    snapshot: str | None


class RunRow(NamedTuple):
    """A stored run. Times are Unix seconds. (A tuple, for a step makes several, and a dataclass takes five times as
    long.)

    Args:
        id: Its id, and `tenant`, whose it is.
        thread_id: Its thread or conversation, if it has one.
        holds: Whether no other run may start on its thread.
        expires_at: When it expires.
        epoch: The number of its latest drive; only that one may write.
        request: The request as JSON. It never changes.
        key_id: The API key that requested it.
        user: For whom it is: the user of that key, if the key has one.
        kind: The API that requested it.
        agent: The agent's name, which is the request's `model`.
        parent_id: The run that called this one, `root_id` the first of them, and `call_id` the call.
        driver: The process that drives it, or drove it last; or `BY_MEMBERS`.
        attempts: How many processes have driven it since it last made progress.
        progress: The number of the log's last event, reply deltas aside, at the beginning of the latest drive.
        ended_at: When it ended; `status` says how.
        ending: How a drive must end it ("expired"), instead of going on.
        incomplete: Why it is incomplete.
        prompt_tokens: Its token usage, unknown until it first rests.
        waiting: The calls that it waits for, as JSON.
        turns: How many submissions it has.
        deleted: The numbers of its responses that the client deleted.
        stored: Whether the client may retrieve it later, where its API lets the client choose.
        snapshot: The hash of the agent's specification at its beginning; `REGARDLESS` if it goes on with whatever
            agent is served.
        forked_from: The run of which it is a fork.
        submissions: Its submissions, oldest first.
    """

    id: str
    tenant: str
    thread_id: str | None
    created_at: int
    status: Status
    holds: bool
    expires_at: int | None
    epoch: int
    request: Mapping[str, Any]
    key_id: str | None = None
    kind: Kind = "assistant"
    agent: str = ""
    parent_id: str | None = None
    root_id: str | None = None
    call_id: str | None = None
    driver: str | None = None
    attempts: int = 0
    progress: int | None = None
    started_at: int | None = None
    ended_at: int | None = None
    ending: str | None = None
    error: RunError | None = None
    incomplete: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    metadata: Mapping[str, str] = {}
    waiting: Sequence[Mapping[str, Any]] = ()
    turns: int = 0
    deleted: Sequence[int] = ()
    stored: bool = False
    snapshot: str | None = None
    forked_from: str | None = None
    user: str | None = None
    submissions: tuple[Submission, ...] = ()

    @property
    def active(self) -> bool:
        """Whether the run has not ended."""
        return self.status in ACTIVE

    @property
    def suspended(self) -> bool:
        """Whether the run is suspended, since the agent that it began with is no longer served; `error` says why."""
        return self.status == "queued" and self.error is not None

    @property
    def rests(self) -> bool:
        """Whether the run has ended, or waits for a person, its client or its agent."""
        return self.status == "requires_action" or not self.active or self.suspended

    @property
    def usage(self) -> Usage | None:
        """The run's token usage; `None` until it first rests."""
        if self.prompt_tokens is None:
            return None
        return Usage(self.prompt_tokens, self.completion_tokens or 0, self.cached_tokens or 0)

    @property
    def told(self) -> int:
        """The number of the log's last event before the last submission; 0 if there was none."""
        return self.submissions[-1].told if self.submissions else 0

    @property
    def decisions(self) -> dict[str, Decision]:
        """The latest decision on each call, by call id in the log."""
        return {call: one for submission in self.submissions for call, one in submission.decisions.items()}

    def submitted(self, mark: str) -> bool:
        """Whether the submission with this `mark` was made before."""
        return any(one.mark == mark for one in self.submissions)


_KEPT = (*RunValues.__annotations__, "metadata", "deleted")


def column_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert values of a run to those of its columns, which are also JSON."""
    given = dict(values)
    if (error := given.get("error")) is not None:
        given["error"] = error._asdict()
    for name in given.keys() & {"waiting", "deleted"}:
        given[name] = list(given[name]) or None
    return given


def run_values(given: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the values of columns to those of a run. Raises `TypeError` for values that are not ours."""
    values = dict(given)
    if (error := values.get("error")) is not None:
        values["error"] = RunError(**error)
    for name in values.keys() & {"waiting", "deleted"}:
        values[name] = tuple(values[name] or ())
    return values


def dump_values(run: RunRow) -> dict[str, Any]:
    """Return what may change of a run, as JSON."""
    return column_values({name: getattr(run, name) for name in _KEPT})


def load_values(run: RunRow, given: Mapping[str, Any]) -> RunRow:
    """Return the run as it was when `dump_values` returned `given`. Raises one of `UNREADABLE` for anything else."""
    if set(given) != set(_KEPT):
        raise ValueError(f"expected the values {', '.join(_KEPT)}")
    values = run_values(given)
    return run._replace(**values, submissions=run.submissions[: values["turns"]])


def dump_submission(submission: Submission) -> dict[str, Any]:
    """Return the values of a submission's columns."""
    given = {name: getattr(submission, name) for name in Submission.__slots__}
    decisions = {call: _dump_decision(one) for call, one in submission.decisions.items()}
    return {**given, "decisions": decisions, "answered": list(submission.answered), "usage": asdict(submission.usage)}


def _dump_decision(decision: Decision) -> dict[str, Any]:
    """Return the values of a decision, without the bytes of its files."""
    given = asdict(decision)
    files = [{name: value for name, value in one.items() if name != "data"} for one in given.pop("files")]
    return {**given, "files": files} if files else given


def load_submission(given: Mapping[str, Any]) -> Submission:
    """Return the submission with these column values. Raises `TypeError` for values that are not ours."""
    decisions = {
        call: Decision(**{**one, "files": tuple(File(**file) for file in one.get("files", ()))})
        for call, one in given["decisions"].items()
    }
    typed = {"decisions": decisions, "answered": tuple(given["answered"]), "usage": Usage(**given["usage"])}
    return Submission(**{**given, **typed})
