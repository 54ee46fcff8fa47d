// @ts-check
// A response as it arrives: a fold over the events of the Responses API. Pure.

import { parsed } from "../format.js";
import { todosIn } from "./run_log.js";

export const FRESH = { id: "", status: "queued", items: [], error: null, usage: null, last: -1 };
const ENDS = ["completed", "failed", "incomplete", "cancelled"];

/** Return the response after one more event ({type, …}). `last` is the number of the last event. */
export function afterEvent(state, event) {
  if (event.type === "error")
    return { ...state, status: "failed", error: event.message ?? event.error?.message ?? "The run failed." };
  if (event.sequence_number != null && event.sequence_number <= state.last) return state;
  const next = { ...state, last: event.sequence_number ?? state.last };
  if (event.response) return told(next, event.response);
  const at = event.output_index;
  if (at == null) return next;
  if (event.item) return put(next, at, event.item);
  const item = next.items[at];
  if (!item) return next;
  switch (event.type) {
    case "response.output_text.delta":
      return put(next, at, { ...item, text: (item.text ?? "") + event.delta });
    case "response.output_text.done":
      return put(next, at, { ...item, text: event.text });
    case "response.reasoning_summary_text.delta":
      return put(next, at, { ...item, text: (item.text ?? "") + event.delta });
    case "response.mcp_call_arguments.done":
      return put(next, at, { ...item, arguments: event.arguments });
    case "response.refusal.done":
      return put(next, at, { ...item, text: event.refusal });
    default:
      return next;
  }
}

function told(state, response) {
  const over = ENDS.includes(response.status);
  const items = over ? response.output.map((item, at) => ({ ...state.items[at], ...item })) : state.items;
  return {
    ...state,
    id: response.id,
    status: response.status,
    usage: response.usage ?? state.usage,
    items,
    error: response.error?.message ?? state.error,
    reason: response.incomplete_details?.reason ?? null,
  };
}

function put(state, at, item) {
  const items = [...state.items];
  items[at] = { ...items[at], ...item };
  return { ...state, items };
}

export const isOver = (state) => ENDS.includes(state.status);

/** What is said in a message item. */
export const textOf = (item) =>
  item.text ?? (item.content ?? item.summary ?? []).map((part) => part.text ?? part.refusal ?? "").join("");

/** The list of what is to do as the items of responses last wrote it; null: never. */
export function todosOf(items) {
  const [last] = items
    .filter((item) => item.name === "write_todos" && item.status === "completed" && !item.error)
    .slice(-1);
  return todosIn(parsed(last?.arguments)?.items);
}

/** The calls that wait for a person. */
export const waiting = (state) =>
  isOver(state) ? state.items.filter((item) => item?.type === "mcp_approval_request") : [];

/** The run behind a response: "resp_ab12x1" → "run_ab12". */
export const runOf = (id) => `run_${id.replace(/^resp_/, "").replace(/x\d+$/, "")}`;

/** The answer to an approval request, as an item of the next request. `decision` is {kind: "approve" | "edit" |
 *  "reject" | "respond", arguments, message, always}. */
export function answerItem(request, decision) {
  if (decision.kind === "approve" && !decision.always)
    return { type: "mcp_approval_response", approval_request_id: request.id, approve: true };
  const { kind, message, arguments: edited, always } = decision;
  const said =
    kind === "edit"
      ? { decision: kind, arguments: edited }
      : always
        ? { decision: kind, always }
        : { decision: kind, message };
  return {
    type: "function_call_output",
    call_id: `call_${request.id.replace(/^mcpr_/, "")}`,
    output: JSON.stringify(said),
  };
}
