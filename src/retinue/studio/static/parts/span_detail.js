// @ts-check
// All that is known of one span: a request to a model, a call of a tool, a question to a person, or a hook's verdict.

import { request } from "../api.js";
import {
  decided,
  formerPrompt,
  progressOf,
  promptOf,
  promptText,
  summary,
  title,
  verdictOf,
  workOf,
} from "../folds/run_log.js";
import { textDiff } from "../folds/text_diff.js";
import { cost, count, duration, visible } from "../format.js";
import { html, useMemo, useState } from "../html.js";
import { Link } from "../router.js";
import { Hidden, Status } from "./elements.js";
import { useResource } from "./hooks.js";
import { Json, Parts, Text, Thoughts } from "./text.js";
import { Todos } from "./todos.js";
import { Changed } from "./workspace.js";

const EARLIER = 100; // messages shown of those that the model had seen before

/** `spans` are those of the span's own run; `requests` those that a replay rebuilt, or null; `actions` are buttons. */
export function SpanDetail({ row, spans, requests, actions }) {
  const { span } = row;
  return html`<article class="detail" aria-label=${title(span)}>
    <header class="detail-head">
      <div><h2>${title(span)}</h2><${Facts} span=${span} member=${row.member} /></div>
      <div class="actions">${actions}</div>
    </header>
    ${span.kind === "model" && html`<${Model} span=${span} spans=${spans} requests=${requests} />`}
    ${span.kind === "tool" && html`<${Call} span=${span} member=${row.member} run=${row.runId} />`}
    ${span.kind === "person" && html`<${Person} span=${span} />`}
    ${span.kind === "hook" && html`<${Judged} span=${span} />`}
    ${span.kind === "compaction" && html`<${Compacted} span=${span} spans=${spans} />`}
  </article>`;
}

function Facts({ span, member }) {
  const usage = span.reply?.usage ?? span.observation?.usage ?? span.usage;
  const facts = [
    `step ${span.step}`,
    span.end !== null &&
      span.end > span.start &&
      duration((!member && span.observation?.seconds) || span.reply?.seconds || span.end - span.start),
    span.reply?.first_token_seconds ? `first token after ${duration(span.reply.first_token_seconds)}` : null,
    usage?.input_tokens ? `${count(usage.input_tokens)} tokens in` : null,
    usage?.cached_tokens ? `${count(usage.cached_tokens)} of them cached` : null,
    usage?.output_tokens ? `${count(usage.output_tokens)} out` : null,
    usage?.reasoning_tokens ? `${count(usage.reasoning_tokens)} of them reasoning` : null,
    usage?.cost ? `cost ${cost(usage.cost)}` : null,
    span.reply && span.reply.finish !== "stop" ? `ended by ${span.reply.finish}` : null,
  ].filter(Boolean);
  return html`<p class="facts muted num">
    ${span.state === "live" && html`<${Status} value=${span.kind === "person" ? "requires_action" : "in_progress"} />`}
    ${span.observation && html`<${Status} value=${span.observation.outcome} />`}
    ${facts.map((one) => html`<span key=${one}>${one}</span>`)}
  </p>`;
}

function Model({ span, spans, requests }) {
  const request = requests?.find((one) => String(one.event) === String(span.event));
  return html`
    ${span.problem && html`<${Text} label="Why it is asked again" value=${span.problem} />`}
    ${span.retries.map((one) => html`<p key=${one.at} class="note">Tried again after ${duration(one.seconds)}${one.problem ? `: ${one.problem}` : "."}</p>`)}
    ${span.shortened > 0 && html`<p class="note">The prompt outgrew the model's window: its oldest observations were shortened, to about ${count(span.shortened)} characters.</p>`}
    <${Thoughts} text=${span.thought} />
    ${span.reply?.unsent && html`<p class="note">This is another model: what ${span.reply.unsent} wanted back was not sent to it.</p>`}
    ${span.reply ? (span.reply.text || !span.reply.calls?.length) && html`<${Text} label="Reply" value=${span.reply.text} lines=${24} />` : span.said ? html`<${Text} label="Reply so far" value=${span.said} lines=${60} />` : null}
    ${(span.reply?.calls ?? []).map((one) => html`<${Json} key=${one.id + one.tool} label=${`Call of ${one.tool}`} value=${one.tool_input} />`)}
    ${span.reply?.state && html`<p class="note">Kept for the vendor, who wants it back with these calls: ${count(Math.ceil(span.reply.state.characters / 1000))} kB.</p>`}
    <${Prompt} span=${span} spans=${spans} />
    ${request && html`<${Grammar} request=${request} />`}
  `;
}

function Grammar({ request }) {
  const told = [
    request.tools?.length ? `tools: ${request.tools.map((one) => one.name ?? one).join(", ")}` : null,
    request.stop?.length ? `stops at ${request.stop.map((one) => JSON.stringify(one)).join(", ")}` : null,
    request.max_tokens ? `at most ${count(request.max_tokens)} tokens` : null,
  ].filter(Boolean);
  return html`<section class="stack">
    <h3>What the reply could be</h3>
    ${told.length > 0 && html`<p class="facts muted">${told.map((one) => html`<span key=${one}>${one}</span>`)}</p>`}
    ${request.constraint?.pattern && html`<${Text} label="Pattern" value=${request.constraint.pattern} lines=${6} />`}
    ${request.constraint?.schema && html`<${Json} label="Schema" value=${request.constraint.schema} />`}
    ${!request.constraint && html`<p class="muted">Anything: no grammar constrained this reply.</p>`}
  </section>`;
}

function Prompt({ span, spans }) {
  const { messages, fresh, sent } = useMemo(() => promptOf(spans, span), [spans, span.key, spans.length]);
  const former = useMemo(() => formerPrompt(spans, span), [spans, span.key]);
  const [changes, setChanges] = useState(false);
  const [all, setAll] = useState(false);
  if (span.hidden) return html`<section class="stack"><h3>Prompt</h3><${Hidden} /></section>`;
  const seen = sent.filter((one) => fresh && !one.fresh);
  const before = all ? seen : [];
  const gone = messages.length - sent.length;
  return html`<section class="stack">
    <div class="row"><h3>Prompt</h3>
      <span class="muted num">${count(sent.length)} messages${fresh ? `, ${count(sent.length - seen.length)} new` : ""}${gone ? `, ${count(gone)} no longer sent` : ""}</span>
      ${former && html`<button class="quiet push" aria-pressed=${changes} onClick=${() => setChanges(!changes)}>${changes ? "Show messages" : "What changed"}</button>`}
    </div>
    ${
      changes && former
        ? html`<${Changes} before=${promptText(promptOf(spans, former).sent)} after=${promptText(sent)} />`
        : html`
        ${fresh > 0 && html`<button class="quiet earlier" aria-expanded=${all} onClick=${() => setAll(!all)}>${all ? "Hide" : "Show"} the ${count(seen.length)} messages that it had seen before</button>`}
        ${before.length > EARLIER && html`<p class="muted">The last ${EARLIER} of them:</p>`}
        ${before.slice(-EARLIER).map((one, at) => html`<${Message} key=${`old${at}`} message=${one} />`)}
        ${sent.slice(seen.length).map((one, at) => html`<${Message} key=${`new${at}`} message=${one} />`)}
      `
    }
  </section>`;
}

function Changes({ before, after }) {
  const parts = useMemo(() => textDiff(before, after), [before, after]);
  return html`<pre class="diff" tabindex="0" aria-label="What changed in the prompt"><${Parts} parts=${parts} /></pre>`;
}

function Message({ message }) {
  const { role, tool, content, calls = [], files = [] } = message;
  const mark = `${message.instead ? " · in its place" : ""}${message.fresh ? " · new" : ""}`;
  return html`<div class="message ${message.fresh ? "message-new" : ""} ${message.instead ? "message-instead" : ""}">
    ${(content || !calls.length) && html`<${Text} label=${`${role}${tool ? ` · ${tool}` : ""}${mark}`} value=${content} />`}
    ${calls.map((one, at) => html`<${Json} key=${at} label=${`${role} · calls ${one.tool}${mark}`} value=${one.tool_input} />`)}
    ${files.map((one, at) => html`<p key=${at} class="note">A file: ${one.media_type}, ${one.id.slice(0, 12)}</p>`)}
  </div>`;
}

function Compacted({ span, spans }) {
  const { messages } = useMemo(() => promptOf(spans, span), [spans, span.key]);
  const gone = span.places.map((place) => messages[place]).filter(Boolean);
  const texts = [...new Set(span.texts)].filter(Boolean);
  return html`
    <p class="note">From here on the model was shown less of its prompt: ${summary(span)}.</p>
    ${span.hidden && html`<${Hidden} />`}
    ${texts.length > 0 && html`<section class="stack"><h3>What it sees instead</h3>${texts.slice(0, EARLIER).map((one, at) => html`<${Text} key=${at} label=${span.tier === "summary" ? "Summary" : "In its place"} value=${one} lines=${40} />`)}</section>`}
    ${
      gone.length > 0 &&
      html`<section class="stack"><h3>What it no longer sees</h3>${gone.slice(0, EARLIER).map((one, at) => html`<${Message} key=${at} message=${one} />`)}
      ${gone.length > EARLIER && html`<p class="muted">The first ${EARLIER} of ${count(gone.length)} messages.</p>`}</section>`
    }
  `;
}

function Call({ span, member, run }) {
  const { observation: seen, action } = span;
  const { command, todos, workspace } = workOf(span);
  const typed = action.tool === "run_command" && action.tool_input?.command;
  return html`
    ${member && html`<p class="note">A run of its own: <${Link} to=${`/runs/${member.id}`}>${member.model}<//> <${Status} value=${member.status} /></p>`}
    ${span.told !== undefined && html`<p class="note">A helper in the background: ${span.told ? `its caller was told that it has ended in step ${span.told.step}, with the result of ${span.told.tool}` : "its caller was not told yet that it has ended"}.</p>`}
    ${typed ? html`<${Text} label="Command" value=${`$ ${visible(String(typed))}`} lines=${20} />` : todos ? html`<${Todos} items=${todos} open />` : html`<${Json} label="Input" value=${action.tool_input ?? ""} lines=${20} />`}
    ${command && html`<p class="facts num"><span class=${`status status-${command.exit ? "bad" : "good"}`}><span class="dot" aria-hidden="true"></span>exit code ${command.exit}</span><span class="muted">${duration(command.seconds)}</span>${command.cut && html`<span class="muted">the output was cut</span>`}</p>`}
    ${span.progress.length > 0 && html`<${Reported} progress=${span.progress} start=${span.start} />`}
    ${seen ? html`<${Text} label="Output" value=${command ? visible(seen.text) : seen.text} lines=${30} />` : html`<p class="muted">It has not returned.</p>`}
    ${seen?.size > 0 && html`<${Whole} run=${run} call=${span.call} size=${seen.size} />`}
    <${Changed} run=${run} workspace=${workspace} />
    ${seen?.note && html`<${Text} label="Remark to the model" value=${seen.note} />`}
    ${seen?.stale && html`<p class="note">The run had seen the same before.</p>`}
    ${action.log && html`<${Text} label="The model's words" value=${action.log} />`}
  `;
}

/** A large result, of which the model was shown a part. */
function Whole({ run, call, size }) {
  const [wanted, setWanted] = useState(false);
  const load = (signal) => (wanted ? wholeResult(run, call, signal) : Promise.resolve(""));
  const { data, notice } = useResource(load, [wanted]);
  if (!wanted)
    return html`<p class="note row">The model was shown a part. <button onClick=${() => setWanted(true)}>Show all ${count(size)} characters</button></p>`;
  return notice ?? html`<${Text} label="All of it" value=${data} lines=${30} />`;
}

const wholeResult = async (run, call, signal) =>
  (await request("GET", `/v1/runs/${encodeURIComponent(run)}/results/${encodeURIComponent(call)}`, { signal })).text();

const Reported = ({ progress, start }) => html`<section class="stack"><h3>Progress</h3>
  <ol class="progress-list">${progress.slice(-EARLIER).map((one, at) => html`<li key=${at}><span class="num muted">${duration(one.at - start)}</span> ${progressOf(one)}</li>`)}</ol>
</section>`;

function Judged({ span }) {
  return html`
    <p class=${span.verdict === "block" ? "note bad" : "note"}>The hook <strong>${span.hook}</strong> ${verdictOf(span)}.</p>
    ${span.reason && html`<${Text} label="Why" value=${span.reason} />`}
  `;
}

function Person({ span }) {
  return html`
    ${span.problem && html`<${Text} label="Why a person is asked" value=${span.problem} />`}
    <${Json} label="Input" value=${span.action.tool_input ?? ""} />
    ${
      span.decision &&
      html`<section class="stack"><h3>Decision: ${decided(span.decision)}</h3>
      ${span.decision.policy && html`<p class="note">By the policy <code>${span.decision.policy}</code>.</p>`}
      ${span.decision.tool_input != null && html`<${Json} label="Edited input" value=${span.decision.tool_input} />`}
      ${span.decision.message && html`<${Text} label="Message" value=${span.decision.message} />`}
    </section>`
    }
  `;
}
