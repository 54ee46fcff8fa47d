import { html, useEffect, useRef } from "../html.js";

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
