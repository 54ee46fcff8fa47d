// @ts-check
// Two runs side by side: what differs in all, and step by step from where they part.

import { align, stepsOf } from "../folds/step_alignment.js";
import { textDiff } from "../folds/text_diff.js";
import { ago, cost, count, duration, pretty, words } from "../format.js";
import { html, useMemo, useState } from "../html.js";
import { Empty, PageHead, Status } from "../parts/elements.js";
import { useGet, useResource } from "../parts/hooks.js";
import { runWithEvents } from "../parts/run_events.js";
import { Link, setQuery } from "../router.js";
import { Step } from "./step_list.js";

const PAIRS = 60; // pairs of steps that are shown at once
const SHOWN = 8; // runs to choose from
const ALIKE = 0.25; // share of two texts that must be the same for the rest to be marked
const TRIVIAL = ["Duration", "When"]; // which differ always

export default function Compare({ query }) {
  const [a, b] = [query.get("a") ?? "", query.get("b") ?? ""];
  return html`<${PageHead} title="Compare two runs">
      ${a && b && html`<button onClick=${() => setQuery({ a: b, b: a })}>Swap</button>`}
    <//>
    ${a && b ? html`<${Both} key=${`${a} ${b}`} a=${a} b=${b} />` : html`<${Picker} a=${a} b=${b} />`}`;
}

// ── choosing them ────────────────────────────────────────────────────────────────────────────────

function Picker({ a, b }) {
  return html`<div class="versus-pair">${[
    ["a", a],
    ["b", b],
  ].map(([side, id]) => html`<${Side} key=${side} side=${side} id=${id} other=${side === "a" ? b : a} />`)}</div>`;
}

function Side({ side, id, other }) {
  const [text, setText] = useState("");
  const { data, notice } = useGet("/v1/runs", { limit: 100, members: false, figures: true });
  const name = side.toUpperCase();
  if (id)
    return html`<section class="picked"><h2>${name}</h2><p><${Link} to=${`/runs/${id}`}>${id}<//></p><button onClick=${() => setQuery({ [side]: null })}>Choose another</button></section>`;
  const runs = (data?.data ?? []).filter((run) => run.id !== other && matches(run, text));
  const near = (run) => Number(run.forked_from?.run_id === other);
  const shown = [...runs].sort((one, two) => near(two) - near(one)).slice(0, SHOWN);
  const given = text.trim();
  return html`<section>
    <h2><label for=${`pick-${side}`}>${name}</label></h2>
    <input id=${`pick-${side}`} class="search" type="search" value=${text} placeholder="Agent, question, status or id" onInput=${(event) => setText(event.target.value)} />
    ${notice}
    <ul class="choices">
      ${shown.map(
        (run) => html`<li key=${run.id}><button class="choice" onClick=${() => setQuery({ [side]: run.id })}>
        <span class="choice-title">${run.question || run.id}</span>
        <span class="muted">${run.model} · ${words(run.status)} · ${ago(run.created_at)}${near(run) && other ? " · forked from the other one" : ""}</span>
      </button></li>`,
      )}
      ${given.startsWith("run_") && !shown.some((run) => run.id === given) && html`<li><button class="choice" onClick=${() => setQuery({ [side]: given })}>${given}</button></li>`}
    </ul>
    ${runs.length > shown.length && html`<p class="muted">${runs.length - shown.length} more: search for them.</p>`}
    ${data && !shown.length && html`<p class="muted">No recent run is like this. Give the id of an older one.</p>`}
  </section>`;
}

const matches = (run, text) =>
  text
    .toLowerCase()
    .split(/\s+/)
    .every((word) =>
      [run.id, run.model, run.question, words(run.status)].some((one) => (one ?? "").toLowerCase().includes(word)),
    );

// ── side by side ─────────────────────────────────────────────────────────────────────────────────

function Both({ a, b }) {
  const { data, error, notice } = useResource(
    (signal) => Promise.all([a, b].map((id) => runWithEvents(id, signal))),
    [a, b],
  );
  if (error)
    return html`${notice}<p class="after"><button onClick=${() => setQuery({ a: null, b: null })}>Choose others</button></p>`;
  if (notice) return notice;
  return html`<${Heads} runs=${data} /><${Steps} runs=${data} />`;
}

function Heads({ runs }) {
  const facts = runs.map(factsOf);
  const there = Object.keys(facts[0]).filter((name) => facts.some((one) => one[name].text));
  const alike = there.filter((name) => !TRIVIAL.includes(name) && facts[0][name].text === facts[1][name].text);
  const names = there.filter((name) => !alike.includes(name));
  const link = runs.map(({ run }) => html`<${Link} to=${`/runs/${run.id}`}>${run.id}<//>`);
  return html`${alike.length > 0 && html`<dl class="alike-facts">${alike.map((name) => html`<div key=${name}><dt>${name}</dt><dd>${facts[0][name].shown ?? facts[0][name].text}</dd></div>`)}</dl>`}
  <div class="table-wrap" tabindex="0" role="region" aria-label="What differs">
    <table class="table versus">
      <thead><tr><th scope="col"><span class="sr">What</span></th><th scope="col">A ${link[0]}</th><th scope="col">B ${link[1]}</th></tr></thead>
      <tbody>${names.map((name) => {
        const differs = !TRIVIAL.includes(name) && facts[0][name].text !== facts[1][name].text;
        return html`<tr key=${name} class=${differs ? "differs" : ""}><th scope="row">${name}${differs && html`<span class="sr"> (differs)</span>`}</th>${facts.map((one) => html`<td>${one[name].shown ?? one[name].text}</td>`)}</tr>`;
      })}</tbody>
    </table>
  </div>`;
}

function factsOf({ run, events }) {
  const started = events.find((one) => one.type === "started")?.data ?? {};
  const from = run.forked_from;
  const plain = (text) => ({ text: text == null || text === "–" ? "" : String(text) });
  return {
    Status: { text: run.status, shown: html`<${Status} value=${run.status} />` },
    Agent: plain(run.model),
    Model: plain(started.model),
    Strategy: plain(started.strategy),
    Question: { text: started.question ?? "", shown: html`<span class="clamp-4">${started.question}</span>` },
    Instructions: {
      text: started.instructions ?? "",
      shown: html`<span class="clamp-4">${started.instructions}</span>`,
    },
    "Forked from": {
      text: from ? `${from.run_id} ${from.step}` : "",
      shown: from && html`<${Link} to=${`/runs/${from.run_id}`}>step ${from.step} of ${from.run_id}<//>`,
    },
    Tokens: plain(run.usage && `${count(run.usage.prompt_tokens)} in, ${count(run.usage.completion_tokens)} out`),
    Cost: plain(run.usage?.cost ? cost(run.usage.cost) : ""),
    Duration: plain(
      run.ended_at && events.length ? duration(events[events.length - 1].created_at - events[0].created_at) : "",
    ),
    When: plain(ago(run.created_at)),
  };
}

function Steps({ runs }) {
  const { rows, parted } = useMemo(() => align(...runs.map(({ events }) => stepsOf(events))), [runs]);
  const [open, setOpen] = useState(false);
  const [most, setMost] = useState(PAIRS);
  if (!rows.length) return html`<${Empty} title="Neither run has steps yet" />`;
  const alike = parted < 0 ? rows.length : parted;
  const first = open ? 0 : alike;
  return html`<section class="versus-steps" aria-label="Steps">
    ${
      alike > 0 &&
      html`<p class="alike"><span>${alikeText(rows, alike, parted)}</span> <button class="quiet" aria-expanded=${open} onClick=${() => setOpen(!open)}>${open ? "Hide" : "Show"}</button></p>`
    }
    ${rows.slice(first, first + most).map((row, at) => html`<${Row} key=${first + at} row=${row} parts=${first + at === parted} />`)}
    ${rows.length > first + most && html`<button onClick=${() => setMost(most + 200)}>Show more of ${rows.length} steps</button>`}
  </section>`;
}

function alikeText(rows, alike, parted) {
  if (parted < 0) return "The runs are the same in every step.";
  const steps = rows.slice(0, alike).filter(({ a }) => !a.ended).length;
  return steps === 1 ? "The first step is the same." : `The first ${steps} steps are the same.`;
}

function Row({ row, parts }) {
  const texts = [row.a, row.b].map((step) => (step ? textsOf(step) : {}));
  const changed = (side) => (where) => {
    const [before, after] = texts.map((one) => one[where]);
    if (!before?.trim() || !after?.trim() || before === after) return null;
    const parts = textDiff(before, after);
    const alike = parts.reduce((sum, part) => sum + (part.kind === "same" ? part.text.trim().length : 0), 0);
    if (alike < ALIKE * Math.min(before.length, after.length)) return null;
    return parts.filter((part) => part.kind !== (side ? "removed" : "added"));
  };
  return html`${parts && html`<h2 class="parting">Here they part</h2>`}
    <div class=${`versus-pair ${row.same ? "" : "versus-differs"}`}>
      ${[row.a, row.b].map(
        (
          step,
          side,
        ) => html`<div key=${side} class=${`versus-side ${step ? "" : "versus-none"}`} data-side=${side ? "B" : "A"}>
        ${step ? html`<${Step} step=${step} changed=${row.same ? null : changed(side)} />` : html`<p class="muted nothing">${row.a?.ended || row.b?.ended ? "has not ended" : "no such step"}</p>`}
      </div>`,
      )}
    </div>`;
}

/** The texts of a step by their place, as `Step` asks for them. */
function textsOf(step) {
  const texts = step.ended ? { answer: step.ended.answer } : { reply: step.reply };
  step.calls.forEach((call, at) => {
    texts[`input ${at}`] = pretty(call.input);
    if (call.output !== null) texts[`output ${at}`] = call.output;
  });
  return texts;
}
