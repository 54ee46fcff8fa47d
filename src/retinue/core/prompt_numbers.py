"""The numbers of prompts in a log that goes on in other words than it began with."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from .events import Asked
from .values import Message


class PromptNumbers:
    """Has a log say what is sent. A prompt whose beginning the log has in other words is told as a whole, under a
    number of its own."""

    def __init__(self) -> None:
        self._logged: defaultdict[int, list[Message]] = defaultdict(list)  # by numbers in the log
        self._sent: defaultdict[int, list[Message]] = defaultdict(list)  # by the loop's numbers
        self._numbers: dict[int, int] = {}  # the loop's in the log
        self._checked: set[int] = set()

    def pass_over(self, logged: Asked, sent: Asked) -> None:
        """Note a request of the log, and what the loop would have sent."""
        self._logged[logged.prompt] += logged.messages
        self._sent[sent.prompt] += sent.messages
        self._numbers[sent.prompt] = logged.prompt
        self._checked.discard(sent.prompt)

    def translate(self, asked: Asked) -> Asked:
        """Return a request of the loop as the log should have it."""
        if not self._logged:
            return asked
        number, messages = self._numbers.get(asked.prompt), asked.messages
        if number is None or not self._goes_on(asked.prompt, number):
            messages = (*self._sent[asked.prompt], *messages)
            number = asked.prompt if asked.prompt not in self._logged else max(self._logged) + 1
        self._checked.add(asked.prompt)
        self._numbers[asked.prompt] = number
        self._logged[number] += messages
        self._sent[asked.prompt] += asked.messages
        return replace(asked, prompt=number, messages=messages)

    def _goes_on(self, prompt: int, number: int) -> bool:
        """Whether the log has all that was sent of this prompt, and in the same words."""
        return prompt in self._checked or self._logged[number] == self._sent[prompt]
