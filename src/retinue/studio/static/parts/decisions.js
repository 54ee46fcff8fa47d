// @ts-check
// The calls that a run waits for, for a person to decide on. They are answered together, once each is decided on; until
// then this tab keeps the decisions, also when it is reloaded.
import { html, useState } from "../html.js";
import { CallDecision } from "./call_decision.js";
import { ErrorBox } from "./elements.js";

const DECIDED = {
  approve: "approved",
  edit: "edited and approved",
  reject: "rejected",
  respond: "answered in place of",
};

/** What a person decided on a call of `tool`. */
export const Decided = ({ tool, decision }) =>
  html`You ${decision.always ? "always approve" : DECIDED[decision.kind]} <span class="tool-name">${tool}</span>.`;

/** `calls` are {id, tool, arguments, question?, user?}; `send` gets the decisions, {kind, arguments?, message?, always?}, by the calls' ids. */
export function Decisions({ calls, send }) {
  const kept = `retinue.decisions.${calls.map((one) => one.id).join()}`;
  const [{ made, busy, error }, setState] = useState(() => ({
    made: JSON.parse(sessionStorage.getItem(kept) ?? "{}"),
    busy: false,
    error: /** @type {any} */ (null),
  }));
  const take = (call) => async (decision) => {
    const all = { ...made, [call.id]: decision };
    if (!calls.every((one) => all[one.id])) {
      sessionStorage.setItem(kept, JSON.stringify(all));
      return setState({ made: all, busy: false, error: null });
    }
    sessionStorage.removeItem(kept);
    setState({ made, busy: true, error: null });
    try {
      await send(all);
    } catch (refused) {
      setState({ made: {}, busy: false, error: refused });
    }
  };
  return html`
    ${calls.map((call) =>
      made[call.id]
        ? html`<p key=${call.id} class="muted"><${Decided} tool=${call.tool} decision=${made[call.id]} /> This is sent once the others are decided, too.</p>`
        : html`<${CallDecision} key=${call.id} call=${call} decide=${take(call)} busy=${busy} />`,
    )}
    ${error && html`<${ErrorBox} error=${error} />`}
  `;
}
