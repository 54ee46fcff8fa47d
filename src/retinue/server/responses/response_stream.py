"""Streams a response, with numbered events so that a client can resume a broken stream."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ...runs import Followed
from ...store.run_row import RunRow
from ..agents.overrides import tools_of
from ..context import Server
from ..http.api_errors import ApiError
from ..http.objects import Object
from ..http.sse import frame
from .response_parts import Part
from .response_projection import ResponseProjection
from .views import error_event


class ResponseEvents:
    """The event stream of a response until it ends; `last` is then the response.

    Args:
        server: The server.
        part: The response.
        after: The number of the last event that the client received; -1 for none.
        include: Adds to the `include` of the request.
    """

    def __init__(self, server: Server, part: Part, after: int = -1, include: Collection[str] = ()) -> None:
        self.head = self.tail = ""
        self._response = ResponseProjection(part, tools_of(server.deployment, part.run), include)
        self._after = after

    @property
    def last(self) -> Object | None:
        """The final response, once it has ended."""
        return self._response.last

    def tell(self, item: Followed) -> Iterator[str]:
        """Yield the frames of a log entry, or of a new row."""
        for event in self._response.tell(item):
            if event["sequence_number"] > self._after:
                yield frame(event, event["type"])

    def lacks(self, item: Followed) -> bool:
        """Return `False`: the log has all that a response needs."""
        return False

    def know(self, run: RunRow) -> None:
        """Ignore the run's row."""

    def cut(self, error: Exception) -> str:
        """Return the event that reports `error`."""
        told = error if isinstance(error, ApiError) else ApiError(500, str(error), kind="server_error")
        fields = error_event(told.body["error"])
        return frame({"type": "error", "sequence_number": self._response.told, **fields}, "error")
