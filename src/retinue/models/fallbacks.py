"""Several models in order: if one fails, the next is asked, and the run stays with it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import get_args

from .._internal.message_text import suggest_name
from ..core.prices import Price, find_price
from ..core.prompt import Ask
from ..core.protocols import Chunks, Model, Retry, list_readable_kinds
from ..core.values import Capabilities, Kind, Reply
from ..errors import ModelError, ModelRefused, ModelUnavailable, UsageError, WindowExceeded
from .settings import Reason

FALL_BACK_ON: tuple[Reason, ...] = ("unavailable", "rate")
_REST = 60.0  # seconds in which runs begin with another model than one that gave way
_OF_THE_ACCOUNT = (401, 402, 403, 404, 429)  # statuses of refusals that the next request would get as well


def find_reason(error: ModelError) -> Reason:
    """Classify an error; a used-up quota counts as `rate`."""
    if isinstance(error, WindowExceeded):
        return "too_long"
    if error.code == "rate_limit_exceeded" or error.status in (402, 429):
        return "rate"
    return "refused" if isinstance(error, ModelRefused) else "unavailable"


class Fallbacks:
    """The engine of a `PromptModel` with several models. Raises `UsageError` for an unknown reason.

    A request goes to the first model, and if that fails for one of the `reasons`, to the next. The loop asks for the
    further replies of a run by the name of the model that it fell to (`Ask.model`), also when the run is continued.
    After a model gave way, runs begin with the next one for a minute, or for as long as the vendor asks to wait.
    """

    def __init__(self, models: Iterable[Model], reasons: Sequence[str] = FALL_BACK_ON) -> None:
        known = get_args(Reason)
        if unknown := [one for one in reasons if one not in known]:
            raise UsageError(f"fall_back_on: there is no reason {unknown[0]!r}; {suggest_name(str(unknown[0]), known)}")
        self._models = tuple(models)
        self._reasons = frozenset(reasons)
        names = [f"{engine}:{one.name}" if (engine := getattr(one, "engine", "")) else one.name for one in self._models]
        self._names = [name if name not in names[:at] else f"{name} ({at + 1})" for at, name in enumerate(names)]
        self._resting: dict[int, tuple[float, str]] = {}  # until when each rests, and why

    @property
    def name(self) -> str:
        return ", ".join(self._names)

    @property
    def price(self) -> Price | None:
        """The first model's prices, if those of all are known. Each reply has its own model's cost."""
        prices = [find_price(one) for one in self._models]
        return None if None in prices else prices[0]

    async def abilities(self, *, native: bool = False) -> Capabilities:
        """Return what all models support that can be asked now. Raises `ModelError` if none can be."""
        able = self._list_rested()
        found = await asyncio.gather(
            *[self._models[at].abilities(native=native) for at in able], return_exceptions=True
        )
        for at, one in zip(able, found, strict=True):
            if isinstance(one, ModelError) and find_reason(one) in self._reasons:
                self._let_rest(at, one)
            elif isinstance(one, BaseException):
                raise one
        known = [one for one in found if isinstance(one, Capabilities)]
        if not known and isinstance(last := found[-1], BaseException):
            raise last
        windows = [one.window for one in known if one.window is not None]
        return Capabilities(
            all(one.constrains for one in known),
            all(one.calls_tools for one in known),
            min(windows, default=None),
            next((one.problem for one in known if one.problem), ""),
            all(one.scripted for one in known),
        )

    async def sees(self) -> frozenset[Kind]:
        """Return the kinds of files that all models can be sent that can be asked now. Raises `ModelError`."""
        first, *others = [await list_readable_kinds(self._models[at]) for at in self._list_rested()]
        return first.intersection(*others)

    async def reply(self, request: Ask) -> Chunks:
        """Stream the reply; each `Retry` that names a model says which one is asked next. Raises `ModelError`."""
        last = len(self._models) - 1
        at = self._names.index(request.model) if request.model in self._names else 0
        if not request.model and (why := self._find_rest(at)):
            at = self._list_rested()[0]
            if at:
                yield Retry(why, 0.0, model=self._names[at])
        while True:
            try:
                async with aclosing(self._models[at].reply(replace(request, model=""))) as chunks:
                    async for chunk in chunks:
                        yield replace(chunk, model=self._names[at]) if isinstance(chunk, Reply) else chunk
                self._resting.pop(at, None)
                return
            except ModelError as error:
                if at == last or find_reason(error) not in self._reasons:
                    raise
                why = self._let_rest(at, error)
            at += 1
            yield Retry(why, 0.0, model=self._names[at])

    def _let_rest(self, at: int, error: ModelError) -> str:
        """Have new runs skip a model for a while, if its failure may last; return the reason."""
        why = f"{self._names[at]} gives way ({find_reason(error)}): {error}"
        wait = error.retry_after if isinstance(error, ModelUnavailable) else None
        if isinstance(error, ModelUnavailable) or error.status in _OF_THE_ACCOUNT:
            self._resting[at] = time.monotonic() + (wait or _REST), why
        return why

    def _list_rested(self) -> Sequence[int]:
        """Return the models that do not rest, or all if each does."""
        return [at for at in range(len(self._models)) if not self._find_rest(at)] or range(len(self._models))

    def _find_rest(self, at: int) -> str:
        """Return why a model rests, or an empty text if it does not."""
        until, why = self._resting.get(at, (0.0, ""))
        return why if time.monotonic() < until else ""

    async def close(self) -> None:
        for one in self._models:
            if (close := getattr(one, "close", None)) is not None:
                await close()
