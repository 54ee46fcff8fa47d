"""The demo's strategy: look where the answer should be, say what was found, rephrase, look elsewhere, and be honest.

Each reply of the model is short and held to a pattern, so that a small model can do it. What the model may choose:
where to begin, whether names have to be looked up before issues are, other words, and whether a text has the answer.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeVar

from retinue.core.grammar import Constraint, choice, line, seq
from retinue.core.prompt import Ask, Decided, Prompt
from retinue.core.protocols import Flow, Request, Sent, Task, act, ask
from retinue.core.values import AgentAction, AgentFinish, Message, Observation, Reply
from retinue.strategies.facts.sub_prompts import one_field, one_of

T = TypeVar("T")
Part = Generator[Request, Sent, T]

SOURCES = {"documentation": "the indexed documentation", "web": "the web", "issues": "the issues"}
SEARCHES = {"documentation": "the documentation", "web": "web search", "issues": "the issues"}
BOTH = "documentation, then issues"
NOT_STATED = "not stated"
LONGEST = 400  # characters of the question in prompts and links
MOST_NAMES = 4
_READ_CHARS = 1_800
_DESCRIBES = re.compile(r"\b(?:any|one|some|each|all) of (?:the|its|our)\b", re.IGNORECASE)
_NOTHING = "Nothing was found"

_PLAN = """\
Where is the answer to a question about a piece of software? Write one of these:
documentation (how to use it, what it has, what a word means)
web (who uses it, news, opinions)
issues (an error, something that does not work, and how to work around it)
documentation, then issues (issues about things that the question does not name, only describes)

Question: What does the option --dry-run do?
Place: documentation
Question: What do I need to install for tables?
Place: documentation
Question: Which companies use it?
Place: web
Question: Why does SAVE_PATH have no effect?
Place: issues
Question: How can I make the variable LOG_DIR take effect?
Place: issues
Question: Is there an issue about any of the parts of a usual pump?
Place: documentation, then issues
Question: {question}
Place:"""

_READ = """\
Read these texts, and answer the question with them. Use one short sentence with the words of the texts.
If the texts do not say it, write: not stated

Texts:
{texts}

Question: {question}
Answer:"""

_CHECK = """\
Do the texts say this, and is it what the question asks for? Write yes or no:"""

_REPHRASE = """\
A search for "{words}" found nothing useful. Write two or three other words to search for, which mean the same.
Question: {question}
Other words:"""

_NAMES = """\
{texts}

Which names does this give to what is described in the question "{question}"? Write only the names, with commas.
Names:"""

_DESCRIBED = """\
Which words of a question describe what has to be looked up, before issues about it can be searched for?
Question: Is there an issue about any of the parts of a usual pump?
Words: parts of a usual pump
Question: {question}
Words:"""

_KEYWORD = """\
Which one word of a question is it about? A name in code is best.
Question: Why does SAVE_PATH have no effect?
Word: SAVE_PATH
Question: {question}
Word:"""


@dataclass(frozen=True)
class Research:
    """The strategy. Each source is searched at most `rephrasings` times more, in other words."""

    rephrasings: int = 1
    name: str = "research"

    def __call__(self, task: Task) -> Flow:
        """Look into one place after the other, the likeliest first."""
        return _Run(self, task.question).flow()


class _Run:
    """One question. `_tried` are the searches so far, for the link to a new issue."""

    def __init__(self, by: Research, question: str) -> None:
        self._by, self._asked = by, question
        self._question = " ".join(question.split())[:LONGEST]
        self._tried: list[str] = []

    def flow(self) -> Flow:
        places = [*SOURCES, BOTH]
        if _DESCRIBES.search(self._question) and "issue" in self._question.casefold():
            first = BOTH  # a small model does not see it
        else:
            first = yield from self._say_one(_PLAN.format(question=self._question), places)
        if first == BOTH:
            answer = yield from self._combined()
        else:
            answer = yield from self._in_turn([first, *(name for name in SOURCES if name != first)])
        return AgentFinish({"output": answer or (yield from self._link())})

    def _in_turn(self, sources: list[str]) -> Part[str]:
        for at, source in enumerate(sources):
            answer = yield from self._searched(source)
            if answer:
                return answer
            following = sources[at + 1 : at + 2]
            then = f"Will continue with {SEARCHES[following[0]]}." if following else "There is nowhere else to look."
            yield from self._tell(f"Found nothing in {SOURCES[source]}. {then}")
        return ""

    def _combined(self) -> Part[str]:
        """Look up the names in the documentation, and then search the issues for each of them."""
        yield from self._tell("The question describes what it is about. Will look up the names in the documentation.")
        described = yield from self._say(_DESCRIBED.format(question=self._question), _line(100))
        (seen,) = yield from self._look("documentation", _plain(described))
        text = seen.text[:_READ_CHARS]
        asked = _NAMES.format(texts=text, question=self._question)
        listed = yield from self._say(asked, _line(120))
        names = _names(listed, text)
        if not names:
            yield from self._tell("Found no names in the indexed documentation. Will continue with web search.")
            return (yield from self._in_turn(["web", "issues"]))
        yield from self._tell(f"The documentation names {', '.join(names)}. Will search the open issues for each.")
        found = yield from self._look("issues", *names, state="open")
        texts = "\n".join(dict.fromkeys(row for one in found if _useful(one) for row in one.text.splitlines()))
        return (yield from self._read(texts)) if texts else ""

    def _searched(self, source: str) -> Part[str]:
        """Search a source, in other words if need be; the answer, or nothing."""
        words = self._question
        if source == "issues":
            words = yield from self._say(_KEYWORD.format(question=self._question), _line(40))
        used: list[str] = []
        for again in range(self._by.rephrasings + 1):
            if again:
                words = yield from self._rephrased(words)
            words = _plain(words)
            if not words or words.casefold() in used:
                break
            used.append(words.casefold())
            (seen,) = yield from self._look(source, words)
            answer = (yield from self._read(seen.text)) if _useful(seen) else ""
            if answer:
                return answer
        return ""

    def _rephrased(self, words: str) -> Part[str]:
        asked = _REPHRASE.format(words=words, question=self._question)
        return (yield from self._say(asked, _line(40)))

    def _read(self, texts: str) -> Part[str]:
        """What the texts say in answer to the question, if they do: the model is asked twice."""
        texts = texts[:_READ_CHARS]
        shape = one_field("answer", choice(f" {NOT_STATED}\n", seq(" ", line(200), "\n")))
        prompt = Prompt(Message("user", _READ.format(texts=texts, question=self._question)))
        answer = yield from self._replied(prompt, shape)
        answer = re.split(NOT_STATED, answer, flags=re.IGNORECASE)[0].strip()  # small models add it to an answer
        if not answer:
            return ""
        check = prompt.add(Message("assistant", f" {answer}\n"), Message("user", _CHECK))
        sure = yield from self._replied(check, one_of("sure", ["yes", "no"]), aside=True)
        return answer if sure.casefold().startswith("yes") else ""

    def _link(self) -> Part[str]:
        yield from self._tell("Found nothing anywhere. Here is a link with which you can ask.")
        looked = "\n".join(f"- {one}" for one in self._tried)
        body = f"**Question**\n\n{self._asked[:2_000]}\n\n**Where it was looked for, without success**\n\n{looked}\n"
        (seen,) = yield from act(AgentAction("new_issue", {"title": self._question[:200], "body": body}))
        return f"I found no answer. You can ask it in a new issue, which is filled in: {seen.text}"

    def _look(self, source: str, *queries: str, **more: str) -> Part[tuple[Observation, ...]]:
        self._tried += [f"{SOURCES[source]}: {query}" for query in queries]
        actions = [AgentAction(source, {"query": query, **more}) for query in queries]
        return (yield from act(*actions))

    def _tell(self, update: str) -> Part[None]:
        yield from act(AgentAction("say", update))

    def _say_one(self, text: str, options: list[str]) -> Part[str]:
        said = yield from self._say(text, one_of("choice", options))
        return next((one for one in sorted(options, key=len, reverse=True) if one in said.casefold()), options[-1])

    def _say(self, text: str, shape: Constraint) -> Part[str]:
        return (yield from self._replied(Prompt(Message("user", text)), shape))

    def _replied(self, prompt: Prompt, shape: Constraint, *, aside: bool = False) -> Part[str]:
        request = Ask(prompt, prompt.message.content, _written, ("\n",), shape, 100, aside=aside)
        reply = yield from ask(request)
        return reply.text.strip().partition("\n")[0]


def _line(characters: int) -> Constraint:
    return one_field("text", seq(" ", line(characters), "\n"))


def _plain(words: str) -> str:
    """Words without the operators of a search engine."""
    return " ".join(re.findall(r"[\w.-]+", words))[:LONGEST]


def _useful(seen: Observation) -> bool:
    found = seen.outcome in ("result", "repeated") and seen.text.strip()
    return bool(found) and not seen.text.startswith(_NOTHING)


def _names(listed: str, text: str) -> list[str]:
    """The names in a list which the text has, too: a model that makes one up does not search for it."""
    names = [re.sub(r"[^\w.-]", "", part) for part in re.split(r",| and ", listed)]
    return list(dict.fromkeys(name for name in names if len(name) > 2 and name in text))[:MOST_NAMES]


def _written(decided: Decided) -> Reply:
    return Reply(f" {decided.output}\n" if isinstance(decided, AgentFinish) else f" {NOT_STATED}\n")
