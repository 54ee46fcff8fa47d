"""An A2A agent that is not ours: the SDK's own server, with an executor that does what the message says.

    python -m fakes.a2a_sample     (prints its address, and serves until it is ended)

`hello` is answered by a message, as the SDK's sample does; `stream` in pieces; `ask` after an answer of the user's;
`fail` and `reject` as they say; `hang` never; `auth` wants the user to sign in; `file` with a file; `count` with how
often `hang` was cancelled, `followed` with how often tasks were followed over HTTP+JSON; anything else is echoed
as an artifact.
"""

from __future__ import annotations

import asyncio
import socket
import sys

import uvicorn
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandlerV2
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import a2a_pb2 as wire
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

PIECES = ("Alpha, ", "beta, ", "gamma.")


def text(words: str) -> wire.Part:
    return wire.Part(text=words)


class Sample(AgentExecutor):
    """Does what it is told."""

    def __init__(self) -> None:
        self.cancelled = self.followed = 0

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        said = context.get_user_input()
        assert context.task_id is not None
        assert context.context_id is not None
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        if said == "hello":
            await event_queue.enqueue_event(updater.new_agent_message([text("Hello World")]))
            return
        if context.current_task is None:
            status = wire.TaskStatus(state="TASK_STATE_SUBMITTED")
            task = wire.Task(id=context.task_id, context_id=context.context_id, status=status)
            await event_queue.enqueue_event(task)
        elif said:
            await updater.add_artifact([text(f"You said {said}.")])
            await updater.complete()
            return
        await updater.start_work()
        await self._work(said, updater)

    async def _work(self, said: str, updater: TaskUpdater) -> None:  # noqa: C901 -- one case for each word
        match said.split()[0]:
            case "stream":
                for number, piece in enumerate(PIECES):
                    await updater.add_artifact([text(piece)], "a", append=number > 0, last_chunk=piece is PIECES[-1])
                    await asyncio.sleep(0.02)
            case "ask":
                return await updater.requires_input(updater.new_agent_message([text("Which city?")]))
            case "auth":
                return await updater.requires_auth(updater.new_agent_message([text("Sign in.")]))
            case "fail":
                return await updater.failed(updater.new_agent_message([text("It broke.")]))
            case "reject":
                return await updater.reject(updater.new_agent_message([text("Not my trade.")]))
            case "hang":
                await asyncio.Event().wait()
            case "count":
                await updater.add_artifact([text(str(self.cancelled))])
            case "followed":
                await updater.add_artifact([text(str(self.followed))])
            case "file":
                image = wire.Part(url="http://127.0.0.1:9/x.png", filename="x.png", media_type="image/png")
                raw = wire.Part(raw=b"123", filename="y.bin")
                await updater.add_artifact([text("See:"), image, raw, wire.Part(data={"number_value": 4})])
            case _:
                await updater.add_artifact([text(f"Echo: {said}")])
        await updater.complete()
        return None

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.cancelled += 1
        assert context.task_id is not None
        assert context.context_id is not None
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def card(url: str, bindings: list[str], *, streaming: bool) -> wire.AgentCard:
    """The card of the agent at `url`."""
    skill = wire.AgentSkill(id="echo", name="Echo", description="Echoes.", tags=["test"])
    return wire.AgentCard(
        name="Sample",
        description="A sample of the SDK's server.",
        version="1",
        supported_interfaces=[
            wire.AgentInterface(url=url, protocol_binding=one, protocol_version="1.0") for one in bindings
        ],
        capabilities=wire.AgentCapabilities(streaming=streaming),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[skill],
    )


def application(url: str) -> Starlette:
    """The agent, thrice: with a card for each binding, and one for who cannot follow."""
    executor = Sample()
    routes: list[BaseRoute] = []
    kinds = (
        ("rpc", "JSONRPC", True),
        ("poll", "JSONRPC", False),
        ("rest", "HTTP+JSON", True),
    )  # the last takes any path
    for name, binding, streaming in kinds:
        one = card(f"{url}/{name}", [binding], streaming=streaming)
        handler = DefaultRequestHandlerV2(executor, InMemoryTaskStore(), one)
        routes += create_agent_card_routes(one, card_url=f"/{name}/.well-known/agent-card.json")
        if binding == "JSONRPC":
            routes += create_jsonrpc_routes(handler, f"/{name}")
        else:
            routes += create_rest_routes(handler, path_prefix=f"/{name}")
    return Starlette(routes=routes, middleware=[Middleware(Counting, executor=executor)])


class Counting:
    """Counts how often a task was followed over HTTP+JSON."""

    def __init__(self, app: ASGIApp, executor: Sample) -> None:
        self._app = app
        self._executor = executor

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._executor.followed += scope.get("path", "").endswith(":subscribe")
        await self._app(scope, receive, send)


def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        sys.stdout.write(f"{url}\n")
        sys.stdout.flush()
        config = uvicorn.Config(application(url), log_level="error", lifespan="off")
        asyncio.run(uvicorn.Server(config).serve([listening]))


if __name__ == "__main__":
    main()
