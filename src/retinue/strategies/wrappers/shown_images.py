"""A strategy whose prompts show the images of the question and of the conversation before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

from ...core.flow import advance
from ...core.prompt import Ask, Prompt
from ...core.protocols import Flow, Sent, Strategy, Task
from ...core.values import AgentFinish, Image
from .wrapper import Wrapper


def with_images(strategy: Strategy, task: Task) -> Strategy:
    """`strategy`, whose every prompt shows the images of `task`. A text format has nowhere to put them."""
    images = tuple(dict.fromkeys([*(one for turn in task.history for one in turn.images), *task.images]))
    return Wrapper(strategy, _Shown(images)) if images else strategy


@dataclass(frozen=True)
class _Shown:
    """The reasoning of a strategy with images in its prompts."""

    images: tuple[Image, ...] = field(repr=False)

    def __call__(self, strategy: Strategy, task: Task) -> Flow:
        inner, prompts = strategy(task), _Prompts(self.images, task.question)
        sent: Sent | None = None
        try:
            while not isinstance(request := advance(inner, sent), AgentFinish):
                sent = yield prompts.shown(request) if isinstance(request, Ask) else request
            return request
        finally:
            inner.close()


class _Prompts:
    """Puts the images that a prompt lacks beside the question in it. What extends a prompt extends its copy."""

    def __init__(self, images: tuple[Image, ...], question: str) -> None:
        self._images = images
        self._question = question.strip()
        self._made: WeakKeyDictionary[Prompt, Prompt] = WeakKeyDictionary()

    def shown(self, request: Ask) -> Ask:
        closing = request.closing
        return replace(request, prompt=self._prompt(request.prompt), closing=closing and self._later(closing))

    def _later(self, closing: Callable[[], Ask]) -> Callable[[], Ask]:
        return lambda: self.shown(closing())

    def _prompt(self, prompt: Prompt) -> Prompt:
        new: list[Prompt] = []
        at: Prompt | None = prompt
        while at is not None and at not in self._made:
            new.append(at)
            at = at.before
        if at is None:
            self._begin(new[::-1])
        else:
            for one in reversed(new):
                assert one.before is not None
                self._made[one] = self._made[one.before].add(one.message)
        return self._made[prompt]

    def _begin(self, prompts: list[Prompt]) -> None:
        """Make the copy of a prompt that extends no earlier one."""
        messages = [one.message for one in prompts]
        there = {image for message in messages for image in message.images}
        lacking = tuple(image for image in self._images if image not in there)
        users = [at for at, message in enumerate(messages) if message.role == "user"]
        asking = [at for at in users if self._question in messages[at].content]
        if lacking and (place := (asking or users)[-1:]):
            asked = messages[place[0]]
            messages[place[0]] = replace(asked, images=(*asked.images, *lacking))
        copy: Prompt | None = None
        for one, message in zip(prompts, messages, strict=True):
            copy = Prompt(message, copy)
            self._made[one] = copy
