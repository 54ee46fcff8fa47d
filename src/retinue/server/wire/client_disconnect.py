"""Clients that may go away while they are being answered."""

from __future__ import annotations

from fastapi import Request


async def wait_for_disconnect(request: Request) -> None:
    """Wait until the client has gone away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
