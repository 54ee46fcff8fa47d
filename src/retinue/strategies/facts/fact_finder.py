"""A fact is looked up: what its question describes is named, passages are read one by one, what they say is checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...core.protocols import act
from ...core.schema.patterns import line, seq
from ...core.values import AgentAction
from ..prompting.injection_guard import neutralize
from ..wrappers.wrapper import Part
from .copied_answers import (
    KIND_ASKED,
    LONGEST,
    LONGEST_LIST,
    NOT_STATED,
    build_copied_constraint,
    count_shared_words,
    find_asked_kind,
    find_sentences_with,
    find_values,
    has_known_relation,
    has_numbers,
    is_of_kind,
    is_relation_asked,
)
from .descriptions import (
    build_description_constraint,
    find_asked_names,
    find_descriptions,
    find_names,
    is_intricate,
    replace_description,
)
from .quantities import NUMBER, convert_quantity, convert_question
from .sub_prompts import NarrowRun, build_choice_constraint, build_field_constraint, fill_sub_prompt

FOUND = ("result", "repeated")  # outcomes of a tool call that are read
_PASSAGES = 3
_PASSAGE_CHARS = 1_000
_DESCRIBED = 4  # descriptions in a question that are looked up
_WORDS = 4  # of a sentence at least
_VALUES = 2  # of a passage that are tried
_NONE = "none"
_RELATION = build_field_constraint("relation", seq(" ", line(80), "\n"))
YES_OR_NO = build_choice_constraint("answer", ("yes", "no"))


class FactFinder:
    """Finds facts with the tool called `search`. `known` has what it found, by question, `names` the names of things
    by their descriptions, `units` the sizes of units that the question lays down. Names in the user's `question` are no
    answer."""

    def __init__(self, run: NarrowRun, search: str, question: str) -> None:
        self._run, self._tool = run, search
        self._given = find_asked_names(question)
        self.known: dict[str, str] = {}
        self.names: dict[str, str] = {}
        self.units: Mapping[str, float] = {}

    def find(self, question: str, kind: str = "", *, listed: bool = False) -> Part[str]:
        """Return the fact that a question asks for, or that it is not stated. `listed`: it may be a list."""
        if question in self.known:
            return self.known[question]
        plain = yield from self._name_descriptions(convert_question(question, self.units))
        value = NOT_STATED
        if plain is not None:
            value = yield from self._search(plain, kind or find_asked_kind(plain), listed=listed)
        self.known[question] = value = convert_quantity(value, question, self.units)
        return value

    def choose(self, question: str, options: Sequence[str]) -> Part[str]:
        """Return which of the options the question asks for, from what is found on each of them, or that it is not
        stated."""
        found: list[str] = []
        for option in options:
            passages = yield from self._look_up(option, f"What is {option}?")
            found += [one for one in passages[:1] if one not in found]
        text = fill_sub_prompt("choose", passages="\n".join(found), question=question)
        said = yield from self._run.say(
            text, question, build_choice_constraint("answer", (NOT_STATED, *options)), aside=True
        )
        return said if said in options else NOT_STATED

    def _look_up(self, query: str, question: str) -> Part[list[str]]:
        """Return the passages that the search finds and that are read for a question."""
        (seen,) = yield from act(AgentAction(self._tool, query))
        return _select_passages(neutralize(seen.text), question) if seen.outcome in FOUND else []

    def _name_descriptions(self, question: str) -> Part[str | None]:
        """Return the question with names for what it describes; nothing if one of them cannot be found."""
        for _ in range(_DESCRIBED):
            options = find_descriptions(question)
            if not options:
                break
            text = fill_sub_prompt("describe", question=question)
            described = yield from self._run.say(
                text, question, build_description_constraint(question, options), aside=True
            )
            if described not in options:
                break
            name = yield from self.find(f"What is {described}?", "name")
            if name == NOT_STATED:
                return None
            self.names[described] = name
            question = replace_description(question, described, name)
        return question

    def _search(self, question: str, kind: str, *, listed: bool) -> Part[str]:
        """Search by the question, and if that finds nothing by its names with the kind of thing that it asks for, and
        by its names alone."""
        names = " ".join(find_asked_names(question))
        asked = KIND_ASKED.search(question)
        value, read = NOT_STATED, list[str]()
        for query in filter(None, (question, f"{asked.group(1)} {names}" if asked and names else "", names)):
            found = yield from self._look_up(query, question)
            unread = [one for one in found if one not in read]
            value = yield from self._read_passages(question, unread, kind, listed=listed)
            if value != NOT_STATED:
                break
            read += found
        if value == NOT_STATED and kind in ("words", "name") and not listed:
            value = yield from self._look_again(question, read, kind)
        if value == NOT_STATED and not listed:
            value = yield from self._follow_name(question, read, kind)
        return value

    def _look_again(self, question: str, passages: Sequence[str], kind: str) -> Part[str]:
        """Take an answer from the passage that has most words of the question, and see whether it says so: the model
        too often says that something is not stated."""
        best = _find_nearest_passage([one for one in passages if has_numbers(one, question)], question)
        shape = build_copied_constraint(_split_title(best)[1], question, kind, but=self._given, must=True)
        if shape is None:
            return NOT_STATED
        said = yield from self._run.say(
            fill_sub_prompt("read", passage=best, question=question), best, shape, aside=True
        )
        value = said.partition("\n")[0].strip()
        if not value or value in self._given or any(name in value for name in find_asked_names(question)):
            return NOT_STATED
        says = fill_sub_prompt("says", passage=best, question=question, value=value)
        given = yield from self._run.say(says, best, YES_OR_NO, aside=True)
        return value if given == "yes" else NOT_STATED

    def _follow_name(self, question: str, passages: Sequence[str], kind: str) -> Part[str]:
        """Look up a name in the passage that has most words of the question, if the model says that this is needed."""
        best = _find_nearest_passage(passages, question)
        title, text = _split_title(best)
        names = [one for one in find_names(text) if one not in question and one not in title]
        if not names:
            return NOT_STATED
        shape = build_choice_constraint("name", (_NONE, *names))
        name = yield from self._run.say(
            fill_sub_prompt("follow", passage=best, question=question), best, shape, aside=True
        )
        found = (yield from self._look_up(name, f"What is {name}?")) if name in names else []
        if not found:
            return NOT_STATED
        value, _ = yield from self._read_passage(question, found[0], kind, aside=True, listed=False, about=(name,))
        return value

    def _read_passages(self, question: str, passages: Sequence[str], kind: str, *, listed: bool) -> Part[str]:
        """Read on until a passage has what is surely the answer, or one with the word that says what is asked for."""
        best = NOT_STATED
        for number, passage in enumerate(passages):
            if not has_numbers(passage, question):
                continue
            value, sure = yield from self._read_passage(question, passage, kind, aside=number > 0, listed=listed)
            if value != NOT_STATED and (sure or is_of_kind(value, passage, question)):
                return value
            best = value if best == NOT_STATED else best
        return best

    def _read_passage(
        self, question: str, passage: str, kind: str, *, aside: bool, listed: bool, about: Sequence[str] = ()
    ) -> Part[tuple[str, bool]]:
        """Read a passage; return what it says and whether that is surely asked for, or that it is not stated. `about`:
        names that the question does not have."""
        text, longest = _split_title(passage)[1], LONGEST_LIST if listed else LONGEST
        tried: list[str] = []
        while len(tried) < _VALUES:
            shape = build_copied_constraint(text, question, kind, longest, but=(*self._given, *tried))
            if shape is None:
                break
            reading = fill_sub_prompt("truth" if kind == "truth" else "read", passage=passage, question=question)
            said = yield from self._run.say(reading, passage, shape, aside=aside or bool(tried))
            value = said.partition("\n")[0].strip() or NOT_STATED
            if value == NOT_STATED or value in self._given or any(name in value for name in find_asked_names(question)):
                break
            asked = (
                None
                if listed or kind == "truth"
                else (yield from self._is_asked_for(value, passage, question, kind, about))
            )
            if asked is not False:
                return value, bool(asked)
            if kind == "words":
                break  # any run of words may be copied, so that it would be copied again
            tried.append(value)
        return NOT_STATED, False

    def _is_asked_for(
        self, value: str, passage: str, question: str, kind: str, about: Sequence[str]
    ) -> Part[bool | None]:
        """Let the model say what the value is before it sees the question: it takes anything for what is asked for.

        `None` for words that were copied, of which nothing tells.
        """
        copied = kind in ("words", "name")
        title, text = _split_title(passage)
        sentences = [
            one if len(one.split()) >= _WORDS else passage  # `[Tom Rudd's age] 47 years`
            for one in find_sentences_with(value, text, kind)
        ]
        names = [*find_asked_names(question), *about]
        if title and names and not (copied and (value in title or is_intricate(question))):
            # else it is of what the passage is about
            sentences = [one for one in sentences if any(name in f"{title} {one}" for name in names)]
        if not sentences:
            return False
        if copied and not has_known_relation(question):
            return None
        alone = [one.replace(value, "") for one in sentences if len(find_values(one, kind)) == 1]
        known = [is_relation_asked(one, question) for one in alone]
        if True in known:
            return True
        if known == [False] * len(sentences):
            return False
        sentence = sentences[0]
        prompt = fill_sub_prompt("relation", sentence=sentence, value=value)
        relation = yield from self._run.say(prompt, sentence, _RELATION, aside=True)
        told = is_relation_asked(relation, question)
        if told is not None or copied:
            return told
        asked = f"{prompt} {relation}\n{fill_sub_prompt('asked', question=question)}"
        return (yield from self._run.say(asked, question, YES_OR_NO, aside=True)) == "yes"


def _select_passages(observation: str, question: str) -> list[str]:
    """Return the passages to read: those whose title the question names first, and none that has no name or number of
    it."""
    passages = [row.strip()[:_PASSAGE_CHARS] for row in observation.split("\n") if row.strip()][:_PASSAGES]
    names = find_asked_names(question)
    wanted = [*names, *NUMBER.findall(question)]
    if wanted:
        passages = [one for one in passages if any(part in one for part in wanted)]
    return sorted(passages, key=lambda one: _split_title(one)[0] not in names)


def _find_nearest_passage(passages: Sequence[str], question: str) -> str:
    """Return the passage that has most words of the question."""
    return max(passages, key=lambda one: count_shared_words(one, question), default="")


def _split_title(passage: str) -> tuple[str, str]:
    """Return a passage's title, if it has one in brackets, and its text."""
    if passage.startswith("[") and "] " in passage:
        title, _, text = passage[1:].partition("] ")
        return title, text
    return "", passage
