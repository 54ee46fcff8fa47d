"""Retinue: agents that decide, act and observe, on any language model.

Here is what a user of agents types. The components that come along are in `retinue.components`, and `retinue.extend`
has what an author of a model, tool, strategy, memory or store needs. Apart from the logging context, names are imported
on first use, so `import retinue` costs almost nothing.
"""

from typing import TYPE_CHECKING

from ._internal.lazy_names import lazy_names
from .core import log_context as log_context  # installs the quiet logger tree, whose records carry run and request ids

if TYPE_CHECKING:
    from .agent import Agent as Agent, Run as Run
    from .core.budgets import Budget as Budget
    from .core.events import Delta as Delta, Event as Event
    from .core.hooks import AskPerson as AskPerson, Block as Block, Change as Change, Hook as Hook, hook as hook
    from .core.loop.compaction import Context as Context
    from .core.run_context import (
        RunContext as RunContext,
        current_run as current_run,
        idempotency_key as idempotency_key,
    )
    from .core.run_result import RunResult as RunResult
    from .core.tools.result import ToolReturn as ToolReturn
    from .core.tools.tool import ExampleCall as ExampleCall, Tool as Tool, ToolExample as ToolExample, tool as tool
    from .core.values import (
        Decision as Decision,
        Document as Document,
        Message as Message,
        StopReason as StopReason,
        Usage as Usage,
    )
    from .documents import DocumentStore as DocumentStore
    from .errors import (
        DataError as DataError,
        LogMismatch as LogMismatch,
        ModelError as ModelError,
        ModelNotFound as ModelNotFound,
        ModelRefused as ModelRefused,
        ModelUnavailable as ModelUnavailable,
        NoAnswer as NoAnswer,
        NotDone as NotDone,
        RetinueError as RetinueError,
        ToolError as ToolError,
        UsageError as UsageError,
        WindowExceeded as WindowExceeded,
    )
    from .executor import Executor as Executor, Planner as Planner
    from .harness import Harness as Harness
    from .memory import ConversationMemory as ConversationMemory, EntityMemory as EntityMemory
    from .models import PromptModel as PromptModel
    from .pipelines import Pipeline as Pipeline
    from .run.fork import fork as fork
    from .run.handoff import handoff as handoff
    from .run.replay import Replay as Replay, replay as replay, replay_async as replay_async
    from .run.run_parts import dynamic_tools as dynamic_tools
    from .server.application import asgi as asgi, serve as serve
    from .server.login import Login as Login
    from .teams import (
        A2AAgent as A2AAgent,
        Chain as Chain,
        MessageGroup as MessageGroup,
        RemoteAgent as RemoteAgent,
        Role as Role,
    )

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
