// @ts-check
// A call that waits for a person: it is shown, and approved, edited, rejected or answered.
import { parsed, pretty } from "../format.js";
import { html, useState } from "../html.js";
import { Json } from "./text.js";

/** A decision as the output of its call, by which it is submitted. */
export const outputOf = ({ kind, ...more }) =>
  kind === "approve" && !more.always ? kind : JSON.stringify({ decision: kind, ...more });

const MODES = {
  edit: { title: "Edit", label: "Arguments, as JSON", send: "Approve with these arguments" },
  reject: { title: "Reject", label: "Why, for the model", send: "Reject" },
  respond: { title: "Answer", label: "The result to use in place of the call", send: "Send this answer" },
};

/** `call` is {tool, arguments, question?, user?}; `decide` gets {kind, arguments?, message?, always?}. */
export function CallDecision({ call, decide, busy = false }) {
  const [mode, setMode] = useState(null);
  return html`<section class="decision" aria-label=${`${call.tool} waits for a decision`}>
    <p><strong>${call.tool}</strong> waits for you to decide.${call.question && html` <span class="muted">${call.question}</span>`}</p>
    ${mode !== "edit" && mode !== "always" && html`<${Json} label="Arguments" value=${call.arguments} lines=${10} />`}
    ${
      mode === null
        ? html`<div class="actions">
          <button class="primary" disabled=${busy} onClick=${() => decide({ kind: "approve" })}>Approve</button>
          ${call.user && html`<button disabled=${busy} onClick=${() => setMode("always")}>Always…</button>`}
          ${Object.entries(MODES).map(([name, { title }]) => html`<button key=${name} disabled=${busy} onClick=${() => setMode(name)}>${title}…</button>`)}
        </div>`
        : mode === "always"
          ? html`<${Always} call=${call} decide=${decide} busy=${busy} back=${() => setMode(null)} />`
          : html`<${Form} key=${mode} mode=${mode} call=${call} decide=${decide} busy=${busy} back=${() => setMode(null)} />`
    }
  </section>`;
}

/** What is always approved for the user: the arguments as they are, with * where anything may stand, or any at all. */
function Always({ call, decide, busy, back }) {
  const given = Object.entries(parsed(call.arguments) ?? {}).map(([name, value]) => [name, textOf(value)]);
  const [any, setAny] = useState(false);
  const [texts, setTexts] = useState(() => Object.fromEntries(given));
  const changed = Object.fromEntries(
    given.map(([name]) => [name, texts[name]]).filter(([name], at) => texts[name] !== given[at][1]),
  );
  const submit = (event) => {
    event.preventDefault();
    decide({ kind: "approve", always: any ? "tool" : Object.keys(changed).length ? changed : "call" });
  };
  return html`<form onSubmit=${submit}>
    <p>From now on, ${call.user} is not asked about calls of <strong>${call.tool}</strong> with these arguments. Put <kbd>*</kbd> where anything may stand.</p>
    ${given.map(
      ([name]) => html`<label key=${name}>
      <span class="label">${name}</span>
      <input type="text" value=${texts[name]} disabled=${any} onInput=${(event) => setTexts({ ...texts, [name]: event.target.value })} />
    </label>`,
    )}
    <label class="check"><input type="checkbox" checked=${any} onChange=${(event) => setAny(event.target.checked)} /> With any arguments</label>
    <div class="actions">
      <button class="primary" disabled=${busy}>Always approve</button>
      <button type="button" class="quiet" onClick=${back}>Back</button>
    </div>
  </form>`;
}

const textOf = (value) => (typeof value === "string" ? value : JSON.stringify(value));

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
