"""Teams: agents of other servers as members."""

from .a2a_agent import A2AAgent
from .remote_agent import RemoteAgent

__all__ = ["A2AAgent", "RemoteAgent"]
