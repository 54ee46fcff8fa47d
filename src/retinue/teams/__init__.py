"""Several agents at one task: graphs of roles that share a state, and chains of steps."""

from .chain import Chain
from .message_group import MessageGroup
from .role import END, START, HumanGate, Role
from .selectors import ModelChoice, When
from .shared_state import StateField

__all__ = ["END", "START", "Chain", "HumanGate", "MessageGroup", "ModelChoice", "Role", "StateField", "When"]
