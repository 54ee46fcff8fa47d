// @ts-check
// A conversation with an agent by the Responses API, which goes on while other views are shown. It is this tab's alone,
// and forgotten when its user signs out.
import { ApiError, post, request, stream } from "../api.js";
import { afterEvent, answerItem, FRESH, isOver, waiting } from "../folds/response_stream.js";
import { useEffect, useState } from "../html.js";

const TRIES = 4; // to go on with a stream that was cut
const INLINE = 2_000_000; // bytes of an image that is sent with the request; larger ones are uploaded
const MOST_BYTES = 20_000_000;

let chat = fresh();
const readers = new Set();
window.addEventListener("retinue:signed-out", reset);

function fresh(agent = "") {
  return { agent, turns: /** @type {any[]} */ ([]), sending: false };
}

function changed() {
  chat = { ...chat };
  for (const tell of readers) tell(chat);
}

/** The conversation, as it is now. */
export function useChat() {
  const [now, setNow] = useState(chat);
  useEffect(() => {
    setNow(chat);
    readers.add(setNow);
    return () => readers.delete(setNow);
  }, []);
  return now;
}

/** Begin another conversation. What is under way goes on by itself. */
export function reset(agent) {
  chat = fresh(typeof agent === "string" ? agent : "");
  changed();
}

/** Say something: `parts` are images and files from `attach`. */
export function say(text, parts) {
  const content = [...(text ? [{ type: "input_text", text }] : []), ...parts.map((part) => part.content)];
  const turn = { id: `${Date.now()}-${chat.turns.length}`, text, parts, responses: [], error: null };
  const previous = lastResponse();
  chat.turns = [...chat.turns, turn];
  return follow(chat, turn, [{ type: "message", role: "user", content }], previous);
}

/** Answer the calls that wait, with a decision for each by its id. */
export function decide(turn, decisions) {
  const last = turn.responses[turn.responses.length - 1];
  const items = waiting(last).map((request) => answerItem(request, decisions[request.id]));
  last.decisions = decisions;
  return follow(chat, turn, items, last.id);
}

/** Ask the server to stop what is under way. */
export async function stop() {
  const turn = chat.turns[chat.turns.length - 1];
  const last = turn?.responses[turn.responses.length - 1];
  if (!last?.id) return;
  try {
    await post(`/v1/responses/${last.id}/cancel`);
  } catch (error) {
    turn.error = error.message;
    changed();
  }
}

function lastResponse() {
  const found = chat.turns
    .flatMap((turn) => turn.responses)
    .filter((one) => one.id && one.status !== "cancelled" && one.status !== "failed");
  return found.length ? found[found.length - 1].id : null;
}

async function follow(mine, turn, input, previous) {
  const body = {
    model: mine.agent,
    input,
    stream: true,
    background: true,
    include: ["mcp_call"],
    reasoning: { summary: "auto" },
    ...(previous ? { previous_response_id: previous } : {}),
  };
  const at = turn.responses.length;
  let state = { ...FRESH, began: performance.now(), times: {} };
  const show = (next) => {
    state = turn.responses[at] = next;
    if (chat.turns.includes(turn)) changed();
  };
  turn.error = null;
  chat.sending = true;
  show(state);
  try {
    await read(body, () => state, show);
  } catch (error) {
    turn.error = error.message;
    if (!state.id) turn.responses.splice(at, 1);
  }
  if (!chat.turns.includes(turn)) return;
  chat.sending = false;
  changed();
}

/** Read a response's events to its end; a stream that is cut is continued after the last event. */
async function read(body, now, show) {
  for (let tries = 0; ; tries++) {
    try {
      const { id, last } = now();
      const events = id
        ? stream(`/v1/responses/${id}?stream=true&starting_after=${last}`)
        : stream("/v1/responses", { method: "POST", body });
      for await (const { data } of events) {
        if (data.startsWith("{")) show(timed(now(), JSON.parse(data)));
      }
    } catch (error) {
      if (!now().id || (error instanceof ApiError && error.status) || tries >= TRIES) throw error;
    }
    if (isOver(now()) || now().error) return;
    if (!now().id || tries >= TRIES) throw new ApiError(0, "The answer was cut. The run may go on: open it to see.");
    await new Promise((resolve) => setTimeout(resolve, 300 * 2 ** tries));
  }
}

/** The response after an event, with when each of its items began and ended. */
function timed(state, event) {
  const next = afterEvent(state, event);
  const at = performance.now();
  const index = event.output_index;
  const known = state.times[index] ?? {};
  if (event.type === "response.output_item.added") next.times = { ...state.times, [index]: { began: at } };
  if (event.type === "response.output_item.done") next.times = { ...state.times, [index]: { ...known, ended: at } };
  if (isOver(next) && !state.ended) next.ended = at;
  return next;
}

/** Take in a file: return {name, content, preview}, where `content` is a part of a message. Raises for one too large. */
export async function attach(file) {
  if (file.size > MOST_BYTES) throw new Error(`${file.name} is too large: files have at most 20 MB.`);
  const image = /^image\/(png|jpeg|gif|webp)$/.test(file.type);
  const preview = image ? URL.createObjectURL(file) : null;
  if (image && file.size <= INLINE)
    return { name: file.name, preview, content: { type: "input_image", image_url: await dataUrl(file) } };
  const form = new FormData();
  form.append("purpose", image ? "vision" : "user_data");
  form.append("file", file, file.name);
  const { id } = await (await request("POST", "/v1/files", { body: form })).json();
  return {
    name: file.name,
    preview,
    content: image ? { type: "input_image", file_id: id } : { type: "input_file", file_id: id },
  };
}

function dataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(new Error(`${file.name} cannot be read.`));
    reader.readAsDataURL(file);
  });
}
