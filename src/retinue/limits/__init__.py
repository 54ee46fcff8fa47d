"""How much keys and tenants may use, and in which order. This folder answers "how is X limited?":

| what | of whom | where |
|---|---|---|
| requests and tokens in a minute, open streams, runs under way and waiting | a key | `rate.KeyLimits` |
| wrong keys | an address | `rate.KeyThrottle` |
| runs driven at a time by all processes | a tenant, agent, model, key | `places.RunLimits` |
| runs driven at a time by a process, and which comes next | a tenant | `places.Room` |
| runs, tokens and money in a day or month; bytes kept | a tenant | `quotas`: `retinue quotas set` |
| files, vector stores and the bytes of each kind of thing kept | a tenant | `quotas`: `retinue serve --tenant-…` |
| work that is under way at a time, and whose turn is next | a tenant | `shares.Shares` |

What is counted is in memory in `rate` and `shares`, so each process counts for itself. Sums for quotas are in the
database (`store/usage_sums.py`), written by the transactions that use something.
"""

from __future__ import annotations

from typing import Literal


class LimitReached(Exception):
    """A request would exceed a limit: of `requests` or `tokens` in a minute, of a tenant's `quota`, or of the `storage`
    that this server grants each tenant. `seconds`: how long to wait; `None` if waiting does not help."""

    def __init__(
        self, kind: Literal["requests", "tokens", "quota", "storage"], message: str, seconds: float | None = None
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.seconds = seconds
