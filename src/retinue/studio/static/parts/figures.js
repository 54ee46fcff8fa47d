// Small figures: tokens, durations, times. Digits have equal widths, so columns align.
import { html } from "../html.js";
import { ago, cost, count, duration, moment, short } from "../format.js";

/** Tokens of a `usage` ({prompt_tokens, completion_tokens, cached_tokens?}). */
export function Tokens({ usage }) {
  if (!usage) return html`<span class="num muted">–</span>`;
  const told = `${count(usage.prompt_tokens)} in, ${count(usage.completion_tokens)} out`;
  const cached = usage.cached_tokens ? `, ${count(usage.cached_tokens)} of them from the cache` : "";
  return html`<span class="num" title=${told + cached}>${short(usage.total_tokens ?? usage.prompt_tokens + usage.completion_tokens)}</span>`;
}

export const Duration = ({ seconds }) => html`<span class="num">${duration(seconds)}</span>`;
export const Cost = ({ value }) => html`<span class="num">${cost(value)}</span>`;
export const When = ({ at }) =>
  html`<time class="num" datetime=${isoTime(at)} title=${moment(at)}>${ago(at)}</time>`;

/** The time as ISO 8601; undefined if there is none, or none that a date can have. */
function isoTime(at) {
  const date = new Date(at * 1000);
  return at == null || Number.isNaN(date.getTime()) ? undefined : date.toISOString();
}
