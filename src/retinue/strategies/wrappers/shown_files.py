"""A strategy whose prompts show the files of the question, of the conversation before, and of what tools returned."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary, WeakSet

from ...core.file_format import MAX_BYTES_TOGETHER, MAX_FILES
from ...core.flow import advance
from ...core.prompt import Ask, Prompt
from ...core.protocols import Act, Flow, Sent, Strategy, Task
from ...core.values import AgentAction, AgentFinish, File, Message, Observation
from .wrapper import Wrapper


def with_files(strategy: Strategy, task: Task) -> Strategy:
    """`strategy`, whose every prompt shows the files of `task` and of its tools' results. A text format has nowhere to
    put them."""
    files = tuple(dict.fromkeys([*(one for turn in task.history for one in turn.files), *task.files]))
    return Wrapper(strategy, _Shown(files)) if files or task.tools else strategy


@dataclass(frozen=True)
class _Shown:
    """The reasoning of a strategy with files in its prompts."""

    files: tuple[File, ...] = field(repr=False)

    def __call__(self, strategy: Strategy, task: Task) -> Flow:
        inner = strategy(task)
        return self._reason(inner, task) if isinstance(inner, Generator) else inner  # which is refused as such

    def _reason(self, inner: Flow, task: Task) -> Flow:
        prompts = _Prompts(self.files, task.question)
        sent: Sent | None = None
        try:
            while not isinstance(request := advance(inner, sent), AgentFinish):
                sent = yield prompts.shown(request) if isinstance(request, Ask) else request
                if isinstance(request, Act) and isinstance(sent, Sequence):
                    prompts.observe(request.actions, sent)
            return request
        finally:
            inner.close()


class _Prompts:
    """Puts the files that a prompt lacks where they belong: beside the question, or with the result that brought them.
    What extends a prompt extends its copy, and what needs no file is its own copy."""

    def __init__(self, files: tuple[File, ...], question: str) -> None:
        self._files = files
        self._question = question.strip()
        self._results: dict[str, tuple[str, tuple[File, ...]]] = {}  # a call's tool and files
        self._made: WeakKeyDictionary[Prompt, Prompt] = WeakKeyDictionary()
        self._unchanged: WeakSet[Prompt] = WeakSet()

    def observe(self, actions: Sequence[AgentAction], seen: Iterable[Observation]) -> None:
        """Note what tools returned."""
        for action, one in zip(actions, seen, strict=True):
            if one.files:
                self._results[one.call_id] = action.tool, one.files

    def shown(self, request: Ask) -> Ask:
        """Return the request with the files in its prompt."""
        prompt, closing = self._prompt(request.prompt), request.closing
        if prompt is request.prompt and closing is None:
            return request
        return replace(request, prompt=prompt, closing=closing and self._later(closing))

    def _later(self, closing: Callable[[], Ask]) -> Callable[[], Ask]:
        return lambda: self.shown(closing())

    def _prompt(self, prompt: Prompt) -> Prompt:
        new: list[Prompt] = []
        at: Prompt | None = prompt
        while at is not None and at not in self._made and at not in self._unchanged:
            new.append(at)
            at = at.before
        copy = at if at is None else self._made.get(at, at)
        messages = self._placed([one.message for one in reversed(new)], copy)
        for one, message in zip(reversed(new), messages, strict=True):
            if message is one.message and copy is one.before:
                self._unchanged.add(one)
                copy = one
            else:
                copy = self._made[one] = Prompt(message, copy)
        assert copy is not None
        return copy

    def _placed(self, messages: list[Message], before: Prompt | None) -> list[Message]:
        """Return the `messages` that follow `before` with the files that the prompt lacks."""
        if not (self._files or self._results) or not messages:
            return messages
        earlier = () if before is None else before.messages
        there = {file for message in (*earlier, *messages) for file in message.files}
        users = [at for at, message in enumerate(messages) if message.role == "user"]
        if before is None and (lacking := tuple(one for one in self._files if one not in there)):
            asking = [at for at in users if self._question in messages[at].content]
            for at in (asking or users)[-1:]:
                messages[at] = replace(messages[at], files=(*messages[at].files, *lacking))
            there |= {*lacking}
        for call, (tool, files) in self._results.items():
            own = [at for at, message in enumerate(messages) if message.call_id == call]
            if lacking := tuple(one for one in files if one not in there):
                for at in (own or users)[-1:]:
                    messages[at] = _with_result(messages[at], tool, lacking, there)
                    there |= {*lacking}
        return messages


def _with_result(message: Message, tool: str, files: tuple[File, ...], there: Iterable[File]) -> Message:
    """Return the message with the files of a result, as far as a prompt may have them beside those that are `there`."""
    shown = [*there]
    room, size = MAX_FILES - len(shown), MAX_BYTES_TOGETHER - sum(len(one.data) for one in shown)
    if len(files) > room or sum(len(one.data) for one in files) > size:
        return replace(message, content=f"{message.content}\n(Its files are not shown: there were too many before.)")
    return replace(message, files=(*message.files, *files), tool=message.tool or tool)
