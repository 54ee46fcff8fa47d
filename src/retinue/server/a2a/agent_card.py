"""Agent cards: what an agent is, where it is, and what a client needs to talk to it."""

from __future__ import annotations

from urllib.parse import quote

from ... import __version__
from ...agent import Agent
from ..http.objects import Object

PROTOCOL = "1.0"
INPUT_MODES = ("text/plain", "application/json")
OUTPUT_MODES = ("text/plain",)
WELL_KNOWN = "/.well-known/agent-card.json"


def agent_url(base: str, name: str) -> str:
    """Return the address of an agent's A2A interface, on the server at `base`."""
    return f"{base.rstrip('/')}/a2a/{quote(name, safe='')}"


def agent_card(base: str, name: str, agent: Agent, *, extended: bool = False) -> Object:
    """Return an agent's card. Anybody may read it, so only the `extended` one, for clients with a key, has the agent's
    tools among its skills."""
    url = agent_url(base, name)
    said = f"The agent {name}, served by Retinue."
    skills = [_skill(name, said, "agent")]
    if extended:
        skills += [_skill(tool.name, tool.description or tool.name, "tool") for tool in agent.tools]
    return {
        "name": name,
        "description": said,
        "version": __version__,
        "supportedInterfaces": [
            {"url": url, "protocolBinding": binding, "protocolVersion": PROTOCOL}
            for binding in ("JSONRPC", "HTTP+JSON")
        ],
        "capabilities": {"streaming": True, "pushNotifications": False, "extendedAgentCard": True},
        "securitySchemes": {
            "bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer", "description": "An API key of this server."}}
        },
        "securityRequirements": [{"schemes": {"bearer": {"list": []}}}],
        "defaultInputModes": list(INPUT_MODES),
        "defaultOutputModes": list(OUTPUT_MODES),
        "skills": skills,
    }


def _skill(name: str, description: str, tag: str) -> Object:
    return {"id": name, "name": name, "description": description, "tags": [tag]}
