"""The tree of errors, named for who must act.

RetinueError
├── UsageError        you called Retinue in a way that cannot work (the message says how to)
├── DataError         a file or text you gave is not what it must be (place, what, what would be right)
├── ModelError        the model's side failed and the run ends
│   ├── ModelRefused      it said no: wrong key, unknown model, bad request; trying again will not help
│   │   ├── ModelNotFound     the engine has no model of this name; the message suggests one that it has
│   │   └── WindowExceeded    the prompt is too long for the model; a shorter one may do
│   └── ModelUnavailable  it could not be reached or broke off, also after retries
├── NodeFailed        a node of a pipeline raised; names the node, and `__cause__` is what it raised
├── StoreUnavailable  the database is away, locked or full; what is under way is parked and goes on later
│   └── StoreLost         its file or its log was deleted, replaced or cut off; somebody has to put it back
├── StrategyFailed    a strategy raised, or asked for what there is not; `__cause__` is what it raised
├── LogMismatch       a recorded run does not fit the strategy that should continue it
├── ForeignExit       code that was called raised what is no error (`SystemExit`, …), which is the `__cause__`
└── ToolError         raise it in a tool: the model reads the message and can try something else
    └── NotDone           raise it in a tool: it failed before it changed anything, so it may be called again
"""


class RetinueError(Exception):
    """The root: `except RetinueError` catches whatever Retinue raises on purpose."""


class UsageError(RetinueError):
    """Retinue was called in a way that cannot work."""


class DataError(RetinueError):
    """A file or a text is not what it must be; the message names the place."""


class ModelError(RetinueError):
    """The model's side failed in a way that ends the run. `code` says how, for programs: `context_length_exceeded`,
    `invalid_request`, `model_refused`, `rate_limit_exceeded` or `model_unavailable`."""

    code = "model_refused"


class ModelRefused(ModelError):
    """The engine said no (key, model, request); the same request would be refused again."""


class ModelNotFound(ModelRefused):
    """The engine has no model of this name; the message says which it has."""


class WindowExceeded(ModelRefused):
    """The engine says that prompt and reply do not fit into the model's window."""

    code = "context_length_exceeded"


class ModelUnavailable(ModelError):
    """The engine could not be reached, timed out or broke off, also after retries.

    `retry_after` is the engine's own wish in seconds, if it named one.
    """

    code = "model_unavailable"

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NodeFailed(RetinueError):
    """A node of a pipeline raised an error, which is the `__cause__`; `node` is its name."""

    def __init__(self, node: str, problem: str) -> None:
        super().__init__(f"node {node!r}: {problem}")
        self.node = node


class StoreUnavailable(RetinueError):
    """The database cannot be reached, is locked or is full: nobody's fault, and never a run's outcome."""


class StoreLost(StoreUnavailable):
    """What would be committed would not be found again: the file of the database, or its log, is not the one that was
    opened. Waiting does not help; the message says what does. `only_log`: its file is as it should be."""

    def __init__(self, message: str, *, only_log: bool = False) -> None:
        super().__init__(message)
        self.only_log = only_log


class StrategyFailed(RetinueError):
    """A strategy raised, or asked for what there is not."""

    code = "server_error"


class LogMismatch(RetinueError):
    """A recorded run does not fit the strategy that should continue it; names the event."""


class ForeignExit(RetinueError):
    """Code that Retinue called (a tool, a component, a strategy, a callback) raised what is no `Exception`, such as
    `SystemExit`, or cancelled itself. It is the `__cause__`, if it is at hand."""


class ToolError(RetinueError):
    """For tools to raise: the message goes to the model as the observation.

    By itself it does not say that nothing happened: after it, the outcome of a call with the effects `once` is not
    known. `kinds` are the names of what a tool's own process raised, with those of its classes.
    """

    def __init__(self, *message: object, kinds: tuple[str, ...] = ()) -> None:
        super().__init__(*message)
        self.kinds = kinds


class NotDone(ToolError):
    """For tools to raise: the call failed before it changed anything, so that it may be made again."""
