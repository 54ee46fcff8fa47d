// The calls that a run waits for, for a person to decide on. All of them are answered together.
import { html, useState } from "../html.js";
import { post } from "../api.js";
import { ErrorBox } from "./notices.js";
import { Json } from "./text.js";

const WAYS = [["approve", "Approve"], ["edit", "Edit"], ["reject", "Reject"], ["respond", "Answer"]];
const ASKS = { edit: "The input, as JSON", reject: "Why not (the model is told)", respond: "The result, in place of the tool's" };

/** `run` is a run's object; `done(run)` gets it as it is after the decision. */
export function Decisions({ run, problems = new Map(), done }) {
  const calls = run.required_action?.submit_tool_outputs.tool_calls ?? [];
  const [chosen, setChosen] = useState({});
  const [state, setState] = useState({ busy: false, error: null });
  const choice = (call) => chosen[call.id] ?? { way: "approve", text: "" };
  const set = (call, change) => setChosen({ ...chosen, [call.id]: { ...choice(call), ...change } });
  const send = async (event) => {
    event.preventDefault();
    setState({ busy: true, error: null });
    try {
      const outputs = calls.map((call) => ({ tool_call_id: call.id, output: output(choice(call)) }));
      const after = await post(`/v1/runs/${run.id}/submit_tool_outputs`, { tool_outputs: outputs });
      done?.(after);
    } catch (error) {
      setState({ busy: false, error });
    }
  };
  if (!calls.length) return null;
  return html`<form class="decisions" onSubmit=${send} aria-label="Decide">
    <h2>Waiting for you</h2>
    ${calls.map((call) => html`<${Waiting} key=${call.id} call=${call} problem=${problems.get(call.function.name)} choice=${choice(call)} set=${(change) => set(call, change)} />`)}
    ${state.error && html`<${ErrorBox} error=${state.error} />`}
    <div class="actions"><button class="primary" disabled=${state.busy}>${calls.length > 1 ? "Send all decisions" : "Send decision"}</button></div>
  </form>`;
}

function Waiting({ call, problem, choice, set }) {
  const pick = (way) => set({ way, text: way === "edit" ? pretty(call.function.arguments) : "" });
  return html`<fieldset class="waiting">
    <legend>${call.function.name}</legend>
    ${problem && html`<p class="muted">${problem}</p>`}
    <${Json} label="Input" value=${call.function.arguments} />
    <div class="segments" role="radiogroup" aria-label=${`Decision on ${call.function.name}`}>
      ${WAYS.map(([way, says]) => html`<label key=${way} class=${choice.way === way ? "on" : ""}>
        <input type="radio" name=${call.id} value=${way} checked=${choice.way === way} onChange=${() => pick(way)} />${says}
      </label>`)}
    </div>
    ${ASKS[choice.way] && html`<label class="stack"><span class="label">${ASKS[choice.way]}</span>
      <textarea rows=${choice.way === "edit" ? 5 : 2} value=${choice.text} onInput=${(event) => set({ text: event.target.value })}></textarea>
    </label>`}
  </fieldset>`;
}

const pretty = (text) => {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
};

function output({ way, text }) {
  if (way === "approve") return "approve";
  if (way === "edit") return JSON.stringify({ decision: "edit", arguments: edited(text) });
  return JSON.stringify({ decision: way, message: text });
}

function edited(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error("The edited input is no JSON.");
  }
}
