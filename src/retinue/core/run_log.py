"""Logs a run's events for operators."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeAlias

from .._internal.redaction import redact
from .events import Asked, Called, Event, Finished, Observed, Paused, Replied, Resumed, Retried, Started, Stopped
from .run_context import RunContext
from .run_result import ending
from .values import StopReason

logger = logging.getLogger("retinue.run_log")
_FAILED = ("failed", "timed_out")
_ON_PURPOSE = (StopReason.AWAITING_HUMAN, StopReason.CANCELLED)
_MOST = 500  # characters of foreign text
_Line: TypeAlias = tuple[int, str, tuple[Any, ...]]


def log_event(event: Event, context: RunContext) -> None:
    """Log `event` in the context of its run.

    Endings without an answer and failed tools are warnings. Retries, waits and normal endings are info; everything else
    is debug. Texts are represented by their length only.
    """
    context.progress.step = getattr(event, "step", context.progress.step)
    if type(event) not in _LINES:
        return
    most, line = _LINES[type(event)]
    if not logger.isEnabledFor(most):
        return
    level, message, values = line(event)
    if logger.isEnabledFor(level):
        extra = {"run": context.run, "step": context.progress.step, "request": context.request}
        logger.log(level, message, *values, extra=extra)


def _started(event: Started) -> _Line:
    values = (event.agent, event.strategy, event.model, len(event.tools), len(event.question))
    return logging.DEBUG, "%s begins: strategy %s, model %s, %d tools; a question of %d characters", values


def _asked(event: Asked) -> _Line:
    size = sum(len(message.content) for message in event.messages)
    if event.problem:
        return logging.INFO, "step %d: asked again, %s", (event.step, _short(event.problem))
    values = (event.step, len(event.messages), size, ", to close" if event.closing else "")
    return logging.DEBUG, "step %d: asked with %d more messages of %d characters%s", values


def _retried(event: Retried) -> _Line:
    values = (event.step, event.model or "the model", event.seconds, _short(event.problem))
    return logging.INFO, "step %d: %s is asked again in %.1f s: %s", values


def _replied(event: Replied) -> _Line:
    reply, usage = event.reply, event.reply.usage
    values = (event.step, len(reply.text), len(reply.calls), usage.input_tokens, usage.output_tokens)
    return logging.DEBUG, "step %d: a reply of %d characters and %d calls; %d tokens in, %d out", values


def _called(event: Called) -> _Line:
    return logging.DEBUG, "step %d: %s is called (%s)", (event.step, _short(event.action.tool), event.action.id)


def _observed(event: Observed) -> _Line:
    seen = event.observation
    if seen.outcome == "result":
        values = (event.step, seen.call_id, len(seen.text), seen.seconds)
        return logging.DEBUG, "step %d: %s gave %d characters in %.2f s", values
    level = logging.WARNING if seen.outcome in _FAILED else logging.INFO
    return level, "step %d: %s: %s", (event.step, seen.outcome.replace("_", " "), _short(seen.text))


def _paused(event: Paused) -> _Line:
    return logging.INFO, "step %d: a person is to decide: %s", (event.step, _short(event.problem))


def _resumed(event: Resumed) -> _Line:
    return logging.INFO, "step %d: a person has decided: %s", (event.step, event.decision.kind)


def _finished(event: Finished) -> _Line:
    return logging.INFO, "answered with %d characters", (len(event.answer),)


def _stopped(event: Stopped) -> _Line:
    if event.reason is StopReason.AWAITING_MEMBER:
        return logging.DEBUG, "goes on when its members have ended: %s", (_short(event.detail),)
    if ending([event]).answered or event.reason in _ON_PURPOSE:
        return logging.INFO, "ended: %s: %s", (event.reason, _short(event.detail))
    return logging.WARNING, "ended without an answer: %s: %s", (event.reason, _short(event.detail) or "no reason given")


def _short(text: str) -> str:
    """Return foreign text shortened to one line."""
    text = " ".join(redact(text).split())
    return text if len(text) <= _MOST else f"{text[:_MOST]} …"


_LINES: dict[type, tuple[int, Callable[[Any], _Line]]] = {  # by event type: the highest level that its line can have
    Started: (logging.DEBUG, _started),
    Asked: (logging.INFO, _asked),
    Retried: (logging.INFO, _retried),
    Replied: (logging.DEBUG, _replied),
    Called: (logging.DEBUG, _called),
    Observed: (logging.WARNING, _observed),
    Paused: (logging.INFO, _paused),
    Resumed: (logging.INFO, _resumed),
    Finished: (logging.INFO, _finished),
    Stopped: (logging.WARNING, _stopped),
}
