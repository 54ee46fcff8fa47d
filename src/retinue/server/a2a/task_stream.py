"""The event stream of a task: the task as it is, then its updates until it rests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ...errors import RetinueError
from ...runs import Followed
from ...runs.run_view import RunView
from ...runs.thread_messages import MessageDelta, Speech
from ...store.event_log import Entry
from ..http.api_errors import ApiError
from ..http.objects import Object
from ..http.sse import frame
from ..run_session import Projection
from .a2a_errors import A2AError, a2a_error
from .views import STATES, artifact, context_id, status_object, task_object


class TaskStream(Projection):
    """Folds a run's log into the events of its task.

    Args:
        view: The run, with its log as far as the client is told of it at the beginning.
        framed: Returns the frame of a result, or of an error.
        history_length: As in `task_object`.
    """

    def __init__(self, view: RunView, framed: Framed, history_length: int | None = None) -> None:
        super().__init__(view.run)
        self.head = framed(task_object(view, history_length), "task")
        self.since = view.log[-1].seq if view.log else 0
        self._framed = framed
        self._state = STATES[view.run.status]
        self._speech = Speech()
        for entry in view.log:
            for _ in self._speech.hear(entry):
                pass

    def frames(self, item: Followed) -> Iterator[str]:
        """Yield the frames of a log entry, or of a new row."""
        if isinstance(item, Entry):
            for said in self._speech.hear(entry=item):
                yield self._framed(self._artifact_update(said), "artifactUpdate")
            return
        if STATES[item.status] != self._state or item.rests:
            self._state = STATES[item.status]
            yield self._framed({**self._ids, "status": status_object(item)}, "statusUpdate")
        self.last = item if item.rests else None

    def error_frame(self, error: RetinueError | ApiError) -> str:
        """Return the frame of the error that cuts the stream off."""
        return self._framed(a2a_error(error), "error")

    @property
    def _ids(self) -> Object:
        return {"taskId": self.run.id, "contextId": context_id(self.run)}

    def _artifact_update(self, said: MessageDelta) -> Object:
        update = {**self._ids, "artifact": artifact(self.run, said.number, said.more)}
        return update | {"append": said.ended or said.more != said.text, "lastChunk": said.ended}


Framed = Callable[[Any, str], str]


def framed_alone(given: Any, name: str) -> str:
    """Return the frame of an event over HTTP+JSON."""
    return frame(given.body, "error") if isinstance(given, A2AError) else frame({name: given})


def framed_in_rpc(request_id: str | int | None) -> Framed:
    """Return what frames the events of a JSON-RPC request."""

    def framed(given: Any, name: str) -> str:
        told = {"error": given.rpc_error} if isinstance(given, A2AError) else {"result": {name: given}}
        return frame({"jsonrpc": "2.0", "id": request_id, **told})

    return framed
