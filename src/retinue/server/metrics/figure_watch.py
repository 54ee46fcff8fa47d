"""Reads the figures of the whole database for metrics: seldom, beside the event loop, and without waiting for long."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from sqlalchemy import Connection

from ...errors import StoreUnavailable
from ...store.database import Database

T = TypeVar("T")
logger = logging.getLogger(__name__)
FRESH = 3.0  # seconds for which figures count as those of now
STALE = 10.0  # seconds after which they count for nothing
PATIENCE = 0.5  # seconds that a scrape waits for them


class FigureWatch(Generic[T]):
    """The figures of a database, as `read` returns them. Whoever asks for them next reads them anew once they are three
    seconds old, one at a time; the others, and those who have waited long enough, get the last ones. `clock` returns
    seconds."""

    def __init__(
        self, database: Database, read: Callable[[Connection], T], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._database = database
        self._read_from = read
        self._clock = clock
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._figures: T | None = None
        self._reading: threading.Event | None = None  # set when the reading that is under way is over

    def figures(self, patience: float = PATIENCE) -> T | None:
        """Return the figures; `None` if the database does not answer. Waits at most `patience` seconds."""
        with self._lock:
            reading = None if self._age() < FRESH else self._begin()
        if reading is not None:
            reading.wait(patience)
        return self._figures if self._age() < STALE else None

    def is_up(self, patience: float = PATIENCE) -> bool:
        """Whether the database answers, takes what is written, and is the one that this process opened."""
        try:
            self._database.check()
            self._database.check_writes()
        except StoreUnavailable:
            return False
        return self.figures(patience) is not None

    def _age(self) -> float:
        return self._clock() - self._read_at

    def _begin(self) -> threading.Event:
        if self._reading is None:
            self._reading = threading.Event()
            threading.Thread(target=self._read, args=[self._reading], name="figures", daemon=True).start()
        return self._reading

    def _read(self, over: threading.Event) -> None:
        try:
            figures = self._database.read_here(self._read_from)
            with self._lock:
                self._figures, self._read_at = figures, self._clock()
        except StoreUnavailable as error:
            logger.info("the figures of the database cannot be read: %s", error)
            self._read_at = float("-inf")
        finally:
            with self._lock:
                self._reading = None
            over.set()
