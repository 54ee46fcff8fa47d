"""`corrective`: sources are searched in turn; what is found is judged, and only an answer that it states is given.

Each source is searched with the question, and with other words if what it found does not answer it. Then the next one
is searched. A question that is for a later source is first looked up in the first one, for the names that it means. If
nothing answers the question, the last tool may offer a way out, such as the link to a new issue. (Corrective retrieval,
Yan et al. 2024, with the fallbacks and updates of RFC 001's demo.)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..core.grammar import Chars, Constraint, Repeat, seq
from ..core.prompt import Ask, Decided, Prompt
from ..core.protocols import Flow, Task, act, ask
from ..core.tool import Tool
from ..core.values import AgentAction, AgentFinish, Message, Reply
from .facts.descriptions import names_in
from .facts.fact_finder import FOUND, YES_OR_NO
from .facts.sub_prompts import Part, one_field, one_of
from .parsing import final_answer
from .prompting.constraints import answer_shape
from .prompting.injection_guard import neutralize
from .prompting.prompt_parts import prompt_parts
from .react import React

_REPLY_TOKENS = 64
_CHOICES = 8  # sentences that the model chooses from
_SENTENCE_CHARS = 400
_NAMES = 3  # that a later source is searched for
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[^a-z])")
_LINK = re.compile(r"\[([^\]]*)\](?:\(([^)\s]*)\))?\s*")
_HEADER = re.compile(r"\[\d+\] (.*?)\s*(https?://\S+)?")  # of a passage from the web, a line of its own
_FEW = Repeat(seq(" ", Chars(r"\w"), Repeat(Chars(r"\w.-"), 2, 29)), 1, 4)
_WORDS = one_field("words", seq(_FEW, "\n"))
_WORD = re.compile(r"\w{3,}")
_ALIKE = 5  # letters that two forms of a word begin with
_ANSWER = answer_shape(200)
_NOTHING = "I found nothing that answers this"


@dataclass(frozen=True)
class Corrective:
    """The strategy. Its sources are the tools that take a text and have no effects, in their order; each is searched
    with other words at most `rewordings` times. A tool that takes a `title` is the way out."""

    rewordings: int = 1
    name: str = "corrective"
    needs_tools: bool = True

    def __call__(self, task: Task) -> Flow:
        """Search, judge, and answer or go on."""
        sources = [tool for tool in task.tools if tool.effects == "read" and tool.signature.text_argument is not None]
        if not sources:
            return React()(task)
        return _Run(task, sources, self.rewordings).flow()


@dataclass(frozen=True)
class _Found:
    """A sentence, and the source and the passage that it is from."""

    source: str
    sentence: str
    passage: str

    @property
    def answer(self) -> str:
        """The sentence, with where it is from."""
        title = _LINK.match(self.passage)
        where = title.group(2) or title.group(1) if title else ""
        return f"{self.sentence} ({self.source}{': ' if where else ''}{where})"


class _Run:
    """The state of one run: what was searched for so far, in which source."""

    def __init__(self, task: Task, sources: Sequence[Tool], rewordings: int) -> None:
        self._question = task.question.strip()
        self._sources = [tool.name for tool in sources]
        self._described = {tool.name: tool.description for tool in sources}
        self._out = next((tool for tool in task.tools if "title" in _arguments(tool)), None)
        self._rewordings = rewordings
        self._searched: list[tuple[str, str]] = []

    def flow(self) -> Flow:
        """Search and answer, or answer with what is known when the budget is used up."""
        try:
            return (yield from self._answered())
        except _Closing as closing:
            return AgentFinish({"output": final_answer.visible_answer(str(closing))})

    def _answered(self) -> Flow:
        """Search the sources in turn: the first one, that which the question is for, and the others."""
        wanted = yield from self._wanted()
        first, question = self._sources[0], self._question
        queries, thought = [question], ""
        if wanted != first:
            known = yield from self._known(first)
            names = [] if known is None else [one for one in names_in(known.sentence) if one not in question][:_NAMES]
            queries, thought = [*names, question], f"Found nothing in {first}. Will continue with {wanted}."
            if known is not None and names:
                thought = f"{first} says: {known.sentence} Will look in {wanted} for {', '.join(names)}."
        others = [one for one in self._sources if one not in (first, wanted)]
        before = first
        for source in [wanted, *([] if wanted == first else [first]), *others]:
            found = yield from self._in_source(source, queries, thought or _goes_on(before, source))
            if found is not None:
                return AgentFinish({"output": found.answer})
            queries, thought, before = [question], "", source
        return (yield from self._way_out(before))

    def _wanted(self) -> Part[str]:
        """Return the source that the question is for."""
        if len(self._sources) == 1:
            return self._sources[0]
        described = "\n".join(f"{name}: {self._described[name]}" for name in self._sources)
        places = {"first": self._sources[0], "middle": self._sources[len(self._sources) // 2]}
        text = _prompt("route", sources=described, last=self._sources[-1], question=self._question, **places)
        said = yield from self._said(text, self._question, one_of("where", self._sources))
        return said if said in self._sources else self._sources[0]

    def _known(self, source: str) -> Part[_Found | None]:
        """Return what a source says of the things that the question means, without answering it."""
        (seen,) = yield from self._search(source, [self._question], "")
        return (yield from self._judged(source, seen, "helps"))

    def _in_source(self, source: str, queries: list[str], thought: str) -> Part[_Found | None]:
        """Search a source, with other words if it has to be; return the sentence that answers the question."""
        passages: list[str] = []
        for number in range(self._rewordings + 1):
            if number:
                thought = f"Found nothing on that in {source}. Will try other words."
                queries = [(yield from self._reworded())]
            new: list[str] = []
            for query in queries:
                if (source, query) in self._searched:
                    continue
                self._searched.append((source, query))
                (seen,) = yield from act(AgentAction(source, query, thought))
                rows = _rows(neutralize(seen.text)) if seen.outcome in FOUND else []
                new += [row for row in rows if row not in passages and row not in new]
                thought = ""
            passages += new
            found = yield from self._judged(source, new, known)
            if found is not None:
                return found
        return None

    def _judged(self, source: str, passages: Sequence[str], known: str) -> Part[_Found | None]:
        """Have the model choose a sentence, and say whether it answers the question."""
        question = f"{known} {self._question}".strip()
        sentences = _nearest(source, passages, question)
        if not sentences:
            return None
        text = "\n".join(f"{number}. {one.sentence}" for number, one in enumerate(sentences, 1))
        numbers = [str(number) for number in range(1, len(sentences) + 1)]
        number = "1"
        if len(sentences) > 1:
            asked = _prompt("choose", sentences=text, question=question)
            number = yield from self._said(asked, text, one_of("sentence", numbers), aside=True)
        chosen = sentences[int(number) - 1] if number in numbers else sentences[0]
        asked = _prompt("says", text=chosen.sentence, question=question)
        said = yield from self._said(asked, chosen.sentence, YES_OR_NO)
        return chosen if said == "yes" else None

    def _reworded(self) -> Part[str]:
        text = _prompt("reword", question=self._question)
        return (yield from self._said(text, self._question, _WORDS, aside=True))

    def _way_out(self, last: str) -> Flow:
        """Say that nothing was found, and what was looked for; with the way out, if there is one."""
        looked = "\n".join(f"- {source}: {query}" for source, query in self._searched)
        if self._out is None:
            return AgentFinish({"output": f"{_NOTHING}. I looked for:\n{looked}"})
        given = {"title": self._question, "body": f"{self._question}\n\nNothing was found. Looked for:\n{looked}\n"}
        known = {name: value for name, value in given.items() if name in _arguments(self._out)}
        thought = f"Found nothing in {last}, either. Will prepare a question to those who may know."
        (seen,) = yield from act(AgentAction(self._out.name, known, thought))
        return AgentFinish({"output": f"{_NOTHING}. You can ask it here: {seen.text.strip()}"})

    def _said(self, text: str, news: str, shape: Constraint, **more: Any) -> Part[str]:
        closing = partial(self._closing, news)
        request = Ask(Prompt(Message("user", text)), news, _written, (), shape, _REPLY_TOKENS, closing=closing, **more)
        reply = yield from ask(request)
        if reply.closing:
            raise _Closing(reply.text)
        return reply.text.strip()

    def _closing(self, news: str) -> Ask:
        text = _prompt("close", text=news, question=self._question)
        shown = final_answer.visible_answer
        return Ask(Prompt(Message("user", text)), news, _written, (), _ANSWER, _REPLY_TOKENS, answer=shown)


class _Closing(Exception):
    """The budget allows no more than this answer."""


def _arguments(tool: Tool) -> Mapping[str, Any]:
    arguments: Mapping[str, Any] = tool.signature.parameters.get("properties", {})
    return arguments


def _prompt(part: str, **values: str) -> str:
    return prompt_parts("corrective")[part].substitute(values).rstrip("\n")


def _rows(observation: str) -> list[str]:
    return [row.strip() for row in observation.split("\n") if row.strip()]


def _nearest(source: str, passages: Sequence[str], question: str) -> list[_Found]:
    """Return the sentences that share most words with the question, in their order. A title counts for all of its
    passage."""
    wanted = _stems(question)
    rated = [(_shared(wanted, one), one) for passage in passages for one in _sentences(source, passage)]
    best = sorted((one for one in rated if one[0]), key=lambda one: -one[0])[:_CHOICES]
    return [one for _, one in sorted(best, key=rated.index)]


def _shared(wanted: set[str], found: _Found) -> int:
    title = _LINK.match(found.passage)
    in_sentence = len(wanted & _stems(found.sentence))
    return in_sentence and in_sentence + len(wanted & _stems(title.group(1) if title else ""))


def _sentences(source: str, passage: str) -> list[_Found]:
    title = _LINK.match(passage)
    text = passage[title.end() :] if title else passage
    return [_Found(source, one.strip()[:_SENTENCE_CHARS], passage) for one in _SENTENCE.split(text) if one.strip()]


def _stems(text: str) -> set[str]:
    return {word.lower()[:_ALIKE] for word in _WORD.findall(text)}


def _finish(found: _Found) -> AgentFinish:
    return AgentFinish({"output": found.answer})


def _written(decided: Decided) -> Reply:
    return Reply(f" {decided.output}\n" if isinstance(decided, AgentFinish) else " \n")
