// @ts-check
// The small things that views are made of.
import { ago, cost, count, moment, short, words } from "../format.js";
import { html, useEffect, useRef } from "../html.js";
import { Link } from "../router.js";

/** The head of a view: a title, what belongs beside it, and actions. */
export const PageHead = ({ title, lead, children }) =>
  html`<header class="page-head">
    <div class="page-title"><h1>${title}</h1>${lead && html`<div class="lead">${lead}</div>`}</div>
    ${children && html`<div class="actions">${children}</div>`}
  </header>`;

/** Nothing is here yet; `children` say what would put something here. */
export const Empty = ({ title, children }) =>
  html`<div class="empty"><p class="empty-title">${title}</p>${children && html`<p class="muted">${children}</p>`}</div>`;

/** One error in one line, and a way to try again. */
export const ErrorBox = ({ error, retry }) =>
  html`<div class="error" role="alert">
    <span>${error?.message ?? String(error)}</span>
    ${retry && html`<button onClick=${retry}>Try again</button>`}
  </div>`;

export const Loading = ({ what = "Loading" }) => html`<p class="loading muted" role="status">${what}…</p>`;

/** What this key may not see, and how to see it. */
export const Hidden = ({ what = "Prompts" }) =>
  html`<p class="hidden-note muted">
    ${what} are hidden from this key. A key with the scope <code>prompts</code> shows them:${" "}
    <code>retinue keys make --scope all --scope prompts</code>
  </p>`;

const TONES = {
  good: ["completed", "approved", "result"],
  bad: ["failed", "expired", "timed_out", "invalid_input", "unknown_tool", "rejected"],
  wait: ["requires_action", "incomplete", "unknown", "repeated"],
  live: ["in_progress", "cancelling"],
};

/** A status in words. */
export const statusWords = (value) => ({ requires_action: "waiting", in_progress: "running" })[value] ?? words(value);

/** The status of a run or the outcome of a call: a dot and a word, so that colour is never all there is. */
export function Status({ value }) {
  const tone = Object.keys(TONES).find((one) => TONES[one].includes(value)) ?? "calm";
  return html`<span class="status status-${tone}"><span class="dot" aria-hidden="true"></span>${statusWords(value)}</span>`;
}

/** Tokens of a `usage` ({prompt_tokens, completion_tokens, cached_tokens?}). */
export function Tokens({ usage }) {
  if (!usage) return html`<span class="num muted">–</span>`;
  const told = `${count(usage.prompt_tokens)} in, ${count(usage.completion_tokens)} out`;
  const cached = usage.cached_tokens ? `, ${count(usage.cached_tokens)} of them from the cache` : "";
  return html`<span class="num" title=${told + cached}>${short(usage.total_tokens ?? usage.prompt_tokens + usage.completion_tokens)}</span>`;
}

export const Cost = ({ value }) => html`<span class="num">${cost(value)}</span>`;
export const When = ({ at }) => html`<time class="num" datetime=${isoTime(at)} title=${moment(at)}>${ago(at)}</time>`;

/** The time as ISO 8601; undefined if there is none, or none that a date can have. */
function isoTime(at) {
  const date = new Date(at * 1000);
  return at == null || Number.isNaN(date.getTime()) ? undefined : date.toISOString();
}

/** A table. A column is {name, title, number?, wide?, cell(row)}; `to(row)` makes each row a link, in the column with `link`
 *  or else the first. On a phone each row becomes a card.
 *  `at` is the index of the row that the keyboard is on. */
export function Table({ columns, rows, id = (row) => row.id, to, at = -1, label }) {
  const linked = columns.find((one) => one.link) ?? columns[0];
  return html`<div class="table-wrap" tabindex="0" role="region" aria-label=${label}>
    <table class="table" role="table">
      <thead role="rowgroup">
        <tr role="row">${columns.map((one) => html`<th key=${one.name} scope="col" role="columnheader" class=${kind(one)}>${one.title}</th>`)}</tr>
      </thead>
      <tbody role="rowgroup">
        ${rows.map(
          (
            row,
            index,
          ) => html`<tr key=${id(row)} role="row" class=${index === at ? "at" : ""} aria-current=${index === at ? "true" : undefined}>
            ${columns.map(
              (one) => html`<td key=${one.name} role="cell" class=${kind(one)} data-title=${one.title}>
                ${to && one === linked ? html`<${Link} class="row-link" to=${to(row)}>${one.cell(row)}<//>` : one.cell(row)}
              </td>`,
            )}
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

const kind = (column) => `col-${column.name}${column.number ? " number" : ""}${column.wide ? " wide" : ""}`;

/** A modal dialog; `close` is called when it is dismissed. */
export function Dialog({ title, close, children }) {
  const box = useRef(null);
  useEffect(() => box.current.showModal(), []);
  const outside = (event) => event.target === box.current && close();
  return html`<dialog ref=${box} aria-labelledby="dialog-title" onClose=${close} onClick=${outside}>
    <div class="dialog-body">
      <header><h2 id="dialog-title">${title}</h2><button class="quiet" onClick=${close} aria-label="Close">✕</button></header>
      ${children}
    </div>
  </dialog>`;
}
