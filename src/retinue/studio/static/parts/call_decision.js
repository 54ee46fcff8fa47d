// @ts-check
// A call that waits for a person: it is shown, and approved, edited, rejected or answered.
import { parsed, pretty } from "../format.js";
import { html, useState } from "../html.js";
import { Json } from "./text.js";

const MODES = {
  edit: { title: "Edit", label: "Arguments, as JSON", send: "Approve with these arguments" },
  reject: { title: "Reject", label: "Why, for the model", send: "Reject" },
  respond: { title: "Answer", label: "The result to use in place of the call", send: "Send this answer" },
};

/** `call` is {tool, arguments, question?}; `decide` gets {kind, arguments?, message?}. */
export function CallDecision({ call, decide, busy = false }) {
  const [mode, setMode] = useState(null);
  return html`<section class="decision" aria-label=${`${call.tool} waits for a decision`}>
    <p><strong>${call.tool}</strong> waits for you to decide.${call.question && html` <span class="muted">${call.question}</span>`}</p>
    ${mode !== "edit" && html`<${Json} label="Arguments" value=${call.arguments} lines=${10} />`}
    ${
      mode === null
        ? html`<div class="actions">
          <button class="primary" disabled=${busy} onClick=${() => decide({ kind: "approve" })}>Approve</button>
          ${Object.entries(MODES).map(([name, { title }]) => html`<button key=${name} disabled=${busy} onClick=${() => setMode(name)}>${title}…</button>`)}
        </div>`
        : html`<${Form} key=${mode} mode=${mode} call=${call} decide=${decide} busy=${busy} back=${() => setMode(null)} />`
    }
  </section>`;
}

function Form({ mode, call, decide, busy, back }) {
  const { label, send } = MODES[mode];
  const [text, setText] = useState(mode === "edit" ? pretty(parsed(call.arguments)) : "");
  const [problem, setProblem] = useState("");
  const submit = (event) => {
    event.preventDefault();
    if (mode !== "edit") return decide({ kind: mode, message: text });
    const value = parsed(text);
    if (value === null || typeof value !== "object" || Array.isArray(value))
      return setProblem('The arguments must be a JSON object, such as {"place": "Rome"}.');
    decide({ kind: "edit", arguments: value });
  };
  return html`<form onSubmit=${submit}>
    <label>
      <span class="label">${label}</span>
      <textarea rows=${mode === "edit" ? 6 : 3} value=${text} onInput=${(event) => setText(event.target.value)} autofocus aria-invalid=${problem ? "true" : undefined} />
    </label>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    <div class="actions">
      <button class="primary" disabled=${busy}>${send}</button>
      <button type="button" class="quiet" onClick=${back}>Back</button>
    </div>
  </form>`;
}
