"""Several agents at one task: graphs of roles that share a state, chains of steps, and agents of other servers."""

from .a2a_agent import A2AAgent as A2AAgent
from .message_group import Chain as Chain, MessageGroup as MessageGroup
from .remote_agent import RemoteAgent as RemoteAgent
from .role import END as END, START as START, HumanGate as HumanGate, Role as Role
from .selectors import ModelChoice as ModelChoice, When as When
from .shared_state import StateField as StateField
