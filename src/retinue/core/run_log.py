"""Logs a run's events for operators."""

from __future__ import annotations

import logging
from typing import Any, TypeAlias

from .._internal.redaction import redact
from .events import (
    Asked,
    Called,
    Compacted,
    Event,
    Finished,
    Judged,
    Observed,
    Paused,
    Replied,
    Reported,
    Resumed,
    Retried,
    Said,
    Started,
    Stopped,
)
from .run_context import RunContext
from .run_result import find_ending
from .values import StopReason

logger = logging.getLogger("retinue.run_log")
_FAILED = ("failed", "timed_out")
_ON_PURPOSE = (StopReason.AWAITING_HUMAN, StopReason.CANCELLED)
_MOST = 500  # characters of foreign text
_Line: TypeAlias = tuple[int, str, tuple[Any, ...]]


def log_event(event: Event, context: RunContext) -> None:
    """Log `event` in the context of its run. Endings without an answer and failed tools are warnings. Retries, waits
    and normal endings are info; everything else is debug. Texts are represented by their length only."""
    context.progress.step = getattr(event, "step", context.progress.step)
    level, message, values = _describe(event)
    if message and logger.isEnabledFor(level):
        extra = {"run": context.run, "step": context.progress.step, "request": context.request}
        logger.log(level, message, *map(_shorten, values), extra=extra)


def _describe(event: Event) -> _Line:
    """Return the level of a line about `event`, the line, and its values; an empty line for no line."""
    match event:
        case Started(question=question, tools=tools):
            line = "%s begins: strategy %s, model %s, %d tools; a question of %d characters"
            return logging.DEBUG, line, (event.agent, event.strategy, event.model, len(tools), len(question))
        case Asked(step=step, problem=problem) if problem:
            return logging.INFO, "step %d: asked again, %s", (step, problem)
        case Asked(step=step, messages=messages):
            line = "step %d: asked with %d more messages of %d characters%s"
            size = sum(len(message.content) for message in messages)
            return logging.DEBUG, line, (step, len(messages), size, ", to close" * event.closing)
        case Compacted(step=step):
            return logging.INFO, "step %d: %s", (step, event.describe())
        case Retried(step=step, problem=problem):
            line = "step %d: %s is asked again in %.1f s: %s"
            return logging.INFO, line, (step, event.model or "the model", event.seconds, problem)
        case Replied(step=step, reply=reply):
            line = "step %d: a reply of %d characters and %d calls; %d tokens in, %d out"
            used = reply.usage
            return logging.DEBUG, line, (step, len(reply.text), len(reply.calls), used.input_tokens, used.output_tokens)
        case Finished() | Stopped():
            return _describe_end(event)
    return _describe_call(event)


def _describe_call(event: Called | Observed | Paused | Resumed | Judged | Reported | Said) -> _Line:
    match event:
        case Called(step=step, action=action):
            return logging.DEBUG, "step %d: %s is called (%s)", (step, action.tool, action.id)
        case Observed(step=step, observation=seen) if seen.outcome == "result":
            line = "step %d: %s gave %d characters in %.2f s"
            return logging.DEBUG, line, (step, seen.call_id, len(seen.text), seen.seconds)
        case Observed(step=step, observation=seen):
            level = logging.WARNING if seen.outcome in _FAILED else logging.INFO
            return level, "step %d: %s: %s", (step, seen.outcome.replace("_", " "), seen.text)
        case Paused(step=step, problem=problem):
            return logging.INFO, "step %d: a person is to decide: %s", (step, problem)
        case Resumed(step=step, decision=decision):
            return logging.INFO, "step %d: a person has decided: %s", (step, decision.kind)
        case Judged(step=step):
            line = "step %d: the hook %s (%s): %s: %s"
            return logging.INFO, line, (step, event.hook, event.point, event.verdict, event.reason)
        case Reported(step=step, text=text):
            return logging.DEBUG, "step %d: reported: %s", (step, text)
    return logging.DEBUG, "", ()


def _describe_end(event: Finished | Stopped) -> _Line:
    if isinstance(event, Finished):
        return logging.INFO, "answered with %d characters", (len(event.answer),)
    if event.reason is StopReason.AWAITING_MEMBER:
        return logging.DEBUG, "goes on when its members have ended: %s", (event.detail,)
    if find_ending([event]).answered or event.reason in _ON_PURPOSE:
        return logging.INFO, "ended: %s: %s", (event.reason, event.detail)
    return logging.WARNING, "ended without an answer: %s: %s", (event.reason, event.detail or "no reason given")


def _shorten(value: object) -> object:
    """Return a value, a foreign text shortened to one line and without secrets."""
    if not isinstance(value, str) or not value:
        return value
    text = " ".join(redact(value).split())
    return text if len(text) <= _MOST else f"{text[:_MOST]} …"
