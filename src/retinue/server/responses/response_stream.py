"""Streams a response, with numbered events so that a client can resume a broken stream."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ...runs import Followed
from ..agents.overrides import tools_of
from ..context import Server
from ..http.api_errors import ApiError
from ..http.sse import frame
from .response_parts import Part
from .response_projection import ResponseProjection
from .views import error_event


class ResponseEvents(ResponseProjection):
    """The event stream of a response until it ends; `last` is then the response.

    Args:
        server: The server.
        part: The response.
        after: The number of the last event that the client received; -1 for none.
        include: Adds to the `include` of the request.
    """

    def __init__(self, server: Server, part: Part, after: int = -1, include: Collection[str] = ()) -> None:
        super().__init__(part, tools_of(server.deployment, part.run), include)
        self._after = after

    def frames(self, item: Followed) -> Iterator[str]:
        """Yield the frames of a log entry, or of a new row."""
        for event in self.events(item):
            if event["sequence_number"] > self._after:
                yield frame(event, event["type"])

    def error_frame(self, error: Exception) -> str:
        """Return the event that reports `error`."""
        told = error if isinstance(error, ApiError) else ApiError(500, str(error), kind="server_error")
        fields = error_event(told.body["error"])
        return frame({"type": "error", "sequence_number": self.told, **fields}, "error")
