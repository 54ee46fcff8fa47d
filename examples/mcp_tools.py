"""An agent with the tools of an MCP server: `python examples/mcp_tools.py` (extra `mcp`; no key, no network).

The server is this file, too, made with the official SDK. Any other is used the same way: `command="uvx"`,
`args=["NAME-OF-A-SERVER"]`, `env={"ITS_KEY": …}`, or `url="https://…/mcp"`, `headers={"Authorization": …}`. Instead of
a script, give the agent a model: `Agent("local", …)`.
"""

import sys

PLACES = {"Rome": "sunny, 24 °C", "Bergen": "rain, 11 °C"}
SCRIPT = [
    {"when": "^rain", "finish": "Take an umbrella to Bergen."},
    {"when": "Bergen", "call": {"tool": "weather_now", "input": "Bergen"}},
]


def serve() -> None:
    """The server: one tool, on standard input and output."""
    from mcp.server import MCPServer
    from mcp_types import ToolAnnotations

    server = MCPServer("weather")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def now(place: str) -> str:
        """What the weather is now."""
        return PLACES.get(place, "unknown")

    server.run("stdio")


def ask() -> None:
    """The agent."""
    from retinue import Agent, PromptModel
    from retinue.mcp import MCPTools

    weather = MCPTools("weather", command=sys.executable, args=[__file__, "serve"])
    agent = Agent(PromptModel(script=SCRIPT), weather.tools())
    sys.stdout.write(f"{agent.run('Do I need an umbrella in Bergen?')}\n")
    weather.stop()


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["serve"] else ask()
