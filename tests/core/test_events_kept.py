"""Events as a database keeps them: whatever a model or a tool said comes back as it was."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, strategies as st

from retinue.core.events import KINDS, Asked, Called, Event, Observed, Replied
from retinue.core.hooks import POINTS
from retinue.core.serialization import dump, load
from retinue.core.values import AgentAction, Capabilities, Decision, Message, Observation, Reply, StopReason, Usage
from retinue.errors import DataError

WHOLE = st.characters(exclude_categories=["Cs"])
TEXT = st.text(WHOLE)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
st.register_type_strategy(float, st.floats(0, 1e9))


def actions(text: st.SearchStrategy[str]) -> st.SearchStrategy[AgentAction]:
    return st.builds(AgentAction, text, text | st.dictionaries(TEXT, JSON, max_size=3), text, text)


def events(text: st.SearchStrategy[str]) -> st.SearchStrategy[Event]:
    calls = st.lists(actions(text), max_size=2).map(tuple)
    messages = st.lists(st.builds(Message, st.sampled_from(["user", "tool"]), text, calls, text, text), max_size=2)
    replies = st.builds(Reply, text, calls=calls)
    seen = st.builds(Observation, text, text, data=JSON)
    used = st.builds(Usage, st.integers(0, 9), st.integers(0, 9))
    built = {
        "started": {
            **dict.fromkeys(("question", "agent", "strategy", "model"), text),
            **{"tools": st.just(("look",)), "abilities": st.just(Capabilities()), "history": messages.map(tuple)},
        },
        "asked": {"messages": messages.map(tuple), "problem": text},
        "compacted": {
            **{"step": st.integers(0, 9), "prompt": st.integers(-1, 9)},
            **{"tier": st.sampled_from(["clear", "summary", "drop"]), "places": st.just((1, 2)), "usage": used},
            **{"texts": st.tuples(text, text), "pinned": st.lists(text, max_size=2).map(tuple)},
        },
        "retried": {"step": st.integers(0, 9), "problem": text, "seconds": st.floats(0, 9), "usage": used},
        "replied": {"reply": replies},
        "called": {"action": actions(text)},
        "observed": {"observation": seen},
        "paused": {"action": actions(text), "problem": text},
        "resumed": {"decision": st.builds(Decision, st.sampled_from(["approve", "edit"]), text, text)},
        "judged": {
            **{
                "step": st.integers(0, 9),
                "point": st.sampled_from(POINTS),
                "hook": text,
                "verdict": st.sampled_from(["change", "block", "ask"]),
            },
            **{"reason": text, "call_id": text},
            "about": st.none()
            | st.builds(Called, st.just(1), actions(text))
            | st.builds(Replied, st.just(1), replies)
            | st.builds(Observed, st.just(1), seen)
            | st.builds(Asked, st.just(1), st.just(0), messages.map(tuple)),
        },
        "reported": {"step": st.integers(0, 9), "text": text, "call_id": text, "done": st.none() | st.floats(0, 9)},
        "finished": {"answer": text, "return_values": st.dictionaries(TEXT, JSON, max_size=3)},
        "said": {"text": text, "answer": text},
        "stopped": {"reason": st.sampled_from(StopReason), "detail": text, "answer": text, "best": text, "usage": used},
    }
    assert set(built) == set(KINDS)
    return st.one_of(*(st.builds(KINDS[kind], **values) for kind, values in built.items()))  # type: ignore[arg-type]


@given(events(TEXT))
def test_an_event_comes_back_as_it_was(event: Event) -> None:
    kind, payload = dump(event)
    assert load(kind, payload) == event
    payload.encode()


@given(events(st.text(st.sampled_from("a\ud800\udfff\n\0🙂"))))
def test_halves_of_surrogate_pairs_become_question_marks(event: Event) -> None:
    kind, payload = dump(event)
    payload.encode()
    assert repr(load(kind, payload)) == repr(event).replace("\\ud800", "?").replace("\\udfff", "?")


@given(st.sampled_from([*KINDS, "other"]), st.text() | JSON.map(str))
def test_what_is_no_event_is_refused(kind: str, payload: str) -> None:
    with suppress(DataError):
        assert type(load(kind, payload)).__name__.lower() == kind


@pytest.mark.parametrize("payload", ['{"step": 1}', '{"step": "x", "reply": {}}', "[]", "", "nan"])
def test_half_an_event_is_refused(payload: str) -> None:
    with pytest.raises(DataError, match="not an event of kind 'replied'"):
        load("replied", payload)
