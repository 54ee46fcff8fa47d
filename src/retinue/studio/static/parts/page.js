import { html } from "../html.js";

/** The head of a view: a title, what belongs beside it, and actions. */
export const PageHead = ({ title, lead, children }) =>
  html`<header class="page-head">
    <div class="page-title"><h1>${title}</h1>${lead && html`<div class="lead">${lead}</div>`}</div>
    ${children && html`<div class="actions">${children}</div>`}
  </header>`;
