// What a view says when there is nothing to show, or something went wrong.
import { html } from "../html.js";

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
