"""MCP (the Model Context Protocol): other programs' tools in an agent, and ours in other programs."""
