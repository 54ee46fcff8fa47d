import { html } from "../html.js";
import { words } from "../format.js";

const TONES = {
  completed: "good", approved: "good", result: "good",
  failed: "bad", expired: "bad", timed_out: "bad", invalid_input: "bad", unknown_tool: "bad", rejected: "bad",
  requires_action: "wait", incomplete: "wait", unknown: "wait", repeated: "wait",
  in_progress: "live", cancelling: "live",
};
const NAMES = { requires_action: "waiting", in_progress: "running" };

/** The status of a run or the outcome of a call: a dot and a word, so that colour is never all there is. */
export function Status({ value }) {
  return html`<span class="status status-${TONES[value] ?? "calm"}"><span class="dot" aria-hidden="true"></span>${NAMES[value] ?? words(value)}</span>`;
}
