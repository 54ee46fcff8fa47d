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
from itertools import takewhile
from typing import Any

from ..core.protocols import Flow, Task, act
from ..core.schema.patterns import Chars, Repeat, seq
from ..core.tools.tool import Tool
from ..core.values import AgentAction, AgentFinish
from .facts.descriptions import find_names
from .facts.fact_finder import FOUND, YES_OR_NO, build_copied_constraint
from .facts.sub_prompts import NarrowRun, build_choice_constraint, build_field_constraint, may_look_up
from .prompting.constraints import answer_shape
from .prompting.injection_guard import neutralize
from .prompting.prompt_parts import fill_prompt_part
from .react import React
from .wrappers.wrapper import Part

_REPLY_TOKENS = 64
_NAMES = 3  # that a later source is searched for
_AFTER = frozenset("not is are was were has have be known that which who to and or do does can will".split())
_FEW = Repeat(seq(" ", Repeat(Chars("A-Za-z0-9_.\u00c0-\u024f-"), 3, 30)), 1, 4)
_WORDS = build_field_constraint("words", seq(_FEW, "\n"))
_CALCULATOR = "calculator"
_fill_prompt = partial(fill_prompt_part, "corrective")
_SEVERAL = 2  # words, or sources
_NOTHING = "I found nothing that answers this"


@dataclass(frozen=True)
class Corrective:
    """The strategy. Its sources, two or more, are the tools that take a text and have no effects, in order. Each is
    searched with other words at most `rewordings` times. A tool that takes a `title` is the way out. With tools of
    other kinds, such as a calculator, it does what `react` does."""

    rewordings: int = 1
    name: str = "corrective"
    needs_tools: bool = True

    def __call__(self, task: Task) -> Flow:
        """Search, judge, and answer or go on."""
        sources = [tool for tool in task.tools if may_look_up(tool) and tool.name.casefold() != _CALCULATOR]
        others = [tool for tool in task.tools if tool not in sources and "title" not in _list_arguments(tool)]
        if task.scripted or others or len(sources) < _SEVERAL:
            return React()(task)
        return _Run(task, sources, self.rewordings).flow()


class _Run(NarrowRun):
    """The state of one run: what was searched for so far, in which source."""

    def __init__(self, task: Task, sources: Sequence[Tool], rewordings: int) -> None:
        super().__init__(answer_shape(200), _REPLY_TOKENS)
        self._task, self._question = task, task.question.strip()
        self._sources = {tool.name: tool.description for tool in sources}
        self._out = next((tool for tool in task.tools if "title" in _list_arguments(tool)), None)
        self._rewordings = rewordings
        self._about = ""  # what the first source says of the things that the question is about
        self._names: Sequence[str] = ()  # in that
        self._seen: dict[tuple[str, str], list[str]] = {}

    def find_answer(self) -> Flow:
        """Search the sources in turn: the first one, that which the question is for, and the others."""
        self._question = question = yield from self.name_references(self._question, self._task)
        wanted = yield from self._choose_source()
        first = next(iter(self._sources))
        queries, thought = [question], ""
        if wanted != first:
            known = yield from self._describe_things(first)
            names = [one for one in find_names(known.sentence if known else "") if one not in question][:_NAMES]
            searched = f"Found nothing in {first}. Will continue with {wanted}."
            queries, thought = [*names, question], searched if self._seen else f"Will look in {wanted} first."
            if known is not None and names:
                self._about, self._names = known.sentence, names
                thought = f"{first} says: {known.sentence} Will look in {wanted} for {', '.join(names)}."
        before = ""
        for source in dict.fromkeys((wanted, *self._sources)):
            if before:
                queries, thought = [question], f"Found nothing in {before}. Will continue with {source}."
                self._about, self._names = "", ()
            found = yield from self._search_source(source, queries, thought)
            if found is not None:
                return AgentFinish({"output": found.answer})
            before = source
        return (yield from self._report_nothing_found(before))

    def _choose_source(self) -> Part[str]:
        names = list(self._sources)
        described = "\n".join(f"{name}: {description}" for name, description in self._sources.items())
        places = {"first": names[0], "middle": names[len(names) // 2], "last": names[-1]}
        text = _fill_prompt("route", sources=described, question=self._question, **places)
        said = yield from self.say(text, self._question, build_choice_constraint("where", names))
        return said if said in names else names[0]

    def _describe_things(self, source: str) -> Part[FoundSentence | None]:
        """Return what a source says of the things that the question is about."""
        shape = build_copied_constraint(self._question, "", "words", must=True)
        if shape is None:
            return None
        text = _fill_prompt("things", question=self._question)
        said = yield from self.say(text, self._question, shape, aside=True)
        rest = takewhile(lambda word: word.isalnum() and word not in _AFTER, self._question.partition(said)[2].split())
        things = " ".join((said, *rest))
        if len(stem_words(things)) < _SEVERAL:  # a name alone
            return None
        passages = yield from self._find_passages(source, [things], "")
        return (yield from self._choose_sentence(f"What are {things}?", source, passages))

    def _search_source(self, source: str, queries: list[str], thought: str) -> Part[FoundSentence | None]:
        """Search a source, with other words if it has to be; return the sentence that answers the question."""
        for attempt in range(self._rewordings + 1):
            if attempt:
                text = _fill_prompt("reword", question=self._question)
                words = yield from self.say(text, self._question, _WORDS, aside=True)
                queries = [" ".join({word.casefold(): word for word in words.split()}.values())]
                thought = f"Found nothing on that in {source}. Will try other words."
            passages = yield from self._find_passages(source, queries, thought)
            found = yield from self._choose_sentence(self._question, source, passages)
            if found is not None:
                return found
        return None

    def _find_passages(self, source: str, queries: Sequence[str], thought: str) -> Part[list[str]]:
        """Search a source by each of the queries; return the passages."""
        found: list[str] = []
        for query in queries:
            if (source, query) not in self._seen:
                (seen,) = yield from act(AgentAction(source, query, thought))
                self._seen[source, query] = split_passages(neutralize(seen.text)) if seen.outcome in FOUND else []
                thought = ""
            found += [row for row in self._seen[source, query] if row not in found]
        return found

    def _choose_sentence(self, question: str, source: str, passages: Sequence[str]) -> Part[FoundSentence | None]:
        """Have the model choose a sentence, and say whether it answers the question."""
        sentences = find_nearest_sentences(source, passages, f"{self._about} {question}")
        if not sentences:
            return None
        text = "\n".join(f"{number}. {one.sentence}" for number, one in enumerate(sentences, 1))
        numbers = [str(number) for number in range(1, len(sentences) + 1)]
        number = "1"
        if len(sentences) > 1:
            asked = _fill_prompt("choose", sentences=text, question=question)
            number = yield from self.say(asked, text, build_choice_constraint("sentence", numbers), aside=True)
        chosen = sentences[int(number) - 1] if number in numbers else sentences[0]
        wanted = stem_words(question)
        nearest = max(sentences, key=lambda one: count_common_words(wanted, one))
        for one in dict.fromkeys((chosen, nearest)):
            # A small model says of many things that they are an answer: half of the words must be there, or a name.
            if self._names and not any(name in one.passage for name in self._names):
                continue
            if not self._names and 2 * count_common_words(wanted, one) < len(wanted):
                continue
            asked = _fill_prompt("says", text=f"{self._about} {one.sentence}".strip(), question=question)
            if (yield from self.say(asked, one.sentence, YES_OR_NO)) == "yes":
                return one
        return None

    def _report_nothing_found(self, last: str) -> Flow:
        """Say that nothing was found, and what was looked for; with the way out, if there is one."""
        looked = "\n".join(f"- {source}: {query}" for source, query in self._seen)
        nothing = f"{_NOTHING}. I looked for:\n{looked}"
        if self._out is None:
            return AgentFinish({"output": nothing})
        given = {"title": self._question, "body": f"{self._question}\n\nNothing was found. Looked for:\n{looked}\n"}
        known = {name: value for name, value in given.items() if name in _list_arguments(self._out)}
        thought = f"Found nothing in {last}, either. Will prepare a question to those who may know."
        (seen,) = yield from act(AgentAction(self._out.name, known, thought))
        if seen.outcome not in FOUND:
            return AgentFinish({"output": nothing})
        return AgentFinish({"output": f"{_NOTHING}. You can ask it here: {seen.text.strip()}"})

    def write_closing_prompt(self, news: str) -> str:
        """Return the prompt that asks for the answer from what was read last."""
        return _fill_prompt("close", text=news, question=self._question)


def _list_arguments(tool: Tool) -> Mapping[str, Any]:
    arguments: Mapping[str, Any] = tool.signature.parameters.get("properties", {})
    return arguments


# ── the sentences of passages ────────────────────────────────────────────────────────────────────

_CHOICES = 8  # sentences that a model chooses from
_SENTENCE_CHARS = 400
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[^a-z])")
_WHOLE = re.compile(r"[^a-z|`\s][^|]*[^?|]|`(?!``)[^|]*[^?|]", re.DOTALL)
_LINK = re.compile(r"\[([^\]]*)\](?:\(([^)\s]*)\))?\s*")
_HEADER = re.compile(r"\[\d+\] (.*?)\s*(https?://\S+)?")  # of a passage from the web, a line of its own
_WORD = re.compile(r"\w{4,}")
_GENERAL = frozenset(
    "about does every from have into make many much should that their them then there these they this what when where "
    "which while will with work working would your".split()
)
_ALIKE = 5  # letters that two forms of a word begin with


@dataclass(frozen=True)
class FoundSentence:
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


def split_passages(observation: str) -> list[str]:
    """Return the passages of an observation: its lines, those from the web with their titles and addresses."""
    rows: list[str] = []
    title = ""
    for row in filter(None, map(str.strip, observation.split("\n"))):
        if header := _HEADER.fullmatch(row):
            title = f"[{header.group(1)}]({header.group(2) or ''}) "
        else:
            rows.append(title + row)
    return rows


def find_nearest_sentences(source: str, passages: Sequence[str], question: str) -> list[FoundSentence]:
    """Return the whole sentences that share most words with the question, in their order: none from tables and code,
    and no question, which answers nothing."""
    found = []
    for passage in passages:
        title = _LINK.match(passage)
        said = map(str.strip, _SENTENCE.split(passage[title.end() :] if title else passage))
        found += [FoundSentence(source, one[:_SENTENCE_CHARS], passage) for one in said if _WHOLE.fullmatch(one)]
    wanted = stem_words(question)
    shared = [count_common_words(wanted, one) for one in found]
    best = sorted((at for at, number in enumerate(shared) if number), key=lambda at: -shared[at])[:_CHOICES]
    return [found[at] for at in sorted(best)]


def count_common_words(wanted: set[str], found: FoundSentence) -> int:
    """Return how many words of the question a sentence has, or the title of its passage, if it has one itself."""
    title = _LINK.match(found.passage)
    said = stem_words(found.sentence)
    return len(wanted & (said | stem_words(title.group(1)) if title else said)) if wanted & said else 0


def stem_words(text: str) -> set[str]:
    """Return the beginnings of the words that say something."""
    return {word[:_ALIKE] for word in map(str.lower, _WORD.findall(text)) if word not in _GENERAL}
