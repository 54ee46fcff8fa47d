// @ts-check
// A new run that begins as another did, up to a step, and then goes on with something changed.
import { post } from "../api.js";
import { html, useState } from "../html.js";
import { navigate } from "../router.js";
import { Dialog, ErrorBox } from "./elements.js";
import { useGet, useSession } from "./hooks.js";

/** `calls` are the observed calls of the step, which can be edited: [{id, tool, text}]. `full` says whether the model is to
 *  see the prompts again as they were before they were compacted, unless the user decides else; null: none was. */
export function Fork({ run, step, calls, instructions, full, close }) {
  const { prompts } = useSession();
  const { data } = useGet("/v1/studio/agents");
  const agents = (data?.data ?? []).map((one) => one.id);
  const [state, setState] = useState({ busy: false, error: /** @type {any} */ (null) });
  const send = async (event) => {
    event.preventDefault();
    const given = new FormData(event.target);
    setState({ busy: true, error: null });
    try {
      const made = await post(`/v1/runs/${run.id}/fork`, changes(given, step, calls, instructions));
      navigate(`/runs/${made.id}`);
    } catch (error) {
      setState({ busy: false, error });
    }
  };
  return html`<${Dialog} title=${`Fork from step ${step}`} close=${close}>
    <form class="stack" onSubmit=${send}>
      <p class="muted">A new run takes over everything up to this step, and then goes on by itself. Calls that were made before are not made again.</p>
      ${calls.map((one) => html`<label key=${one.id} class="stack"><span class="label">Output of ${one.tool}</span><textarea name=${`call:${one.id}`} rows="4">${one.text}</textarea></label>`)}
      ${prompts && html`<label class="stack"><span class="label">Instructions (a change begins a new prompt)</span><textarea name="instructions" rows="3">${instructions ?? ""}</textarea></label>`}
      ${full != null && html`<label class="row"><input type="checkbox" name="full" checked=${full} /> Show the model its full prompt again, without the compactions</label>`}
      <label class="stack"><span class="label">Agent that goes on</span><select name="model">
        <option value="">${run.model}</option>
        ${agents.filter((one) => one !== run.model).map((one) => html`<option key=${one} value=${one}>${one}</option>`)}
      </select></label>
      ${state.error && html`<${ErrorBox} error=${state.error} />`}
      <div class="actions"><button class="primary" disabled=${state.busy}>Fork</button><button type="button" onClick=${close}>Cancel</button></div>
    </form>
  <//>`;
}

function changes(given, step, calls, instructions) {
  const body = { step };
  const edited = calls.filter((one) => given.get(`call:${one.id}`) !== one.text);
  if (edited.length) body.observations = Object.fromEntries(edited.map((one) => [one.id, given.get(`call:${one.id}`)]));
  const said = given.get("instructions");
  if (said !== null && said !== (instructions ?? "")) body.instructions = said;
  if (given.get("full")) body.compacted = false;
  if (given.get("model")) body.model = given.get("model");
  return body;
}
