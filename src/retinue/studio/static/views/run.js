// @ts-check
// One run: what happened, when, and everything that was said.
import { get, post, save } from "../api.js";
import { timelineRows, treeRows } from "../folds/span_rows.js";
import { cost, count, duration, words } from "../format.js";
import { html, useCallback, useEffect, useMemo, useState } from "../html.js";
import { outputOf } from "../parts/call_decision.js";
import { Decisions } from "../parts/decisions.js";
import { Empty, ErrorBox, Loading, Status, When } from "../parts/elements.js";
import { Fork } from "../parts/fork.js";
import { useGet, useMay, useRowKeys } from "../parts/hooks.js";
import { useMembers, useRun } from "../parts/run_events.js";
import { SpanDetail } from "../parts/span_detail.js";
import { SpanList } from "../parts/span_list.js";
import { Text } from "../parts/text.js";
import { Todos } from "../parts/todos.js";
import { Files } from "../parts/workspace.js";
import { Link, setQuery } from "../router.js";

const ACTIVE = ["queued", "in_progress", "requires_action", "cancelling"];

export default function RunView({ params, query }) {
  const { run, log, error, reload } = useRun(params.id);
  const [replay, setReplay] = useState(null);
  if (!run) return error ? html`<${ErrorBox} error=${error} retry=${reload} />` : html`<${Loading} />`;
  return html`
    <${Head} run=${run} log=${log} replay=${replay} setReplay=${setReplay} />
    ${error && html`<${ErrorBox} error=${error} />`}
    <${Waits} run=${run} log=${log} />
    <${Outcome} run=${run} log=${log} />
    <${Todos} items=${log.todos} open=${ACTIVE.includes(run.status)} />
    ${
      query.get("as") === "files"
        ? html`<${Files} run=${run.id} versions=${log.versions} query=${query} tabs=${html`<${Tabs} shape="files" log=${log} />`} />`
        : html`<${Spans} run=${run} log=${log} query=${query} requests=${replay?.requests} />`
    }
  `;
}

const SHAPES = { timeline: "Timeline", tree: "Tree", files: "Files" };

function Tabs({ shape, log }) {
  const files = shape === "files" || log.versions.length || log.started?.tools?.includes("list_files");
  const show = (name) => setQuery({ as: name === "timeline" ? null : name, version: null, from: null, path: null });
  return html`<div class="tabs" role="group" aria-label="Shown as">
    ${Object.entries(SHAPES)
      .filter(([name]) => files || name !== "files")
      .map(
        ([name, says]) =>
          html`<button key=${name} class="quiet" aria-pressed=${shape === name} onClick=${() => show(name)}>${says}</button>`,
      )}
  </div>`;
}

function Head({ run, log, replay, setReplay }) {
  const [error, setError] = useState(null);
  const acts = useMay("runs");
  const act = (work) => async () => {
    setError(null);
    try {
      await work();
    } catch (refused) {
      setError(refused);
    }
  };
  const cancel = act(() => post(`/v1/runs/${run.id}/cancel`));
  const again = act(async () => setReplay(await post(`/v1/runs/${run.id}/replay`)));
  const store = act(async () => save(`${run.id}.json`, await get(`/v1/runs/${run.id}/export`)));
  const active = ACTIVE.includes(run.status);
  return html`<header class="run-head">
    <div class="page-head">
      <div class="page-title">
        <p class="crumbs muted"><${Link} to="/">Runs<//> / <span class="mono">${run.id}</span></p>
        <h1 class="clamp question">${log.started?.question || (log.hidden ? "A run that is not shown" : words(run.kind))}</h1>
      </div>
      <div class="actions">
        ${acts && active && !run.parent_run_id && run.status !== "cancelling" && html`<button class="danger" onClick=${cancel}>Cancel</button>`}
        ${acts && !active && html`<button onClick=${again}>Replay</button>`}
        <button onClick=${store}>Export</button>
      </div>
    </div>
    <dl class="run-facts">${factsOf(run, log).map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd class="num">${value}</dd></div>`)}</dl>
    <${Links} run=${run} />
    ${error && html`<${ErrorBox} error=${error} />`}
    ${replay && html`<${Replayed} replay=${replay} />`}
  </header>`;
}

function factsOf(run, log) {
  const seconds = log.begin == null ? null : (ACTIVE.includes(run.status) ? Date.now() / 1000 : log.finish) - log.begin;
  const { prompt_tokens: given, completion_tokens: made, cached_tokens: cached } = log.usage;
  return [
    ["Status", html`<${Status} value=${run.status} />`],
    ["Agent", run.model],
    ["Model", log.started?.model],
    ["Strategy", log.started?.strategy],
    ["Tokens", given + made ? html`${count(given)} in, ${count(made)} out` : "–"],
    ["Cached", cached ? `${count(cached)} (${Math.round((100 * cached) / given)} %)` : null],
    ["Cost", log.usage.cost ? cost(log.usage.cost) : null],
    ["Requests", count(log.requests)],
    ["Repeated calls", log.repeated || null],
    ["Time", duration(seconds)],
    ["Ended by", log.end && log.end.reason !== "ANSWER" ? words(log.end.reason).toLowerCase() : null],
    ["Began", html`<${When} at=${run.created_at} />`],
  ].filter(([, value]) => value);
}

function Links({ run }) {
  const { data: forks } = useGet("/v1/runs", { forked_from: run.id, limit: 20 }, [run.status]);
  const forked = run.forked_from;
  const links = [
    run.thread_id && html`<${Link} to=${`/threads/${run.thread_id}`}>Thread<//>`,
    run.conversation_id && html`<${Link} to=${`/threads/${run.conversation_id}`}>Conversation<//>`,
    run.parent_run_id && html`<${Link} to=${`/runs/${run.parent_run_id}`}>The run that called it<//>`,
    run.root_run_id &&
      run.root_run_id !== run.parent_run_id &&
      html`<${Link} to=${`/runs/${run.root_run_id}`}>The first of the team<//>`,
    forked &&
      html`<span>Forked from <${Link} to=${`/runs/${forked.run_id}`}>step ${forked.step}<//> (<${Link} to=${`/compare?a=${forked.run_id}&b=${run.id}`}>compare<//>)</span>`,
    forks?.data.length > 0 &&
      html`<span>Forks: ${forks.data.map((one, at) => html`${at ? ", " : ""}<${Link} to=${`/runs/${one.id}`}>${at + 1}<//>`)} (<${Link} to=${`/compare?a=${run.id}&b=${forks.data[0].id}`}>compare<//>)</span>`,
  ].filter(Boolean);
  return links.length ? html`<p class="links">${links}</p>` : null;
}

function Replayed({ replay }) {
  if (replay.agrees)
    return html`<p class="note good" role="status">Replayed without a model or a tool: today's code decides alike at each step. Each request now shows its grammar.</p>`;
  const { differs } = replay;
  if (!differs) return html`<p class="note" role="status">The log could not be replayed to its end.</p>`;
  return html`<section class="stack differs" role="status">
    <p class="note bad">Today's code decides differently at step ${differs.step} (event ${differs.event}).</p>
    <div class="pair"><${Text} label="Recorded" value=${differs.recorded} /><${Text} label="Now" value=${differs.now} /></div>
  </section>`;
}

function Waits({ run, log }) {
  const acts = useMay("runs");
  if (run.status !== "requires_action") return null;
  if (!acts)
    return html`<p class="note">It waits for a person. This key may not decide: that needs the scope <code>runs</code>.</p>`;
  if (run.parent_run_id)
    return html`<p class="note">It waits for a person: decide in <${Link} to=${`/runs/${run.root_run_id}`}>the first run of its team<//>.</p>`;
  const waiting = run.required_action?.submit_tool_outputs.tool_calls ?? [];
  const asked = new Map(
    log.spans.filter((one) => one.kind === "person" && one.problem).map((one) => [one.action.tool, one.problem]),
  );
  const calls = waiting.map(({ id, function: made }) => {
    return { id, tool: made.name, arguments: made.arguments, question: asked.get(made.name), user: run.user };
  });
  if (!calls.length) return null;
  return html`<section class="decisions" aria-labelledby="waits">
    <h2 id="waits">Waiting for you</h2>
    <${Decisions} key=${calls.map((one) => one.id).join()} calls=${calls} send=${(decisions) => answer(run, decisions)} />
  </section>`;
}

function answer(run, decisions) {
  const outputs = Object.entries(decisions).map(([id, decision]) => ({ tool_call_id: id, output: outputOf(decision) }));
  return post(`/v1/runs/${run.id}/submit_tool_outputs`, { tool_outputs: outputs });
}

function Outcome({ run, log }) {
  const [problem, detail] = [run.last_error?.message, log.end?.detail];
  return html`
    ${log.hidden && html`<p class="note">What was said is not shown: its client deleted it, or asked not to store it.</p>`}
    ${(problem || detail) && html`<div class="error outcome"><div class="stack">${[...new Set([problem, detail])].filter(Boolean).map((one) => html`<p key=${one}>${one}</p>`)}</div></div>`}
    ${log.end?.answer && html`<div class="outcome"><${Text} label=${log.end.unfinished ? "So far" : "Answer"} value=${log.end.answer} lines=${10} /></div>`}
  `;
}

function Spans({ run, log, query, requests }) {
  const shape = query.get("as") === "tree" ? "tree" : "timeline";
  const active = ACTIVE.includes(run.status);
  const [members, open] = useMembers(run.id, log.calls, active);
  const [opened, setOpened] = useState(new Set());
  const [forking, setForking] = useState(null);
  const make = shape === "tree" ? treeRows : timelineRows;
  const { spans } = log; // the list only grows, and a row has its span itself: rows are made anew for a new span only
  const rows = useMemo(() => make(run.id, spans, members, opened), [spans, spans.length, members, opened, shape]);
  const [chosen, setChosen] = useState(query.get("span") ?? "");
  const at = useMemo(() => rows.findIndex((one) => one.key === chosen), [rows, chosen]);
  const choose = useCallback((index) => setChosen(rows[index]?.key ?? ""), [rows]);
  const toggle = useCallback((row) => {
    if (row.member) open(row.member).catch(() => {});
    setOpened((before) => {
      const after = new Set(before);
      if (!after.delete(row.key)) after.add(row.key);
      return after;
    });
  }, []);
  useRowKeys(rows.length, at, choose, {
    Enter: () => rows[at] && (rows[at].member || !rows[at].span) && toggle(rows[at]),
    Home: () => choose(0),
    End: () => choose(rows.length - 1),
    Escape: () => setChosen(""),
  });
  const row = rows[at]?.span ? rows[at] : null;
  const finish = useNow(active, log);
  const acts = useMay("runs");
  const fork =
    acts &&
    row &&
    row.runId === run.id &&
    !active &&
    html`<button onClick=${() => setForking(forkAt(log, row.span))}>${row.span.kind === "compaction" ? "Fork with the full prompt" : "Fork from here"}</button>`;
  if (!log.spans.length)
    return html`<${Empty} title=${active ? "Nothing has happened yet" : "Nothing happened in this run"} />`;
  return html`<div class="workbench ${row ? "has-detail" : ""}">
    <section class="bench-list" aria-label="What happened">
      <div class="row bench-bar">
        <${Tabs} shape=${shape} log=${log} />
        <span class="muted num push">${count(log.spans.length)} ${log.spans.length === 1 ? "span" : "spans"}</span>
      </div>
      <${SpanList} rows=${rows} at=${at} choose=${choose} toggle=${toggle} begin=${log.begin} finish=${finish} follow=${active && !chosen} />
    </section>
    ${
      row
        ? html`<aside class="bench-detail"><button class="quiet close-detail" onClick=${() => setChosen("")} aria-label="Back to the list">← Back</button>
          <${SpanDetail} key=${row.key} row=${row} spans=${row.runId === run.id ? log.spans : (members.logs.get(row.runId)?.spans ?? [])} requests=${row.runId === run.id ? requests : null} actions=${fork} />
        </aside>`
        : html`<aside class="bench-detail bench-hint muted">Choose a row, or press <kbd>j</kbd> and <kbd>k</kbd>, to see its prompt, input and output.</aside>`
    }
    ${forking && html`<${Fork} run=${run} step=${forking.step} calls=${observed(log, forking.step)} instructions=${log.started?.instructions} full=${forking.full} close=${() => setForking(null)} />`}
  </div>`;
}

/** Where a fork begins, and whether it leaves the compactions out (null: there are none). One from a compaction begins
 *  before the request whose prompt was compacted. */
function forkAt(log, { kind, step }) {
  if (kind === "compaction") return { step: Math.max(step - 1, 0), full: true };
  return { step, full: log.spans.some((one) => one.kind === "compaction" && one.step <= step) ? false : null };
}

const observed = (log, step) =>
  log.spans
    .filter((one) => one.kind === "tool" && one.step === step && one.observation)
    .map((one) => ({ id: one.call, tool: one.action.tool, text: one.observation.text }));

/** The right end of the time line: now, while the run is active. */
function useNow(active, log) {
  const [now, setNow] = useState(Date.now() / 1000);
  useEffect(() => {
    if (!active) return;
    const timer = setInterval(() => setNow(Date.now() / 1000), 500);
    return () => clearInterval(timer);
  }, [active]);
  return active ? Math.max(now, log.finish ?? 0) : log.finish;
}
