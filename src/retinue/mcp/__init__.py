"""MCP (the Model Context Protocol): uses other programs' tools in an agent, and offers ours to other programs.

The SDK takes a second to import, so it is imported when a server is first used.
"""

from .mcp_tools import MCPTools as MCPTools
