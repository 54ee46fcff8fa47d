"""Several agents at one task: graphs of roles that share a state, chains of steps, and agents of other servers."""

from .a2a_agent import A2AAgent
from .message_group import Chain, MessageGroup
from .remote_agent import RemoteAgent
from .role import END, START, HumanGate, Role
from .selectors import ModelChoice, When
from .shared_state import StateField

__all__ = [
    "END",
    "START",
    "A2AAgent",
    "Chain",
    "HumanGate",
    "MessageGroup",
    "ModelChoice",
    "RemoteAgent",
    "Role",
    "StateField",
    "When",
]
