"""How much text and data an event has."""

from __future__ import annotations

from ..core.events import Asked, Event, Finished, Observed, Replied, Started
from ..core.values import Message


def chars_of(event: Event) -> int:
    """Return the approximate size of an event in characters, and bytes of files."""
    match event:
        case Started(question, history=history, files=files):
            return len(question) + sum(map(_chars_of_message, history)) + sum(len(image.data) for image in files)
        case Asked(messages=messages):
            return sum(map(_chars_of_message, messages))
        case Observed(observation=observation):
            return len(observation.text) + sum(len(file.data) for file in observation.files)
        case Replied(reply=reply):
            return len(reply.text) + len(reply.reasoning) + (len(reply.state.turn) if reply.state else 0)
        case Finished(answer=answer):
            return len(answer)
    return 0


def _chars_of_message(message: Message) -> int:
    kept = len(message.state.turn) if message.state else 0
    return len(message.content) + kept + sum(len(image.data) for image in message.files)
