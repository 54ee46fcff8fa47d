"""The tree of errors, named for who must act.

RetinueError
├── UsageError        Retinue was called in a way that cannot work; the message says what would
├── DataError         a file or text is invalid (the message gives the place, the fault and the remedy)
├── ModelError        the model failed and the run ends
│   ├── ModelRefused      wrong key, unknown model or bad request; a retry will not help
│   │   ├── ModelNotFound     the engine has no model of this name; the message suggests one
│   │   └── WindowExceeded    the prompt is too long for the model's context window
│   └── ModelUnavailable  unreachable or disconnected, even after retries
├── NodeFailed        a node of a pipeline raised; names the node, `__cause__` is the original
├── StoreUnavailable  the database is unreachable, locked or full; runs are parked and continue later
│   └── StoreLost         its file or log was deleted, replaced or truncated; an operator must restore it
├── StoreConflict     a row violates a constraint: another transaction was first; the same write will fail again
│   └── ValueRefused      the database cannot hold a value
├── StrategyFailed    a strategy raised or yielded an invalid request; `__cause__` is the original
├── LogMismatch       a recorded run does not match the strategy that should continue it
├── NoAnswer         a run has no answer of the type that its agent gives; its result says why
├── AgentChanged      a stored run began with another agent than the one that is served
├── ForeignExit       foreign code raised a non-`Exception` (`SystemExit`, …), kept as `__cause__`
└── ToolError         raised by tools: the model reads the message and can try something else
    └── NotDone           raised by tools: the call failed before it changed anything and may be repeated
"""


class RetinueError(Exception):
    """Root of the tree: `except RetinueError` catches everything that Retinue raises on purpose."""


class UsageError(RetinueError):
    """Retinue was called in a way that cannot work."""


class DataError(RetinueError):
    """A file or text is invalid; the message names the place."""


class ModelError(RetinueError):
    """The model failed, and the run ends.

    `code` names the failure for programs: `context_length_exceeded`, `invalid_request`, `model_refused`,
    `rate_limit_exceeded`, `model_unavailable`, or `model_unreachable` if no request can have reached the engine.
    `status` is the HTTP status of the engine's response, if it gave one.
    """

    code = "model_refused"
    status: int | None = None


class ModelRefused(ModelError):
    """The engine rejected the key, model or request; repeating the request will not help."""


class ModelNotFound(ModelRefused):
    """The engine has no model of this name; the message lists those it has."""


class WindowExceeded(ModelRefused):
    """Prompt and reply do not fit into the model's context window."""

    code = "context_length_exceeded"


class ModelUnavailable(ModelError):
    """The engine could not be reached, timed out or dropped the connection, even after retries. `retry_after` is the
    delay in seconds that it asked for, if any."""

    code = "model_unavailable"

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NodeFailed(RetinueError):
    """A node of a pipeline raised; `node` is its name and `__cause__` the original error."""

    def __init__(self, node: str, problem: str) -> None:
        super().__init__(f"node {node!r}: {problem}")
        self.node = node


class StoreUnavailable(RetinueError):
    """The database is unreachable, locked or full. This is never the outcome of a run. `uncertain`: the commit itself
    failed, so the write may have been done."""

    uncertain = False


class StoreConflict(RetinueError):
    """Another writer was first: a row is no longer as it was read, or a constraint forbids the write."""


class ValueRefused(StoreConflict):
    """The database cannot hold a value, such as a number out of its range."""


class StoreLost(StoreUnavailable):
    """The database file, or its write-ahead log, is no longer the one that was opened, so commits would be lost: the
    message says what helps. `only_log`: the database file itself is intact."""

    def __init__(self, message: str, *, only_log: bool = False) -> None:
        super().__init__(message)
        self.only_log = only_log


class StrategyFailed(RetinueError):
    """A strategy raised, or yielded a request that cannot be served."""

    code = "server_error"


class LogMismatch(RetinueError):
    """A recorded run does not match the strategy that should continue it; the message names the event."""


class NoAnswer(RetinueError):
    """A run ended without an answer of the type that its agent gives; the message says why."""


class AgentChanged(RetinueError):
    """A stored run began with another agent than the one that is served, and that cannot be rebuilt: the message says
    why. The run is suspended, and goes on once the agent is served again."""


class ForeignExit(RetinueError):
    """Foreign code (a tool, component, strategy or callback) raised a non-`Exception` such as `SystemExit`, or
    cancelled itself. `__cause__` is the original, if available."""


class ToolError(RetinueError):
    """Raised by tools: the model reads the message as the observation.

    It does not imply that nothing happened: after it, the outcome of a call with the effects `once` is unknown.
    `kinds` are the class names, base classes included, of what a tool's subprocess raised.
    """

    def __init__(self, *message: object, kinds: tuple[str, ...] = ()) -> None:
        super().__init__(*message)
        self.kinds = kinds


class NotDone(ToolError):
    """Raised by tools: the call failed before it changed anything, so it is safe to repeat."""
