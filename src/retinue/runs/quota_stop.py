"""Stops a run before its next request to a model, once its tenant's quota of tokens or money is used up."""

from __future__ import annotations

from dataclasses import replace

from ..core.events import Finished, Stopped
from ..core.values import StopReason
from ..store.quota_usage import QuotaWatch, SpentQuota, spent_quota


class QuotaStop:
    """Looks after the quota of `tenant` for one drive of a run. What the run was doing is not interrupted: it is looked
    at where a request to a model is about to be made."""

    def __init__(self, watch: QuotaWatch, tenant: str) -> None:
        self._watch = watch
        self._tenant = tenant
        self._spent: SpentQuota | None = None
        self.is_limited = False
        """Whether the tenant has a quota, so that what its runs use is counted at once."""

    async def lets_ask(self) -> bool:
        """Whether the model may be asked. Raises `StoreUnavailable`."""
        standings = await self._watch.of(self._tenant)
        self.is_limited = bool(standings)
        self._spent = spent_quota(standings)
        return self._spent is None

    def end_of(self, event: Finished | Stopped) -> Finished | Stopped:
        """Return how the run ends: if it was stopped here, not as cancelled, but as by a budget that is used up."""
        if self._spent is None or not isinstance(event, Stopped) or event.reason is not StopReason.CANCELLED:
            return event
        return replace(event, reason=self._spent.reason, detail=self._spent.detail)
