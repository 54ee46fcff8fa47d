"""What the studio makes of compactions, the list of what is to do, files and commands, without a browser."""

from __future__ import annotations

from typing import Any

from fakes.long_work import CALLS, PLAN, SUMMARY, long_work
from fakes.studio_modules import evaluated
from retinue.core.events import Asked, Compacted, Event, Started
from retinue.core.values import Message
from retinue.server.runs.views import event_object
from retinue.store.event_log import Entry

FOLD, FILES = "folds/run_log.js", "folds/workspace_files.js"


def shown(*, prompts: bool = True) -> list[dict[str, Any]]:
    log = list(long_work())
    return [event_object(Entry(at, 100.0 + at, one), hidden=False, prompts=prompts) for at, one in enumerate(log, 1)]


def test_a_compaction_is_a_row_and_what_it_used_counts() -> None:
    body = """const log = m.foldRun(given);
        const compactions = log.spans.filter((one) => one.kind === "compaction");
        return [compactions.map((one) => [m.title(one), m.summary(one), one.state]),
                log.requests, log.usage.cost.toFixed(3)];"""
    rows, requests, cost = evaluated(FOLD, body, shown())
    assert rows == [
        ["Old results cleared", "2 messages, 18,204 → 9,120 tokens", "done"],
        ["Earlier turns summarized", "12 messages, 17,950 → 4,210 tokens", "done"],
    ]
    assert (requests, cost) == (len(CALLS) + 1, f"{len(CALLS) * 0.013 + 0.031:.3f}")


def test_a_prompt_is_shown_as_it_was_sent_and_as_it_was_written() -> None:
    body = """const {spans} = m.foldRun(given);
        return spans.filter((one) => one.kind !== "tool").map((one) => {
            const prompt = m.promptOf(spans, one);
            return [prompt.messages.length, prompt.sent.map((each) => [each.content, each.instead, each.fresh])];
        });"""
    # the requests of steps 1 to 4, cleared, 5 to 7, summarized, and the last two
    prompts = evaluated(FOLD, body, shown())
    whole, sent = prompts[3]
    assert whole == len(sent) == 8
    assert not any(instead for _, instead, _ in sent)
    whole, sent = prompts[5]
    assert whole == len(sent) == 10
    assert [text for text, instead, _ in sent if instead] == [
        "[write_todos: cleared, read_result shows it]",
        "[write_file: cleared, read_result shows it]",
    ]
    assert [fresh for *_, fresh in sent] == [False] * 8 + [True] * 2
    whole, sent = prompts[9]
    assert (whole, [text for text, *_ in sent][2:]) == (16, [SUMMARY, "", "2 passed"])
    whole, sent = prompts[8]  # the compaction's own: what was there before it
    assert (whole, len(sent)) == (14, 14)


def test_what_a_conversation_was_before_the_run_is_compacted_too() -> None:
    history = (Message("user", "Hi."), Message("assistant", "Hello."))
    log: tuple[Event, ...] = (
        Started("And now?", "a", "s", "m", (), history=history),
        Compacted(0, -1, "summary", (0, 1), ("", "They met.")),
        Asked(1, 0, (Message("user", "They met."), Message("user", "And now?"))),
    )
    events = [event_object(Entry(at, 1.0, one), hidden=False, prompts=True) for at, one in enumerate(log, 1)]
    body = """const {spans} = m.foldRun(given);
        const prompts = spans.map((one) => m.promptOf(spans, one));
        return [prompts[0].messages.map((one) => one.content), prompts[1].sent.map((one) => one.content)];"""
    assert evaluated(FOLD, body, events) == [["Hi.", "Hello."], ["They met.", "And now?"]]


def test_a_summary_is_withheld_with_the_prompts_it_is_made_of() -> None:
    events = shown(prompts=False)
    assert SUMMARY not in str(events)
    body = (
        "return m.foldRun(given).spans.filter((one) => one.kind === 'compaction').map((one) => [one.hidden, one.texts])"
    )
    assert evaluated(FOLD, body, events) == [[True, []], [True, []]]


def test_a_compaction_of_a_later_version_is_shown() -> None:
    odd = {"step": 1, "prompt": 0, "tier": "new", "before": 9, "after": 5}
    event = {"id": "1", "type": "compacted", "data": odd, "created_at": 1}
    body = "return m.foldRun(given).spans.map((one) => [m.title(one), m.summary(one)])"
    assert evaluated(FOLD, body, [event]) == [["Shown less", "0 messages, 9 → 5 tokens"]]
    event = event_object(Entry(1, 1.0, Compacted(1, 0, "drop", (2,), ("",), 9, 5)), hidden=False, prompts=True)
    assert evaluated(FOLD, "return m.foldRun([given]).usage.cost", event) == 0


def test_the_list_of_what_is_to_do_is_the_last_that_was_written() -> None:
    body = "const log = m.foldRun(given); return [log.todos, m.doneOf(log.todos)]"
    todos, done = evaluated(FOLD, body, shown())
    assert [one["text"] for one in todos] == list(PLAN)
    assert (done, todos[3]["status"]) == ("3 of 4 done", "in_progress")
    half = [event for event in shown() if int(event["id"]) < 20]
    assert evaluated(FOLD, "return m.doneOf(m.foldRun(given).todos)", half) == "1 of 4 done"
    assert evaluated(FOLD, "return m.foldRun(given).todos", shown()[:4]) is None


def test_data_of_another_form_is_no_list_and_no_version() -> None:
    odd: list[Any] = [None, 7, {"todos": [None]}, {"todos": {"a": 1}}, {"workspace": {"version": 1}}, {"command": "x"}]
    odd += [{"workspace": {"version": "x", "changed": []}}, {"workspace": {"version": 1, "changed": [{"path": {}}]}}]
    body = """return given.flatMap((data) => ["write_todos", "run_command"].map((tool) => {
        const {todos, command, workspace} = m.workOf({action: {tool}, observation: {data}});
        return todos ?? command ?? workspace;
    }))"""
    assert set(evaluated(FOLD, body, odd)) == {None}


def test_the_list_of_a_response_is_that_of_its_last_good_call() -> None:
    def call(text: str, status: str = "completed", **more: Any) -> dict[str, Any]:
        given = f'{{"items": [{{"text": "{text}", "status": "pending"}}]}}'
        return {"type": "mcp_call", "name": "write_todos", "arguments": given, "status": status, **more}

    items = [call("a"), call("b"), call("c", error="no"), call("d", "in_progress"), {"type": "message"}]
    cut = call("e") | {"arguments": "{"}
    body = "return given.map(m.todosOf)"
    assert evaluated("folds/response_stream.js", body, [items, [], [cut]]) == [
        [{"text": "b", "status": "pending"}],
        None,
        None,
    ]


def test_versions_of_the_workspace_are_those_that_calls_made() -> None:
    body = "return m.foldRun(given).versions.map((one) => [one.version, one.step, one.tool])"
    assert evaluated(FOLD, body, shown()) == [
        [1, 2, "write_file"],
        [2, 3, "write_file"],
        [3, 5, "run_command"],
        [4, 6, "edit_file"],
    ]


def test_files_of_two_versions_differ_by_what_last_changed_them() -> None:
    def file(path: str, size: int, version: int) -> dict[str, Any]:
        return {"path": path, "size": size, "version": version}

    before = [file("a", 1, 1), file("b", 2, 1), file("__proto__", 3, 1)]
    after = [file("b", 2, 2), file("c", 0, 2), file("__proto__", 3, 1)]
    assert evaluated(FILES, "return m.filesChanged(given[0], given[1])", [before, after]) == [
        {"path": "a", "size": None, "was": 1, "state": "removed"},
        {"path": "b", "size": 2, "was": 2, "state": "changed"},
        {"path": "c", "size": 0, "was": None, "state": "added"},
    ]


def test_lines_that_changed_are_shown_with_those_around_them() -> None:
    before = "".join(f"{at}\n" for at in range(1, 21))
    after = before.replace("10\n", "ten\r\n").replace("20\n", "20")
    lines = evaluated(FILES, "return m.lineChanges(given[0], given[1])", [before, after])
    told = [(one["kind"], one.get("old"), one.get("now"), one.get("text", one.get("count"))) for one in lines]
    assert told == [
        ("skipped", None, None, 6),
        *(("same", at, at, str(at)) for at in (7, 8, 9)),
        ("removed", 10, None, "10"),
        ("added", None, 10, "ten"),
        *(("same", at, at, str(at)) for at in (11, 12, 13)),
        ("skipped", None, None, 3),
        *(("same", at, at, str(at)) for at in (17, 18, 19)),
        ("removed", 20, None, "20"),
        ("added", None, 20, "20"),
    ]
    assert evaluated(FILES, "return m.lineChanges('', 'a')") == [{"kind": "added", "old": None, "now": 1, "text": "a"}]
    assert evaluated(FILES, "return [m.linesIn(''), m.linesIn('a\\n\\nb').map((one) => one.text)]") == [
        [],
        ["a", "", "b"],
    ]


def test_what_bytes_are_is_seen_from_them_and_not_from_a_name() -> None:
    body = """const of = (...bytes) => m.contentOf(new Uint8Array(bytes));
        return [of(), of(104, 105), of(0x89, 0x50, 0x4e, 0x47, 13), of(0x47, 0x49, 0x46, 0x38), of(104, 0),
                of(0xff, 0xfe), m.contentOf(new TextEncoder().encode("<svg onload=x>"))];"""
    assert evaluated(FILES, body) == [
        {"text": ""}, {"text": "hi"}, {"image": "image/png"}, {"image": "image/gif"}, {}, {},
        {"text": "<svg onload=x>"},
    ]  # fmt: skip


def test_what_cannot_be_seen_in_a_text_is_made_visible() -> None:
    odd = "a\tb\nc\r\nd\x1b[31m\u202ee\u200bf\x7f\u2028 ⟨x⟩ \u200d\U000e0041"
    seen = "a\tb\nc\nd␛[31m⟨202e⟩e⟨200b⟩f⟨7f⟩⟨2028⟩ ⟨x⟩ \u200d⟨e0041⟩"
    assert evaluated("format.js", "return m.visible(given)", odd) == seen
    assert evaluated("format.js", "return [0, 999, 1234, 5600000, null].map(m.bytes)") == [
        "0 B",
        "999 B",
        "1.2 kB",
        "5.6 MB",
        "–",
    ]
