"""For whom a request is, as an application's own login says; in a file of its own, since it needs no extra."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from fastapi import Request


class Login(NamedTuple):
    """For whom a request is, as an application's own login says. A user sees only their own runs, files and threads.

    Attributes:
        user: The application's id of the user, one line of up to 256 characters.
        tenant: Whose data it is, where an application has several customers.
        scopes: What the user may do, as a key's (`docs/keys.md`); `None` is everything except the operator's prompts
            and the audit log.
    """

    user: str
    tenant: str = "default"
    scopes: tuple[str, ...] | None = ("read", "runs")


UserOf = Callable[["Request"], Login | Awaitable[Login | None] | None]
"""Says for whom a request is, or `None` if nobody is logged in. It is asked of each request, and again every two
seconds while a stream is open. It may raise `HTTPException`."""
