"""MCP (the Model Context Protocol): other programs' tools in an agent, and ours in other programs.

The SDK behind it takes a second to import, so that happens when a server is first used.
"""

from .mcp_tools import MCPTools as MCPTools

__all__ = ["MCPTools"]
