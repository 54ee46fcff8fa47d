"""Teams: agents of other servers as members."""

from .a2a_agent import A2AAgent

__all__ = ["A2AAgent"]
