// @ts-check
// A run's steps in short: what the model said, which calls it made, and what they gave.

import { verdictOf } from "../folds/run_log.js";
import { duration, pretty, short } from "../format.js";
import { html, useState } from "../html.js";
import { Status } from "../parts/elements.js";
import { Json, Parts, Text, Thoughts } from "../parts/text.js";

const FIRST = 60; // steps that are shown at once

/** All steps of a run. How it ended is left out where the last reply says the same. */
export function StepList({ steps: all }) {
  const [most, setMost] = useState(FIRST);
  const [before, last] = all.slice(-2);
  const steps =
    last?.ended && !last.ended.reason && before.reply.trim() === last.ended.answer.trim() ? all.slice(0, -1) : all;
  return html`<ol class="step-list">
    ${steps.slice(0, most).map((step, at) => html`<li key=${at}><${Step} step=${step} /></li>`)}
    ${steps.length > most && html`<li><button onClick=${() => setMost(most + 200)}>Show ${Math.min(200, steps.length - most)} more of ${steps.length} steps</button></li>`}
  </ol>`;
}

/** One step. `changed(where)` is a text's parts where it differs from another run's. */
export function Step({ step, changed }) {
  if (step.ended) return html`<${End} ended=${step.ended} changed=${changed} />`;
  return html`<section class="step">
    <header><h3>Step ${step.step}</h3>
      <span class="num muted">${[step.tokens && `${short(step.tokens)} tokens`, step.seconds && duration(step.seconds)].filter(Boolean).join(" · ")}</span>
    </header>
    ${step.verdicts.map((one, at) => html`<p key=${at} class=${one.verdict === "block" ? "problem" : "muted"}>${one.hook} ${verdictOf(one)}${one.reason ? `: ${one.reason}` : "."}</p>`)}
    ${step.problem && html`<p class="problem">Asked again: ${step.problem}</p>`}
    <${Thoughts} text=${step.thought} />
    ${step.reply.trim() && html`<${Said} label="Model" value=${step.reply} where="reply" changed=${changed} />`}
    ${step.calls.map((call, at) => html`<${Call} key=${call.id} call=${call} at=${at} changed=${changed} />`)}
    ${!step.reply.trim() && !step.calls.length && html`<p class="muted">The model's reply was empty.</p>`}
  </section>`;
}

function Call({ call, at, changed }) {
  return html`<div class="step-call">
    <p class="step-head"><strong class="tool-name">${call.tool}</strong> <${Status} value=${call.outcome === "waits" ? "requires_action" : call.outcome || "in_progress"} />
      ${call.seconds != null && html`<span class="num muted">${duration(call.seconds)}</span>`}</p>
    <${Said} label="Input" value=${pretty(call.input)} where=${`input ${at}`} changed=${changed} json />
    ${call.output !== null && html`<${Said} label="Output" value=${call.output} where=${`output ${at}`} changed=${changed} json />`}
    ${call.note && html`<p class="muted">${call.note}</p>`}
  </div>`;
}

function End({ ended, changed }) {
  return html`<section class="step step-end">
    <header><h3>${ended.reason ? `Stopped: ${ended.reason.toLowerCase().replaceAll("_", " ")}` : "Answer"}</h3></header>
    ${ended.detail && html`<p class="problem">${ended.detail}</p>`}
    ${ended.answer && html`<${Said} label=${ended.reason && ended.reason !== "STAGNATED" ? "So far" : "Answer"} value=${ended.answer} where="answer" changed=${changed} />`}
  </section>`;
}

function Said({ label, value, where, changed, json = false }) {
  const parts = changed?.(where);
  if (!parts)
    return json
      ? html`<${Json} label=${label} value=${value} lines=${8} />`
      : html`<${Text} label=${label} value=${value} lines=${8} />`;
  return html`<figure class="text">
    <figcaption><span class="label">${label}</span></figcaption>
    <pre tabindex="0" aria-label=${label}><${Parts} parts=${parts} /></pre>
  </figure>`;
}
