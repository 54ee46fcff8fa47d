// @ts-check
// The list of what is to do, as an agent last wrote it.
import { doneOf } from "../folds/run_log.js";
import { html } from "../html.js";

const MARKS = { pending: "○", in_progress: "◐", completed: "●" };

/** `items` are [{text, status}]; `open` says whether it begins unfolded. */
export function Todos({ items, open }) {
  if (!items?.length) return null;
  const [now] = items.filter((one) => one.status === "in_progress");
  return html`<details class="todos" open=${open}>
    <summary><span class="strong">To do</span> <span class="num">${doneOf(items)}</span>${now && html` <span class="todo-now">${now.text}</span>`}</summary>
    <ol>${items.map(
      ({ text, status }, at) => html`<li key=${at} class=${`todo todo-${status}`}>
        <span class="todo-mark" aria-hidden="true">${Object.hasOwn(MARKS, status) ? MARKS[status] : "○"}</span><span class="todo-text">${text}<span class="sr"> (${String(status).replace("_", " ")})</span></span>
      </li>`,
    )}</ol>
  </details>`;
}
