"""A run's trace in the terminal, as it happens: a reader of events like any other."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import sys
import time
from typing import assert_never

import click

from ..events import (
    Asked,
    Called,
    Delta,
    Event,
    Finished,
    Observed,
    Paused,
    Replied,
    Resumed,
    Retried,
    RunResult,
    Said,
    Started,
    Stopped,
)
from ..schema import Reply, ToolInput

_CONTROL = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
    r"|[\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # these turn the direction of writing round
)
_SHOWN = 600  # characters of an observation


class Trace:
    """Writes events to standard output; thoughts and actions appear word by word."""

    def __init__(self) -> None:
        self._line_open = False

    def show(self, event: Event | Delta) -> None:  # noqa: C901 -- a case for each kind of event
        """Show one event."""
        match event:
            case Started():
                self._started(event)
            case Asked():
                self._line(f"\n{_mark(event)}", dim=True)
            case Delta(text):
                self._text(text)
            case Retried():
                self._line(f"{event.problem}; asking again in {event.seconds:.1f} s", fg="yellow")
            case Replied(reply=reply):
                self._replied(reply)
            case Called() | Said():
                pass  # shown when it was decided, or as it came
            case Observed(observation=seen):
                colour = "green" if seen.outcome == "result" else "yellow"
                text = seen.text if len(seen.text) <= _SHOWN else f"{seen.text[:_SHOWN]} …"
                self._line(f"Observation: {text}", fg=colour)
                self._line(f"{seen.outcome} · {seen.seconds:.2f} s {seen.note}".rstrip(), dim=True)
            case Paused(action=action):
                self._line(
                    f"waiting for a person: {event.problem}: {action.tool}({_given(action.tool_input)})", fg="yellow"
                )
            case Resumed(decision=decision):
                self._line(f"a person decided: {decision.kind}", fg="yellow")
            case Finished() | Stopped():
                self._line("")
            case _:
                assert_never(event)

    def end(self, result: RunResult) -> None:
        """Show the answer, why the run stopped and what it took."""
        if result.best_answer:
            label = "Answer" if result.answer else "So far"
            self._line(f"{label}: {result.best_answer}", fg="cyan", bold=True)
        detail = next((event.detail for event in result.events if isinstance(event, Stopped) and event.detail), "")
        self._line(f"Stopped: {result.stop_reason}{': ' + detail if detail else ''}", bold=not result.answer)
        usage = result.usage
        self._line(
            f"{usage.requests} replies, {len(result.steps)} tool steps, {result.seconds:.1f} s, "
            f"{usage.input_tokens:,} tokens in ({usage.cached_tokens:,} cached), {usage.output_tokens:,} out",
            dim=True,
        )

    def _started(self, event: Started) -> None:
        self._line(f"{event.model} with {', '.join(event.tools)}", dim=True)
        if event.abilities.problem:
            instead = "react_json" if event.strategy == "tool_calling" else event.strategy
            self._line(f"no native tool calls here ({event.abilities.problem}): {instead} instead", fg="yellow")
        self._line(f"Question: {event.question}", bold=True)

    def _replied(self, reply: Reply) -> None:
        for call in reply.calls:  # other strategies' actions are in the model's own words
            self._line(f"{call.tool}({_given(call.tool_input)})")
        self._line(_cost(reply), dim=True)

    def _text(self, text: str) -> None:
        text = clean(text)
        if text:
            click.echo(text, nl=False)
            self._line_open = not text.endswith("\n")

    def _line(self, text: str, fg: str | None = None, *, bold: bool = False, dim: bool = False) -> None:
        if self._line_open:
            click.echo()
            self._line_open = False
        click.secho(clean(text), fg=fg, bold=bold, dim=dim)


class Waiting:
    """A line that counts seconds in a terminal while nothing else can be shown."""

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown and sys.stderr.isatty()
        self._task: asyncio.Task[None] | None = None

    def begin(self, what: str) -> None:
        """Show `what` and the seconds since now, until `end`."""
        self.end()
        if self._shown:
            self._task = asyncio.create_task(self._count(what))

    def end(self) -> None:
        """Take the line away."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
            click.echo("\r\x1b[K", nl=False, err=True)

    async def _count(self, what: str) -> None:
        began = time.monotonic()
        for sign in itertools.cycle("⠋⠙⠸⠴⠦⠇"):
            await asyncio.sleep(0.15)
            click.echo(f"\r{sign} {what} {time.monotonic() - began:.0f} s", nl=False, err=True)


def clean(text: str) -> str:
    """`text` without escape sequences and control characters: what a model wrote cannot steer a terminal."""
    return _CONTROL.sub("", text)


def _mark(event: Asked) -> str:
    notes = ["(beside it)" if event.aside else "", "(last step)" if event.closing else ""]
    notes.append(f"reply not usable: {event.problem}" if event.problem else "")
    notes.append("the window is full: oldest observations shortened" if event.shortened else "")
    return " ".join([f"[{event.step}]", *(note for note in notes if note)])


def _given(tool_input: ToolInput) -> str:
    return tool_input if isinstance(tool_input, str) else json.dumps(tool_input, ensure_ascii=False)


def _cost(reply: Reply) -> str:
    usage = reply.usage
    return (
        f"{reply.seconds:.1f} s (first word {reply.first_token_seconds:.1f} s) · "
        f"{usage.input_tokens:,} tokens in ({usage.cached_tokens:,} cached), {usage.output_tokens:,} out"
    )
