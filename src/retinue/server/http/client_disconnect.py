"""Detects clients that disconnect while they are being answered."""

from __future__ import annotations

from fastapi import Request


async def wait_for_disconnect(request: Request) -> None:
    """Wait until the client has disconnected."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
