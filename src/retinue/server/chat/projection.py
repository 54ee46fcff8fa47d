"""Chat completion objects and chunks of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...core.events import Event, Judged, Observed, Replied, Said, Stopped, request_usage
from ...core.values import AgentAction, StopReason, Usage
from ...runs import Followed
from ...runs.status import pending_calls
from ...runs.thread_messages import MessageDelta, Speech, Thoughts
from ...store.event_log import Entry
from ...store.run_row import RunRow
from ..agents.overrides import HUMAN, client_names
from ..http.api_errors import ApiError, run_failed_error
from ..http.objects import Object, call_id, question_for_a_person, tool_call, usage_object
from ..http.sse import DONE, frame
from ..run_session import FAILED, Projection


def completion(run: RunRow, log: Sequence[Entry], *, reasoning: bool = False) -> Object:
    """Return the completion of a run. Raises `ApiError` if the run failed."""
    if run.status in FAILED:
        raise run_failed_error(run)
    calls = _calls(run)
    speech = Speech()
    heard = [entry for entry in log if _refusal(entry) is None]
    text = "\n\n".join(said.text for entry in heard for said in speech.hear(entry) if said.ended)
    refusal = next(filter(None, map(_refusal, log)), None)
    message: Object = {
        "role": "assistant",
        "content": text if text or not (calls or refusal) else None,
        "refusal": refusal,
        "annotations": [],
    }
    if calls:
        message["tool_calls"] = calls
    if reasoning:
        message["reasoning_content"] = "\n".join(_thoughts(log, text)) or None
    reasoned = sum(map(_reasoning_tokens, log))
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(run)}
    return {**_head(run, "chat.completion"), "choices": [choice], "usage": usage(run, reasoned)}


class Entries(Projection):
    """Collects a run's log entries until it rests."""

    def __init__(self, run: RunRow) -> None:
        super().__init__(run)
        self.since = run.told
        self.log: list[Entry] = []

    def events(self, item: Followed) -> Iterable[Object]:
        """Collect an entry."""
        if isinstance(item, Entry):
            self.log.append(item)
        return super().events(item)


class Chunks(Projection):
    """The event stream of a completion."""

    tail = DONE

    def __init__(self, run: RunRow, *, with_usage: bool, reasoning: bool) -> None:
        super().__init__(run)
        self.since = run.told
        self._with_usage = with_usage
        self._reasoning = reasoning
        self._thoughts = Thoughts()
        self._thought = False  # whether reasoning was told
        self._reasoned = 0  # tokens of reasoning
        self._speech = Speech()
        self._told: MessageDelta | None = None  # the last one
        self.head = frame(self.chunk({"role": "assistant", "content": ""}))

    def events(self, item: Followed) -> Iterable[Object]:
        """Return the chunks of a log entry, or of a row at which the run rests. Raises `ApiError` if it failed."""
        if isinstance(item, Entry):
            return self._entry(item)
        super().events(item)
        return self.end(item) if item.rests else ()

    def error_frame(self, error: Exception) -> str:
        """Return the last frames of a run that failed."""
        if not isinstance(error, ApiError):
            raise error
        return frame(error.body) + DONE

    def _entry(self, entry: Entry) -> Iterator[Object]:
        self._reasoned += _reasoning_tokens(entry)
        if (refusal := _refusal(entry)) is not None:
            yield self.chunk({"refusal": refusal})
            return
        if self._reasoning:
            yield from map(self.chunk, self._think(entry.event))
        for said in self._speech.hear(entry):
            if said.more:
                between = "\n\n" if said.number and not self._speaks else ""
                yield self.chunk({"content": between + said.more})
            self._told = said

    def end(self, run: RunRow) -> Iterator[Object]:
        """Yield the chunks with which the stream ends."""
        if run.status in FAILED or run.suspended:
            raise run_failed_error(run)
        for index, call in enumerate(_calls(run)):
            begun = {**call, "index": index, "function": {**call["function"], "arguments": ""}}
            yield self.chunk({"tool_calls": [begun]})
            arguments = {"arguments": call["function"]["arguments"]}
            yield self.chunk({"tool_calls": [{"index": index, "function": arguments}]})
        yield self.chunk({}, _finish(run))
        if self._with_usage:
            used = usage(run, self._reasoned)
            yield {**_head(self.run, "chat.completion.chunk"), "choices": [], "usage": used}

    def _think(self, event: Event) -> Iterator[Object]:
        """Yield the deltas of the model's reasoning, and of its text besides the answer."""
        begins = not self._thoughts.told
        if more := self._thoughts.hear(event):
            yield {"reasoning_content": f"\n{more}" if begins and self._thought else more}
            self._thought = True
        elif isinstance(event, Said) and event.text and not event.answer and not self._speaks:
            yield {"reasoning_content": event.text}

    @property
    def _speaks(self) -> bool:
        """Whether a message is open."""
        return self._told is not None and not self._told.ended

    def chunk(self, delta: Object, finish: str | None = None) -> Object:
        """Return a chunk."""
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        chunk = {**_head(self.run, "chat.completion.chunk"), "choices": [choice]}
        return {**chunk, "usage": None} if self._with_usage else chunk


class TextChunks(Chunks):
    """The event stream of a prompt's completion."""

    def chunk(self, delta: Object, finish: str | None = None) -> Object:
        """Return a chunk."""
        return text_completion(super().chunk(delta, finish), delta.get("content"), finish)

    def end(self, run: RunRow) -> Iterator[Object]:
        """Yield the chunks with which the stream ends."""
        yield from map(_as_text, super().end(run))  # with the usage


def text_completion(chat: Object, text: str | None, finish: str | None) -> Object:
    """Return a completion of a chat, or a chunk of one, as one of a prompt. Raises `ApiError` if the run waits."""
    if finish == "tool_calls":
        message = "A person must approve what this model is about to do; completions have no place for this. Use chat."
        raise ApiError(400, message, code="awaiting_human", headers={"x-should-retry": "false"})
    choice = {"text": text or "", "index": 0, "logprobs": None, "finish_reason": finish}
    return {**_as_text(chat), "choices": [choice]}


def _as_text(chat: Object) -> Object:
    return {**chat, "id": chat["id"].removeprefix("chat"), "object": "text_completion"}


def usage(run: RunRow, reasoned: int) -> Object:
    """Return the run's token usage since its last completion; `reasoned` are the tokens of reasoning in it."""
    now, told = run.usage or Usage(), run.submissions[-1].usage if run.submissions and run.usage else Usage()
    used = Usage(
        now.input_tokens - told.input_tokens,
        now.output_tokens - told.output_tokens,
        now.cached_tokens - told.cached_tokens,
    )
    return {
        **usage_object(used),
        "prompt_tokens_details": {"cached_tokens": used.cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": reasoned, "audio_tokens": 0},
    }


def completion_id(run: RunRow) -> str:
    """Return the completion's id. A run that resumed after tool outputs gives a further completion."""
    times = len(run.submissions)
    return f"chatcmpl-{run.id.partition('_')[2]}{f'x{times}' if times else ''}"


def _refusal(entry: Entry) -> str | None:
    """Return the model's refusal, if it gave no answer in the requested format."""
    event = entry.event
    refused = isinstance(event, Stopped) and event.reason is StopReason.INVALID_ANSWER
    return event.answer if refused and isinstance(event, Stopped) else None


def _head(run: RunRow, kind: str) -> Object:
    named = {"id": completion_id(run), "object": kind, "created": run.created_at, "model": run.agent}
    return {**named, "system_fingerprint": None}


def _finish(run: RunRow) -> str:
    if run.status == "incomplete":
        return "content_filter" if run.incomplete == "content_filter" else "length"
    return "tool_calls" if run.status == "requires_action" else "stop"


def _calls(run: RunRow) -> list[Object]:
    """Return the pending calls: client functions as they are, other calls as questions to a person."""
    if run.status != "requires_action":
        return []
    own = client_names(run.request)
    return [tool_call(run, *one) if one.action.tool in own else _for_a_person(run, *one) for one in pending_calls(run)]


def _for_a_person(run: RunRow, action: AgentAction, arguments: Mapping[str, Any], asked: int) -> Object:
    function = {"name": HUMAN, "arguments": question_for_a_person(action, arguments)}
    return {"id": call_id(run.id, action.id, asked), "type": "function", "function": function}


def _thoughts(log: Sequence[Entry], answer: str) -> Iterator[str]:
    """Yield the model's reasoning, and its text besides the answer."""
    found: list[str] = []
    for entry in log:
        if isinstance(entry.event, Replied):
            reply = entry.event.reply
            found += [reply.reasoning, "" if reply.calls else reply.text.strip().removesuffix(answer).strip()]
        elif isinstance(entry.event, Judged) and entry.event.point == "before_answer" and found:
            found.pop()  # the text has the answer in it that a hook did not let pass
    yield from filter(None, found)


def _reasoning_tokens(entry: Entry) -> int:
    used = entry.event.observation.usage if isinstance(entry.event, Observed) else request_usage(entry.event)
    return 0 if used is None else used.reasoning_tokens
