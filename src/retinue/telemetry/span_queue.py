"""Spans on their way out: they wait in a queue, and a thread sends them in batches, so that no run waits for it."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

from .._internal.processes import call_in_forked_child
from ..net.retry import Attempts, Retries
from .environment import Pace
from .otlp_exporter import Exporter, NotSent
from .span_record import SpanRecord

logger = logging.getLogger(__name__)
_QUIET = 60.0  # seconds between two lines on problems
_RETRIES = Retries(tries=12, longest_wait=30.0)  # of a batch, some five minutes


class SpanQueue:
    """Passes spans to an exporter. When too many wait, the oldest are dropped. Before it sends, it has those put that
    could be (`gather`)."""

    def __init__(self, exporter: Exporter, pace: Pace) -> None:
        self._exporter = exporter
        self._pace = pace
        self.gather: Callable[[], None] = lambda: None
        self._waiting: deque[SpanRecord] = deque(maxlen=pace.most)
        self._dropped = 0
        self._closed = False
        self._rounds = self._asked = 0
        self._held: list[SpanRecord] = []  # a batch that is tried again
        self._attempts = Attempts(_RETRIES)  # at it
        self._not_before = 0.0
        self._metrics_at = time.monotonic() + pace.metrics
        self._said_at = -_QUIET
        self._start()
        call_in_forked_child(self._restart)

    def _start(self) -> None:
        self._wake, self._flushed = threading.Event(), threading.Condition()
        self._thread = threading.Thread(target=self._run, name="retinue-telemetry", daemon=True)
        self._thread.start()

    def _restart(self) -> None:
        """Begin anew in a forked child: the parent sends what waits there."""
        self._waiting.clear()
        self._held = []
        if not self._closed:
            self._start()

    def put(self, record: SpanRecord) -> None:
        """Add a span. Never waits, never raises."""
        waiting = self._waiting
        if len(waiting) == self._pace.most:
            self._dropped += 1
        waiting.append(record)
        if len(waiting) == self._pace.most // 2:
            self._wake.set()

    def flush(self, seconds: float) -> bool:
        """Send what waits, and the metrics, at once. Return whether everything was sent in this time."""
        with self._flushed:
            self._asked = self._rounds + 2  # the round under way may have begun before
            self._wake.set()
            done = self._flushed.wait_for(lambda: self._rounds >= self._asked or not self._thread.is_alive(), seconds)
        return done and not self._held and not self._waiting

    def close(self, seconds: float) -> bool:
        """Flush and end the thread. Return as `flush` does."""
        sent = self.flush(seconds)
        self._closed = True
        self._wake.set()
        self._thread.join(0.2 if sent else 0.0)
        return sent

    # ── in the thread ────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        while not self._closed:
            if self._rounds >= self._asked:
                self._wake.wait(self._pace.delay)
            self._wake.clear()
            try:
                self._send_all(hurried=self._rounds < self._asked)
            except Exception as error:  # a bug of ours, or of the app's processor, ends no telemetry
                self._held = []
                self._log_problem(f"{type(error).__name__}: {error}")
            with self._flushed:
                self._rounds += 1
                self._flushed.notify_all()
        self._exporter.close()

    def _send_all(self, *, hurried: bool) -> None:
        self.gather()
        now = time.monotonic()
        if hurried or now >= self._not_before:
            while self._held or self._waiting:
                if not self._send_batch():
                    break
        if hurried or now >= self._metrics_at:
            self._metrics_at = now + self._pace.metrics
            try:
                self._exporter.send_metrics()
            except NotSent as error:
                self._log_problem(str(error))

    def _send_batch(self) -> bool:
        """Send a batch. Return whether the next may follow."""
        if not self._held:
            self._held = [self._waiting.popleft() for _ in range(min(self._pace.batch, len(self._waiting)))]
            for record in self._held:
                if not record.again:
                    self._exporter.measure(record)
        try:
            self._exporter.send(self._held)
        except NotSent as error:
            wait = self._attempts.count_failure() if error.again else None
            self._not_before = time.monotonic() + max(error.seconds, wait or _RETRIES.first_wait)
            self._dropped += len(self._held) if wait is None else 0
            self._log_problem(str(error))
            if wait is not None:
                return False
        self._held, self._attempts = [], Attempts(_RETRIES)
        return True

    def _log_problem(self, problem: str) -> None:
        now = time.monotonic()
        if now - self._said_at < _QUIET:
            return
        self._said_at = now
        lost = f" ({self._dropped:,} spans were dropped)" if self._dropped else ""
        logger.warning("telemetry was not sent: %s%s", problem, lost)
