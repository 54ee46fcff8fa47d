"""How a run's log is folded into what the studio shows, without a browser."""

from __future__ import annotations

from typing import Any

from fakes.studio_corpus import hostile_log
from fakes.studio_modules import evaluated
from retinue.core.events import (
    Asked,
    Called,
    Event,
    Finished,
    Judged,
    Observed,
    Paused,
    Replied,
    Reported,
    Resumed,
    Retried,
    Said,
    Started,
    Stopped,
)
from retinue.core.values import AgentAction, Decision, Message, Observation, ProviderState, Reply, StopReason, Usage
from retinue.server.runs.views import event_object
from retinue.store.event_log import Entry

FOLD = "folds/run_log.js"
LOOK = AgentAction("look", {"place": "Rome"}, id="call_1_0")
SYSTEM, USER = Message("system", "Be brief."), Message("user", "How is it?")


def shown(*log: Event, prompts: bool = True) -> list[dict[str, Any]]:
    """The log as the API shows it, an event each second."""
    return [event_object(Entry(at, 100.0 + at, one), hidden=False, prompts=prompts) for at, one in enumerate(log, 1)]


def folded(*log: Event, prompts: bool = True) -> Any:
    return evaluated(FOLD, "return m.foldRun(given)", shown(*log, prompts=prompts))


def begun(*log: Event) -> tuple[Event, ...]:
    return (Started("How is it?", "a", "tool_calling", "m", ("look",)), *log)


def test_requests_and_calls_are_spans_in_order() -> None:
    usage = Usage(100, 10, 60, cost=0.5)
    run = folded(
        *begun(
            Asked(1, 0, (SYSTEM, USER)),
            Replied(1, Reply("", usage, calls=(LOOK,), seconds=0.25)),
            Called(1, LOOK),
            Observed(1, Observation("call_1_0", "Rain.", seconds=1.0, usage=Usage(5, 5))),
            Asked(2, 0, (Message("tool", "Rain."),)),
            Replied(2, Reply("It rains.", usage)),
            Finished("It rains.", {}),
        )
    )
    assert [(one["kind"], one["state"]) for one in run["spans"]] == [
        ("model", "done"),
        ("tool", "done"),
        ("model", "done"),
    ]
    assert (run["spans"][0]["start"], run["spans"][0]["end"]) == (102.75, 103)
    assert run["usage"] == {"prompt_tokens": 205, "completion_tokens": 25, "cached_tokens": 120, "cost": 1.0}
    assert (run["requests"], run["end"]["answer"], run["begin"], run["finish"]) == (2, "It rains.", 101, 108)


def test_what_is_under_way_is_live() -> None:
    run = folded(*begun(Asked(1, 0, (USER,)), Said("It ra", "It ra"), Said("ins", "ins")))
    assert [(one["state"], one["said"], one["end"]) for one in run["spans"]] == [("live", "It rains", None)]
    assert run["end"] is None


def test_text_of_a_request_that_was_tried_again_is_void() -> None:
    run = folded(*begun(Asked(1, 0, (USER,)), Said("It sno"), Retried(1, "cut", 2.0), Said("It rains")))
    assert (run["spans"][0]["said"], [one["problem"] for one in run["spans"][0]["retries"]]) == ("It rains", ["cut"])


def test_a_call_that_never_began_has_what_the_reply_said_of_it() -> None:
    asked = (Asked(1, 0, (USER,)), Replied(1, Reply("", calls=(LOOK, AgentAction("fly", {"to": "Rome"})))))
    run = folded(*begun(*asked, Observed(1, Observation("call_1_1", "no tool 'fly'", "unknown_tool"))))
    call = run["spans"][1]
    assert (call["action"]["tool"], call["state"], call["call"]) == ("fly", "failed", "call_1_1")


def test_a_call_after_a_crash_is_one_span() -> None:
    run = folded(*begun(Called(1, LOOK), Called(1, LOOK), Observed(1, Observation("call_1_0", "Rain."))))
    assert [one["kind"] for one in run["spans"]] == ["tool"]


def test_a_person_is_a_span_and_a_pause_is_no_end() -> None:
    waits = begun(Paused(1, LOOK, "needs approval"), Stopped(StopReason.AWAITING_HUMAN))
    run = folded(*waits)
    assert ([one["state"] for one in run["spans"]], run["end"]) == (["live"], None)
    run = folded(*waits, Resumed(1, "call_1_0", Decision("reject", message="No.")))
    assert (run["spans"][0]["state"], run["spans"][0]["decision"]["kind"]) == ("done", "reject")


def test_an_end_ends_what_was_under_way() -> None:
    run = folded(*begun(Called(1, LOOK), Stopped(StopReason.CANCELLED, best="So far.")))
    assert (run["spans"][0]["state"], run["end"]["reason"], run["end"]["answer"]) == ("failed", "CANCELLED", "So far.")


def test_repeated_calls_are_counted() -> None:
    run = folded(*begun(Called(1, LOOK), Observed(1, Observation("call_1_0", "Rain.", "repeated"))))
    assert (run["repeated"], run["spans"][0]["state"]) == (1, "done")


def test_a_withheld_prompt_is_known_to_be_hidden() -> None:
    run = folded(*begun(Asked(1, 0, (SYSTEM,))), prompts=False)
    assert (run["spans"][0]["hidden"], run["spans"][0]["messages"]) == (True, [])
    hidden = [event_object(Entry(1, 1.0, Asked(1, 0, (USER,))), hidden=True, prompts=True)]
    assert evaluated(FOLD, "return m.foldRun(given).hidden", hidden) is True


def test_events_that_are_not_known_are_left_out() -> None:
    strange = [{"id": "1", "type": "__proto__", "data": {}, "created_at": 1}, {"id": "2", "type": "new", "data": {}}]
    assert evaluated(FOLD, "return m.foldRun(given).spans", strange) == []
    assert evaluated(FOLD, "return m.foldRun([]).begin") is None


def test_any_text_is_folded() -> None:
    assert len(folded(*hostile_log("</script>"))["spans"]) == 7


def test_a_prompt_grows_and_what_is_new_is_known() -> None:
    log = begun(
        Asked(1, 0, (SYSTEM, USER)),
        Replied(1, Reply("a")),
        Asked(2, 0, (Message("assistant", "a"),)),
        Replied(2, Reply("b")),
        Asked(3, 1, (Message("user", "Anew."),)),
    )
    told = evaluated(
        FOLD,
        """const {spans} = m.foldRun(given);
        return spans.map((one) => {
            const {messages, fresh} = m.promptOf(spans, one);
            return [messages.map((each) => each.content), fresh, spans.indexOf(m.formerPrompt(spans, one))];
        });""",
        shown(*log),
    )
    assert told == [[["Be brief.", "How is it?"], 0, -1], [["Be brief.", "How is it?", "a"], 2, -1], [["Anew."], 0, 1]]


def test_places_and_ticks_stay_on_the_time_line() -> None:
    body = """return [
        m.place({start: 5, end: 7.5}, 0, 10), m.place({start: 5, end: null}, 0, 10),
        m.place({start: -1, end: 99}, 0, 10),
        m.place({start: 0, end: 0}, 0, 0), m.ticks(10, 5), m.ticks(0), m.ticks(NaN), m.ticks(1000, 6).length <= 7];"""
    assert evaluated(FOLD, body) == [
        {"left": 0.5, "width": 0.25},
        {"left": 0.5, "width": 0.5},
        {"left": 0, "width": 1},
        {"left": 0, "width": 0},
        [0, 2, 4, 6, 8, 10],
        [0],
        [0],
        True,
    ]


def test_members_are_rows_below_their_call() -> None:
    calls = begun(Asked(1, 0, (USER,)), Called(1, LOOK), Asked(2, 0, ()))
    body = """const model = {kind: "model", key: "m1", step: 1};
        const spans = [model, {kind: "tool", key: "t2", step: 1, call: "c"}, {kind: "model", key: "m3", step: 2}];
        const logs = new Map([["run_b", {spans: [model]}]]);
        const members = {byCall: new Map([["run_a/c", {id: "run_b"}]]), logs};
        const keys = (rows) => rows.map((one) => [one.key, one.depth]);
        return [keys(m.timelineRows("run_a", spans, members, new Set())),
                keys(m.timelineRows("run_a", spans, members, new Set(["t2"]))),
                keys(m.treeRows("run_a", spans, members, new Set(["t2"]))),
                keys(m.treeRows("run_a", spans, members, new Set(["sm1"])))];"""
    closed, opened, tree, folded_tree = evaluated("folds/span_rows.js", body, shown(*calls))
    assert closed == [["m1", 0], ["t2", 0], ["m3", 0]]
    assert opened == [["m1", 0], ["t2", 0], ["t2/m1", 1], ["m3", 0]]
    assert tree == [["sm1", 0], ["m1", 1], ["t2", 1], ["t2/sm1", 2], ["t2/m1", 3], ["sm3", 0], ["m3", 1]]
    assert folded_tree == [["sm1", 0], ["sm3", 0], ["m3", 1]]


def test_figures_read_well() -> None:
    body = """return [0.0004, 0.085, 0.99999, 2.13, 59.99, 192, 3900, null].map(m.duration)
        .concat([999, 12345, 999999, 1234567, null].map(m.short), [0, 0.00001, 0.0123, 12, null].map(m.cost))"""
    assert evaluated("format.js", body) == [
        "0 ms", "85 ms", "1.0 s", "2.1 s", "1 m 00 s", "3 m 12 s", "1 h 05 m", "–",
        "999", "12.3k", "1000k", "1.2M", "–",
        "0.0000", "< 0.0001", "0.0123", "12.00", "–",
    ]  # fmt: skip


def test_thoughts_are_apart_from_the_reply_and_of_what_is_kept_the_size_is_shown() -> None:
    kept = ProviderState("chat example.org", "x" * 5_000)
    asked, pieces = Asked(1, 0, (USER,)), (Said("", reasoning="Let me "), Said("", reasoning="look."))
    (live,) = folded(*begun(asked, *pieces))["spans"]
    assert (live["thought"], live["said"]) == ("Let me look.", "")
    reply = Reply("", calls=(LOOK,), reasoning="Let me look.", state=kept, unsent="chat other.org")
    (done,) = folded(*begun(asked, *pieces, Replied(1, reply)))["spans"]
    assert (done["thought"], done["reply"]["text"]) == ("Let me look.", "")
    assert done["reply"]["state"] == {"origin": "chat example.org", "characters": 5_000}
    assert done["reply"]["unsent"] == "chat other.org"


def test_verdicts_stand_where_they_were_given_and_count_what_they_used() -> None:
    judged = Judged(1, "before_tool", "Reviewer", "block", "too dear", LOOK.id, usage=Usage(10, 2, requests=1))
    log = folded(*begun(Asked(1, 0, (USER,)), Replied(1, Reply("", calls=(LOOK,))), judged))
    (span,) = [one for one in log["spans"] if one["kind"] == "hook"]
    assert (span["hook"], span["verdict"], span["state"], span["step"]) == ("Reviewer", "block", "failed", 1)
    assert log["usage"]["prompt_tokens"] == 10
    said = evaluated(FOLD, "return [m.title(given), m.summary(given)]", span)
    assert said == ["Reviewer", "the call: too dear"]


def test_a_call_under_way_says_how_far_it_is() -> None:
    reports = [Reported(1, "reading", LOOK.id, done, 5) for done in (1, 2)]
    log = folded(*begun(Asked(1, 0, (USER,)), Called(1, LOOK), *reports))
    (span,) = [one for one in log["spans"] if one["kind"] == "tool"]
    assert len(span["progress"]) == 2
    assert evaluated(FOLD, "return m.summary(given)", span) == "reading (2 of 5)"


def test_what_was_always_allowed_is_told_apart_from_what_a_person_decided() -> None:
    words = [Decision("approve", policy="policy_1"), Decision("approve", always="call"), Decision("approve")]
    given = [{"kind": one.kind, "always": one.always, "policy": one.policy} for one in words]
    told = evaluated(FOLD, "return given.map(m.decided)", given)
    assert told == ["always approved: nobody was asked", "approve, and always from now on", "approve"]


def test_what_a_person_is_asked_about_is_withheld_from_who_sees_no_prompts() -> None:
    about = Asked(1, 0, (SYSTEM, USER))
    judged = Judged(1, "before_model", "careful", "ask", "look at it", about=about)
    assert SYSTEM.content not in str(shown(judged, prompts=False))
    assert SYSTEM.content in str(shown(judged))
