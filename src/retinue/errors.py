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
├── LogMismatch       a recorded run does not fit the strategy that should continue it
└── ToolError         raise it in a tool: the model reads the message and can try something else
"""


class RetinueError(Exception):
    """The root: `except RetinueError` catches whatever Retinue raises on purpose."""


class UsageError(RetinueError):
    """Retinue was called in a way that cannot work."""


class DataError(RetinueError):
    """A file or a text is not what it must be; the message names the place."""


class ModelError(RetinueError):
    """The model's side failed in a way that ends the run."""


class ModelRefused(ModelError):
    """The engine said no (key, model, request); the same request would be refused again."""


class ModelNotFound(ModelRefused):
    """The engine has no model of this name; the message says which it has."""


class WindowExceeded(ModelRefused):
    """The engine says that prompt and reply do not fit into the model's window."""


class ModelUnavailable(ModelError):
    """The engine could not be reached, timed out or broke off, also after retries.

    `retry_after` is the engine's own wish in seconds, if it named one.
    """

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


class LogMismatch(RetinueError):
    """A recorded run does not fit the strategy that should continue it; names the event."""


class ToolError(RetinueError):
    """For tools to raise: the message goes to the model as the observation."""
