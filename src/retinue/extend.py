"""For authors of models, tools, components, strategies, memories and document stores: the types that these work with.

`retinue.testing` has the suites with which they check what they wrote. What a user of agents types is in `retinue`
itself, and the components that come along are in `retinue.components`.
"""

from __future__ import annotations

from .core.component import Component as Component, component as component
from .core.events import (
    Asked as Asked,
    Called as Called,
    Finished as Finished,
    Judged as Judged,
    Observed as Observed,
    Paused as Paused,
    Replied as Replied,
    Reported as Reported,
    Resumed as Resumed,
    Retried as Retried,
    Said as Said,
    Started as Started,
    Stopped as Stopped,
)
from .core.files import read_file as read_file
from .core.log_context import ContextFilter as ContextFilter
from .core.prompt import Ask as Ask, Prompt as Prompt
from .core.protocols import (
    Act as Act,
    Chunks as Chunks,
    Flow as Flow,
    HumanRequest as HumanRequest,
    Memory as Memory,
    Model as Model,
    Recalled as Recalled,
    Retry as Retry,
    Strategy as Strategy,
    Task as Task,
    act as act,
    ask as ask,
    consult as consult,
)
from .core.schema.patterns import Constraint as Constraint
from .core.serialization import from_json as from_json, to_json as to_json
from .core.values import (
    AgentAction as AgentAction,
    AgentFinish as AgentFinish,
    Capabilities as Capabilities,
    File as File,
    Observation as Observation,
    ProviderState as ProviderState,
    Reply as Reply,
    Step as Step,
)
from .documents.document_store import Store as Store
from .errors import ForeignExit as ForeignExit, NodeFailed as NodeFailed
from .memory import EntityExtractor as EntityExtractor, EntitySummarizer as EntitySummarizer
from .strategies import UnreadableReply as UnreadableReply, simple as simple
