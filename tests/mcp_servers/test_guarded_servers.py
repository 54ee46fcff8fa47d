"""MCP servers whose addresses somebody else chose: each request goes where the guard allows, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from mcp.server.transport_security import TransportSecuritySettings

from fakes import mcp_server
from retinue import ToolError
from retinue.mcp import MCPTools
from retinue.net.ssrf_guard import SsrfGuard

NAME = "tools.example"


def app() -> Any:
    """A server that answers to any name."""
    anybody = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    return mcp_server.made().streamable_http_app(transport_security=anybody)


class Resolver:
    """Resolves the name to these addresses, one after the other."""

    def __init__(self, *ips: str) -> None:
        self.ips = list(ips)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        assert host == NAME
        return [self.ips.pop(0) if len(self.ips) > 1 else self.ips[0]]


def test_a_name_leads_to_the_address_that_was_checked() -> None:
    with mcp_server.served(app=app()) as port:
        guard = SsrfGuard((f"{NAME}:{port}",), resolve=Resolver("127.0.0.1"))
        server = MCPTools("fake", url=f"http://{NAME}:{port}/mcp", guard=guard, seconds=10)
        try:
            offers = server.offered().offers
            (add,) = server.approved([offers["add"]])
            assert "5" in add.run({"a": 2, "b": 3})
        finally:
            server.stop()


@pytest.mark.parametrize(
    "ip",
    [
        *(pytest.param(one, marks=pytest.mark.full) for one in ("127.0.0.1", "10.0.0.1", "::1")),
        "169.254.169.254",
        "::ffff:10.0.0.1",
    ],
)
def test_a_name_that_leads_inside_is_not_followed(ip: str) -> None:
    guard = SsrfGuard(resolve=Resolver(ip))
    server = MCPTools("fake", url=f"http://{NAME}/mcp", guard=guard, seconds=10)
    try:
        with pytest.raises(ToolError, match="not on the public internet"):
            server.offered()
    finally:
        server.stop()


@pytest.mark.full
def test_a_name_that_leads_inside_later_is_not_followed_either() -> None:
    with mcp_server.served(app=app()) as port:
        first = SsrfGuard((f"{NAME}:{port}",), resolve=Resolver("127.0.0.1"))
        registering = MCPTools("fake", url=f"http://{NAME}:{port}/mcp", guard=first, seconds=10)
        offers = registering.offered().offers
        registering.stop()
        later = SsrfGuard(ports=(port,), resolve=Resolver("127.0.0.1"))
        server = MCPTools("fake", url=f"http://{NAME}:{port}/mcp", guard=later, seconds=10)
        (add,) = server.approved([offers["add"]])
        with pytest.raises(ToolError, match="not on the public internet"):
            add.run({"a": 2, "b": 3})
