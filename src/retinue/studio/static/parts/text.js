// @ts-check
// Text of models, tools and people. It is always shown as text: no markup in it is interpreted, and no link loads.
import { parsed, pretty } from "../format.js";
import { html, useState } from "../html.js";

const LINES = 14;
const CHARACTERS = 2_000;

/** A text with a label and a button that copies it; long ones are folded. */
export function Text({ value, label, lines = LINES, plain = false }) {
  const text = pretty(value);
  const [open, setOpen] = useState(false);
  const folded = fold(text, lines);
  const cut = folded.length < text.length;
  return html`<figure class="text ${plain ? "text-plain" : ""}">
    ${
      (label || text) &&
      html`<figcaption>
      <span class="label">${label}</span>
      ${text && html`<${Copy} text=${text} label=${label} />`}
    </figcaption>`
    }
    <pre tabindex="0" aria-label=${label || "Text"}>${open || !cut ? text : folded}${text === "" && html`<span class="muted">empty</span>`}</pre>
    ${
      cut &&
      html`<button class="quiet more" aria-expanded=${open} onClick=${() => setOpen(!open)}>
      ${open ? "Show less" : `Show all ${text.length.toLocaleString("en")} characters`}
    </button>`
    }
  </figure>`;
}

/** What a model thought before its reply, folded. */
export const Thoughts = ({ text }) =>
  text?.trim()
    ? html`<details class="thoughts"><summary>Thoughts</summary><${Text} label="Thoughts" value=${text} lines=${60} /></details>`
    : null;

/** A JSON value, indented. */
export const Json = ({ value, ...more }) => html`<${Text} value=${readable(value)} ...${more} />`;

function readable(value) {
  const read = parsed(value);
  return typeof read === "object" && read !== null ? read : value;
}

function fold(text, lines) {
  let end = -1;
  for (let at = 0; at < lines; at++) {
    end = text.indexOf("\n", end + 1);
    if (end < 0) break;
  }
  return text.slice(0, Math.min(end < 0 ? text.length : end, CHARACTERS));
}

/** A button that copies `text`. */
export function Copy({ text, label = "" }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setDone(true);
      setTimeout(() => setDone(false), 1500);
    } catch {
      // the browser forbids it; the text can still be selected
    }
  };
  return html`<button class="quiet copy" onClick=${copy} aria-label=${`Copy ${label}`.trim()}>
    <span aria-live="polite">${done ? "Copied" : "Copy"}</span>
  </button>`;
}

/** The pieces of a text, of which some were added or removed. */
export const Parts = ({ parts }) =>
  parts.map(({ kind, text }, at) =>
    kind === "same" ? text : kind === "added" ? html`<ins key=${at}>${text}</ins>` : html`<del key=${at}>${text}</del>`,
  );
