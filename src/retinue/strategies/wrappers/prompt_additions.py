"""Strategies whose prompts have more in them: instructions before everything, the files of the question, of the
conversation before it and of tools' results, and why an answer was refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from ...core.files import MAX_BYTES_TOGETHER, MAX_FILES
from ...core.prompt import Ask
from ...core.protocols import Act, Flow, Refusal, Strategy, Task, ask
from ...core.values import File, Message, Observation, Reply
from ..plan_text import neutralize_line
from .wrapper import Part, PromptMapper, Wrapper, perform, relay


def with_instructions(strategy: Strategy, text: str) -> Strategy:
    """Return `strategy`, whose every prompt begins with `text`."""
    return Wrapper(strategy, Instructions(text.strip())) if text.strip() else strategy


_SEEN, _SEEN_CHARS, _ANSWER_CHARS = 4, 500, 2_000  # the last results that are told again, and how much of each


def ask_otherwise(question: str, refusal: Refusal) -> str:
    """Return the question again, with why the answer to it was refused."""
    lines = [f"- {neutralize_line(text, _SEEN_CHARS)}\n" for text in refusal.seen[-_SEEN:]]
    found = f"What was found out so far:\n{''.join(lines)}" if lines else ""
    return (
        f"{question}\n{found}This answer was given: {neutralize_line(refusal.answer, _ANSWER_CHARS)}\n"
        f"It is refused: {neutralize_line(refusal.reason, _SEEN_CHARS)}\nGive another answer."
    )


@dataclass(frozen=True)
class Instructions:
    """The reasoning of a strategy with `text` before its prompts."""

    text: str

    def __call__(self, strategy: Strategy, task: Task) -> Flow:
        """Return the reasoning for one run."""
        return relay(strategy(task), PromptMapper(self._add_text).ask)

    def _add_text(self, messages: Sequence[Message], begun: bool | None) -> Iterator[tuple[Sequence[Message], bool]]:
        for message in messages:
            if begun:
                yield [message], True
            elif message.role == "system":
                yield [replace(message, content=f"{self.text}\n\n{message.content}")], True
            else:
                yield [Message("system", f"{self.text}\n\n"), message], True
            begun = True


def with_files(strategy: Strategy, task: Task) -> Strategy:
    """Return `strategy`, whose every prompt shows the files of `task` and of its tools' results: a strategy's format
    has no place for them."""
    files = tuple(dict.fromkeys([*(one for turn in task.history for one in turn.files), *task.files]))
    return Wrapper(strategy, partial(_show_files, files)) if files or task.tools else strategy


def _show_files(files: tuple[File, ...], strategy: Strategy, task: Task) -> Flow:
    placement = _FilePlacement(files, task.question)
    return relay(strategy(task), placement.ask, placement.observe)


@dataclass(frozen=True, slots=True)
class _Placed:
    """What a prompt has of the files: each as often as it is shown, and the calls whose files have their place."""

    files: tuple[File, ...] = ()
    calls: frozenset[str] = frozenset()


class _FilePlacement:
    """Puts files where they belong: those of the question beside it, and those of a result into its message.

    A format without messages of results shows them in the user's message that follows.
    """

    __slots__ = ("_files", "_mapper", "_question", "_results")

    def __init__(self, files: tuple[File, ...], question: str) -> None:
        self._files, self._question = files, question.strip()
        self._results: dict[str, tuple[str, tuple[File, ...]]] = {}  # a call's tool and files
        self._mapper: PromptMapper[_Placed] | None = None

    def ask(self, request: Ask) -> Part[Reply]:
        """Make the request, with the files in its prompt. Most runs have none, and their prompts need no copies."""
        if not self._files and not self._results:
            return ask(request)
        self._mapper = self._mapper or PromptMapper(self.place_files)
        return self._mapper.ask(request)

    def observe(self, request: Act) -> Part[tuple[Observation, ...]]:
        """Make the request, and note the files of the results."""
        seen = yield from perform(request)
        for action, one in zip(request.actions, seen, strict=True):
            if one.files:
                self._results[one.call_id] = action.tool, one.files
        return seen

    def place_files(
        self, messages: Sequence[Message], placed: _Placed | None
    ) -> Iterator[tuple[Sequence[Message], _Placed]]:
        """Yield each of the new messages with the files that belong to it, and what the prompt has up to it."""
        changed, before = list(messages), placed or _Placed()
        users = [at for at, message in enumerate(messages) if message.role == "user"]
        if placed is None:
            there = {file for message in messages for file in message.files}
            lacking = tuple(one for one in self._files if one not in there)
            asking = [at for at in users if self._question in messages[at].content]
            for at in (asking or users)[-1:] if lacking else ():
                changed[at] = replace(changed[at], files=(*changed[at].files, *lacking))
        shown = [*before.files, *chain.from_iterable(message.files for message in changed)]
        calls: dict[int, set[str]] = {}  # that get their place in a message
        for call, (tool, files) in self._results.items():
            own = [at for at, message in enumerate(messages) if message.call_id == call]
            for at in (own or (users if call not in before.calls else []))[-1:]:
                changed[at] = _add_result(changed[at], tool, files, shown)
                calls.setdefault(at, set()).add(call)
        for at, message in enumerate(changed):
            if message.files or at in calls:
                before = _Placed((*before.files, *message.files), before.calls | calls.get(at, set()))
            yield [message], before


def _add_result(message: Message, tool: str, files: Sequence[File], shown: list[File]) -> Message:
    """Return the message with the files of a result, if a prompt may have them beside those that are `shown`."""
    files = [one for one in files if one not in message.files]
    if not files:
        return message
    together = [*shown, *files]
    if len(together) > MAX_FILES or sum(len(one.data) for one in together) > MAX_BYTES_TOGETHER:
        return replace(message, content=f"{message.content}\n(Its files are not shown: there were too many before.)")
    shown[:] = together
    return replace(message, files=(*message.files, *files), tool=message.tool or tool)
