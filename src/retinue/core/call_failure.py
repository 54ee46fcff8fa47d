"""The rule by which a failed call of another server counts as *not done*: an HTTP endpoint, an MCP server, an agent
elsewhere.

A call is not done if nothing of it was sent: an own check refused it, there is no such address, or no connection could
be made. Whatever a server *answers*, with an HTTP status or a JSON-RPC error, says nothing about what happened before
the answer. A handler raises after it has acted, a gateway passes on the 4xx of the second of two services, and a tool
that pays and then asks its client something gets the client's own refusal and returns that as its error. A connection
that breaks says nothing either. So each of these leaves the outcome of a `once` call unknown, and an equal call waits
for a person; a corrected input is another call, and goes on.

There is one exception, which its protocol states and `retinue.mcp.session` verifies: a server that answers 404 to each
request of an MCP session does not know the session, and has done nothing in it.

Who knows better of a tool says so: `effects="idempotent"` or `"read"`, or `not_done`.
"""

from __future__ import annotations

from ..errors import NotDone, ToolError


def call_failure(message: str, *, sent: bool) -> ToolError:
    """Return the error of a failed call of another server; `sent`: anything of it may have reached the server."""
    return ToolError(message) if sent else NotDone(message)
