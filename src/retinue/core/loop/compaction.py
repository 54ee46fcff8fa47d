"""Which messages of a prompt give way when it becomes too long for the model's window, in tiers: old results are
cleared to a line, turns are told in a summary, and the oldest turns are dropped.

Each tier makes room for many requests at once, so that the prefix which a provider caches changes rarely. Never cut are
the system's messages, the question, and a summary; never torn are a reply, what its vendor wants back with it, and the
results of its calls."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ...errors import UsageError
from ..events import EARLIER
from ..protocols import Model, Summary, SummaryTask
from ..tools.long_results import HEAD, READ_RESULT, find_name
from ..values import UNUSED, Message, Reply, Usage
from .sent_prompts import SentPrompt, measure_message

REPLY = 512  # tokens reserved for a reply that has no limit of its own
_CHARACTERS = 3.0  # of a token, before an engine has counted
_GOAL = 0.5  # of a tier's share: how much is left after it
_WORTH = 0.1  # of a tier's share: what it has to bring
_LINE = 240  # characters of a result that is not worth clearing
_WORDS = 1_500  # characters of what a summary's model is told
_CUT = " … (shortened) … "


@dataclass(frozen=True, slots=True)
class Context:
    """How an agent's prompts stay within its model's window. Each tier has a share of the window, or a number of tokens
    above 1; `None` turns it off. The conversation before a run may take half of the window, so of it the shares count
    half.

    Args:
        results: A result that is longer than this is kept beside the log. The model is shown its beginning and reads on
            with `read_result`.
        clear: In a prompt that is longer, old results are cleared to a line each.
        summary: In a prompt that is longer, a model summarizes what was said before the last turns.
        drop: From a prompt that is longer, the oldest turns are dropped.
        model: The model that summarizes; by default the agent's.

    Raises `UsageError` for what is no number above 0.
    """

    results: float | None = 0.25
    clear: float | None = 0.75
    summary: float | None = 0.85
    drop: float | None = 0.95
    model: Model | None = None

    def __post_init__(self) -> None:
        for name in ("results", "clear", "summary", "drop"):
            share = getattr(self, name)
            if share is not None and not (isinstance(share, int | float) and share > 0):
                raise UsageError(f"context: {name}: want a share (0.5), tokens or None, not {share!r:.40}")

    def limit_results(self, window: int | None) -> int | None:
        """Return how many characters of a result a model with this window is shown at once; `None` for no limit."""
        if self.results is None or (window is None and self.results <= 1):
            return None
        tokens = self.results if self.results > 1 else self.results * (window or 0)
        return max(HEAD, int(tokens * _CHARACTERS))


def read_context(given: Context | bool) -> Context:
    """Return the context that an agent is given; `False` is one in which every tier is off."""
    return given if isinstance(given, Context) else Context() if given else Context(None, None, None, None)


class Window:
    """The model's window of so many `tokens` (`None`: unknown), and how many characters one of them has."""

    __slots__ = ("_per_token", "tokens")

    def __init__(self, tokens: int | None) -> None:
        self.tokens = tokens
        self._per_token = _CHARACTERS  # calibrated by the engine's counts

    def room(self, max_tokens: int | None) -> int | None:
        """Return the characters that a prompt may have, beside a reply of `max_tokens`."""
        if self.tokens is None:
            return None
        return int((self.tokens - min(max_tokens or REPLY, self.tokens // 2)) * self._per_token)

    def limit(self, share: float | None, room: int | None) -> int | None:
        """Return the characters of a tier's share of the room, or of its tokens; `None` if nothing limits it."""
        if share is None or (room is None and share <= 1):
            return None
        return int(share * (room or 0) if share <= 1 else min(share * self._per_token, room or math.inf))

    def count(self, characters: int) -> int:
        """Return about how many tokens a text has."""
        return math.ceil(characters / self._per_token)

    def estimate(self, sent: int, said: int) -> Usage:
        """Return about what a request used whose engine does not say so: characters sent, and of the reply."""
        return Usage(self.count(sent), self.count(said), requests=1)

    def learn(self, sent: int, reply: Reply) -> None:
        """Calibrate with the number of tokens that the engine counted in so many characters."""
        if self.tokens is not None and reply.usage.input_tokens > 0:
            self._per_token = max(1.0, sent / reply.usage.input_tokens)


def list_units(sent: SentPrompt) -> list[range]:
    """Return the places of what stays together: a message, and what answers its calls. In a text format, what the model
    is told answers its reply."""
    begins = [
        at
        for at, one in enumerate(sent.messages)
        if one.role != "tool" and not (one.role == "user" and at >= sent.opening)
    ]
    return [range(begin, end) for begin, end in zip(begins, [*begins[1:], len(sent.messages)], strict=True)]


def find_question(sent: SentPrompt) -> int:
    """Return the place of the user's last words: of the question, of the text that has it, or of the last one before
    it."""
    users = (at for at in reversed(range(min(sent.opening, len(sent.messages)))) if sent.messages[at].role == "user")
    return next(users, 0)


def _find_fixed(sent: SentPrompt, keeps: Collection[str]) -> set[int]:
    """Return the places that no tier touches: the system's, the question, and the last results of tools whose last one
    always counts (`keeps`)."""
    fixed = {at for at, one in enumerate(sent.messages) if one.role == "system"}
    last: dict[str, int] = {}
    for place, several in sorted(sent.results.items()):
        last |= {one.tool: place for one in several if one.tool in keeps and one.good}
    return fixed | set(last.values()) | {find_question(sent)}


# ── old results ──────────────────────────────────────────────────────────────────────────────────


def choose_cleared(sent: SentPrompt, limit: int, keeps: Collection[str], *, reads_on: bool) -> Mapping[int, str]:
    """Return lines in the place of the oldest results, as many as it takes, if they bring enough."""
    fixed, excess = _find_fixed(sent, keeps), sent.size - int(limit * _GOAL)
    last = max((at for at, one in enumerate(sent.messages) if one.role == "assistant"), default=len(sent.messages))
    found: dict[int, str] = {}
    gained = 0
    for at in range(last):
        message = sent.show(at)
        if gained >= excess or message is None or at in fixed or sent.measure(at) <= _LINE:
            continue
        if at in sent.shown or not (message.role == "tool" or at in sent.results):
            continue
        line = _describe_cleared(sent, at, message, reads_on=reads_on)
        found[at] = line
        gained += measure_message(message) - len(line)
    return found if gained >= limit * _WORTH else {}


def _describe_cleared(sent: SentPrompt, at: int, message: Message, *, reads_on: bool) -> str:
    """Return the line in the place of a result, with the markers that a text format has around it. The call with its
    input is in the message before."""
    known, name = sent.results.get(at, ()), find_name(message.content)
    told = [(one.tool, one.size, name or one.call) for one in known] or [(message.tool, len(message.content), name)]
    lines = []
    for tool, size, id_ in told:
        hint = f'; {READ_RESULT.name} {{"id": "{id_}"}}' if reads_on and id_ else ""
        lines.append(f"(cleared: {tool or 'a tool'}, {size:,} characters{hint})")
    if message.role == "tool":
        return "\n".join(lines)
    begin, _, rest = message.content.partition(" ")
    end = rest.rpartition("\n")[2]
    return f"{begin if begin.endswith(':') else ''} {' '.join(lines)}\n{end if len(end) <= 40 else ''}".lstrip()


# ── a summary ────────────────────────────────────────────────────────────────────────────────────


def choose_summarized(sent: SentPrompt, limit: int, keeps: Collection[str]) -> Sequence[int]:
    """Return the places of what a summary of at most a quarter of `limit` will stand for. The last turns stay, and so
    do the user's last words before them, a quarter and an eighth of `limit` of them. Nothing is summarized that hooks
    may not have seen."""
    fixed, seen = _find_fixed(sent, keeps), len(sent.messages) - (0 if sent.number == EARLIER else sent.new)
    units = [one for one in list_units(sent) if fixed.isdisjoint(one)]
    left, recent = limit / 4, units[-1:]
    for unit in reversed(units):
        left -= sum(map(sent.measure, unit))
        if left < 0:
            break
        recent = [unit]
    cut = recent[0].start if recent else 0
    places = [at for unit in units if unit.start < cut for at in unit if at < seen]
    words = limit / 8
    for at in reversed(places):
        message = sent.messages[at]
        if message.role == "user" and at < sent.opening and at not in sent.shown:
            words -= measure_message(message)
            if words < 0:
                break
            places.remove(at)
    return places if sum(map(sent.measure, places)) >= limit * _WORTH else ()


async def summarize_in_pieces(
    summarize: Callable[[SummaryTask], Awaitable[Summary]], task: SummaryTask, room: int
) -> Summary:
    """Return a summary of messages, made in several requests of at most `room` characters if they are too long for
    one: each tells the former one again."""
    most = max(_WORDS, int(0.8 * room) - _WORDS - int(task.tokens * _CHARACTERS))
    summary, used = Summary(pinned=task.pinned), UNUSED
    for piece in _split_messages(task.messages, most):
        before = (Message("user", summary.text),) if summary.text else ()
        summary = await summarize(replace(task, messages=(*before, *piece), pinned=summary.pinned))
        used += summary.usage
        if not summary.text:
            break
    return replace(summary, usage=used)


def _split_messages(messages: Sequence[Message], most: int) -> Iterator[list[Message]]:
    """Yield the messages in pieces of at most `most` characters; the middle of one that is longer is cut out."""
    piece: list[Message] = []
    size = 0
    for one in messages:
        if len(one.content) > most:
            one = replace(one, content=one.content[: most - most // 3] + _CUT + one.content[-(most // 3) :])
        if piece and size + measure_message(one) > most:
            yield piece
            piece, size = [], 0
        piece.append(one)
        size += measure_message(one)
    if piece:
        yield piece


# ── what is left out ─────────────────────────────────────────────────────────────────────────────


def choose_dropped(sent: SentPrompt, limit: int, keeps: Collection[str]) -> Mapping[int, str]:
    """Return what stands in the place of the oldest turns, nothing, as many as it takes. The last earlier one is only
    dropped if it does not fit; if that is not enough, what is left is cut."""
    fixed, question = _find_fixed(sent, keeps), find_question(sent)
    turns = [one for one in _list_turns(sent)[:-1] if fixed.isdisjoint(one) and sent.summary not in one]
    earlier = [one for one in turns if one[0] < question]
    excess, slack = sent.size - limit, limit - int(limit * _GOAL)
    found: dict[int, str] = {}

    def drop(turns: Sequence[Sequence[int]], slack: int) -> None:
        nonlocal excess
        for turn in turns:
            if excess + slack > 0:
                excess -= sum(len(found[at]) if at in found else sent.measure(at) for at in turn)
                found.update(dict.fromkeys((at for at in turn if sent.show(at) is not None), ""))

    drop(earlier[:-1], slack)
    for at, text in _cut_texts(sent, excess, fixed | found.keys()):
        excess -= sent.measure(at) - len(text)
        found[at] = text
    if excess > 0:
        drop([one for one in turns if one[0] > question], slack)
    drop(earlier[-1:], 0)
    return found


def _list_turns(sent: SentPrompt) -> list[list[int]]:
    """Return the places of the turns before the question, each with all that answered it, and of the steps after it."""
    turns: list[list[int]] = []
    question = find_question(sent)
    for unit in list_units(sent):
        role = sent.messages[unit.start].role
        if turns and unit.start < question and role == "assistant" and sent.messages[turns[-1][0]].role == "user":
            turns[-1] += unit
        else:
            turns.append([*unit])
    return turns


def _cut_texts(sent: SentPrompt, excess: int, fixed: Collection[int]) -> Iterator[tuple[int, str]]:
    """Yield the results that are left, and the earlier replies, without their middles, as far as needed."""
    for at in range(len(sent.messages)):
        message = sent.show(at)
        if message is None or message.state or excess <= 0 or at in fixed:
            continue
        if message.role == "tool" or at in sent.results or (message.role == "assistant" and at < sent.opening):
            keep = max(_LINE, len(message.content) - excess - len(_CUT))
            if len(message.content) > keep + len(_CUT):
                text = message.content[: keep - keep // 3] + _CUT + message.content[-(keep // 3) :]
                excess -= len(message.content) - len(text)
                yield at, text
