// @ts-check
// A run's log, folded into what views show of it. Everything here is a pure function of the events.
import { count } from "../format.js";

const PAUSES = ["AWAITING_HUMAN", "AWAITING_MEMBER"];

/** A run's log, folded as it comes: each event is looked at once.
 *  `log` is what the events so far come to:
 *  {started, spans, end, usage, calls, requests, cached, repeated, begin, finish, hidden, todos, versions}
 *  A span is one thing that took time, in the order in which they began:
 *    {kind: "model" | "tool" | "person" | "hook" | "compaction", key, step, start, end, state: "live" | "done" | "failed", …}
 *  of a model also {prompt, messages, closing, problem, aside, shortened, retries, reply, said, thought, hidden},
 *  of a tool {call, action, observation}, of a person {call, action, problem, decision}, of a hook {point, hook, verdict,
 *  reason, call}, of a compaction {prompt, tier, places, texts, before, after, usage, hidden, earlier}. A tool's
 *  `progress` is what it reported; `told` is where the caller learned that the helper in the background ended which this
 *  call made, {step, tool}, or null before. Times are Unix seconds. A span changes until it ends; the list of them only
 *  grows. `todos` is the list of what is to do, as it was last written; `versions` are those of the workspace that calls
 *  made: [{version, step, tool}]. */
export class RunFold {
  log = {
    started: /** @type {any} */ (null),
    spans: /** @type {any[]} */ ([]),
    end: /** @type {any} */ (null),
    hidden: false,
    begin: /** @type {number | null} */ (null),
    finish: /** @type {number | null} */ (null),
    usage: { prompt_tokens: 0, completion_tokens: 0, cached_tokens: 0, cost: 0 },
    calls: 0,
    requests: 0,
    repeated: 0,
    todos: /** @type {any[] | null} */ (null),
    versions: /** @type {any[]} */ ([]),
  };
  last = /** @type {number | null} */ (null); // the id of the last event
  #model = /** @type {any} */ (null); // the request that is open
  #calls = new Map(); // spans by call
  #people = new Map();
  #replies = new Map(); // by step

  /** Take one more event of the log. */
  add(event) {
    const { type, data, withheld } = event;
    this.last = event.id;
    this.log.begin ??= event.created_at;
    this.log.finish = event.created_at;
    if (withheld?.length && !Object.keys(data).length) this.log.hidden = true;
    if (TYPES.has(type)) this[type](data, event);
  }

  started(data, event) {
    this.log.started = { ...data, at: event.created_at };
  }

  asked({ step, prompt, messages = [], closing, problem, aside, shortened }, event) {
    const hidden = Boolean(event.withheld?.includes("messages"));
    const request = { prompt, messages, closing, problem, aside, shortened, hidden };
    this.#model = this.#open("model", step, event, { ...request, retries: [], reply: null, said: "", thought: "" });
  }

  compacted({ step, usage, places = [], texts = [], ...told }, event) {
    const hidden = Boolean(event.withheld?.includes("texts"));
    const earlier = told.prompt < 0 ? (this.log.started?.history ?? []) : []; // the conversation before the run
    const span = this.#open("compaction", step, event, { ...told, places, texts, usage, hidden, earlier });
    Object.assign(span, { end: event.created_at, state: "done" });
    this.#use(usage);
  }

  retried(data, event) {
    if (!this.#model) return;
    this.#model.retries.push({ problem: data.problem ?? "", seconds: data.seconds, at: event.created_at });
    this.#model.said = this.#model.thought = "";
  }

  said(data) {
    if (!this.#model) return;
    this.#model.said += data.text ?? "";
    this.#model.thought += data.reasoning ?? "";
  }

  replied({ reply, step }, event) {
    const span = this.#model;
    this.#model = null;
    if (!span || !reply) return;
    Object.assign(span, { reply, thought: reply.reasoning ?? "", end: event.created_at, state: "done" });
    if (reply.seconds) span.start = Math.max(span.start, event.created_at - reply.seconds);
    this.#replies.set(step, reply);
    this.#use(reply.usage);
    this.log.requests += 1;
  }

  called({ action, step }, event) {
    const known = this.#calls.get(action?.id);
    if (action && known?.end !== null) this.#call(action, step, event); // else it is called again after a crash
  }

  observed({ observation: seen, step }, event) {
    if (!seen) return;
    let span = this.#calls.get(seen.call_id);
    if (span?.end !== null) span = this.#call(this.#actionOf(seen.call_id, step), step, event);
    const good = ["result", "repeated"].includes(seen.outcome);
    Object.assign(span, { observation: seen, end: event.created_at, state: good ? "done" : "failed" });
    if (seen.outcome === "repeated") this.log.repeated += 1;
    this.#use(seen.usage);
    for (const { call, ended } of seen.helpers ?? [])
      if (this.#calls.has(call)) this.#calls.get(call).told = ended ? { step, tool: span.action.tool } : null;
    const { todos, workspace } = workOf(span);
    this.log.todos = todos ?? this.log.todos;
    if (workspace) this.log.versions.push({ version: workspace.version, step, tool: span.action.tool });
  }

  judged({ step, point, hook, verdict, reason, call_id, usage }, event) {
    const span = this.#open("hook", step, event, { point, hook, verdict, reason: reason ?? "", call: call_id, usage });
    this.#use(usage);
    Object.assign(span, { end: event.created_at, state: verdict === "block" ? "failed" : "done" });
  }

  reported(data, event) {
    const span = this.#calls.get(data.call_id);
    if (span) span.progress.push({ ...data, at: event.created_at });
  }

  paused({ action, problem, step }, event) {
    if (!action) return;
    this.#people.set(
      action.id,
      this.#open("person", step, event, { call: action.id, action, problem, decision: null }),
    );
  }

  resumed({ call_id, decision }, event) {
    const span = this.#people.get(call_id);
    if (span) Object.assign(span, { decision, end: event.created_at, state: "done" });
  }

  finished(data, event) {
    this.#end(event, { answer: data.answer ?? "", reason: "ANSWER", values: data.return_values ?? {} });
  }

  stopped({ reason, answer, best, partial, detail }, event) {
    if (PAUSES.includes(reason)) return;
    const unfinished = !answer || reason !== "STAGNATED";
    const hidden = event.withheld?.includes("detail");
    this.#end(event, { answer: answer || best || partial || "", reason, unfinished, detail: detail ?? "", hidden });
  }

  #open(kind, step, event, more) {
    const key = `${KEYS[kind]}${event.id}`;
    const span = { kind, key, step, start: event.created_at, end: null, state: "live", event: event.id, ...more };
    this.log.spans.push(span);
    return span;
  }

  #call(action, step, event) {
    const span = this.#open("tool", step, event, { call: action.id, action, observation: null, progress: [] });
    this.#calls.set(action.id, span);
    this.log.calls += 1;
    return span;
  }

  /** The action of a call that was never begun: refused, unknown or repeated. The reply has it, if the model made a call. */
  #actionOf(id, step) {
    const place = Number(/(\d+)$/.exec(id)?.[1] ?? 0);
    const found = this.#replies.get(step)?.calls?.[place];
    return found ? { ...found, id } : { id, tool: "", tool_input: null };
  }

  #end(event, end) {
    this.log.end = { at: event.created_at, ...end };
    for (const span of this.log.spans)
      if (span.end === null) Object.assign(span, { end: event.created_at, state: "failed" });
  }

  #use(usage) {
    if (!usage) return;
    const sum = this.log.usage;
    sum.prompt_tokens += usage.input_tokens ?? 0;
    sum.completion_tokens += usage.output_tokens ?? 0;
    sum.cached_tokens += usage.cached_tokens ?? 0;
    sum.cost += usage.cost ?? 0;
  }
}

const KEYS = { model: "m", tool: "t", person: "p", hook: "h", compaction: "c" };
const TYPES = new Set(
  "started asked compacted retried said replied called reported observed judged paused resumed finished stopped".split(
    " ",
  ), // its methods
);

/** Return what the events of a whole log come to. */
export function foldRun(events) {
  const fold = new RunFold();
  for (const event of events) fold.add(event);
  return fold.log;
}

/** Return a span's whole prompt: {messages, fresh, sent}. `messages` are those of its prompt's earlier requests, and then a
 *  request's own, as they were written; `fresh` is the index of the first of its own. `sent` are those that the model was
 *  shown: also {fresh: whether it is the request's own, instead: whether it stands in the place of what was written}. */
export function promptOf(spans, span) {
  const messages = [...(span.earlier ?? [])];
  const others = new Map(); // what is shown in the place of messages; an empty one: nothing
  for (const one of spans) {
    if (one === span) break;
    if (one.prompt !== span.prompt) continue;
    if (one.kind === "compaction") for (const [at, place] of one.places.entries()) others.set(place, otherOf(one, at));
    if (one.kind === "model") messages.push(...one.messages);
  }
  const fresh = messages.length;
  if (span.kind === "model") messages.push(...span.messages);
  const sent = messages.map((one, at) => {
    return { ...one, ...others.get(at), fresh: fresh > 0 && at >= fresh, instead: others.has(at) };
  });
  return { messages, fresh, sent: sent.filter((one) => !one.instead || one.content) };
}

const otherOf = ({ tier, texts }, at) => {
  const said = { content: texts[at] ?? "", calls: [] };
  return tier === "summary" ? { ...said, role: "user", tool: "" } : said;
};

/** Return the model span whose prompt this one's is to be compared with: the last before it of another prompt, if this
 *  is the first of its own. */
export function formerPrompt(spans, span) {
  let former = null;
  for (const one of spans) {
    if (one === span) return former;
    if (one.kind !== "model") continue;
    if (one.prompt === span.prompt) return null;
    former = one;
  }
  return null;
}

/** A prompt as one text, by which two are compared. */
export const promptText = (messages) => messages.map((one) => `${one.role}:\n${one.content}${calls(one)}`).join("\n\n");
const calls = (one) => (one.calls ?? []).map((made) => `\n→ ${made.tool} ${JSON.stringify(made.tool_input)}`).join("");

/** The name of a span in lists. */
export function title(span) {
  if (span.kind === "model")
    return span.closing
      ? "Closing question"
      : span.aside
        ? "Check"
        : span.prompt > 0
          ? `Prompt ${span.prompt + 1}`
          : "Model";
  if (span.kind === "hook") return span.hook;
  if (span.kind === "compaction") return TIERS[span.tier] ?? "Shown less";
  if (span.kind === "person") return `Person: ${span.action.tool}`;
  return span.action.tool || "Call";
}

/** One line on what a span did. */
export function summary(span) {
  if (span.kind === "model") return line(span.reply ? span.reply.text || called(span.reply) : span.said);
  if (span.kind === "hook")
    return span.reason ? line(`${POINTS[span.point] ?? span.point}: ${span.reason}`) : verdictOf(span);
  if (span.kind === "compaction")
    return `${count(span.places.length)} messages, ${count(span.before)} → ${count(span.after)} tokens`;
  if (span.kind === "person") return span.decision ? decided(span.decision) : line(span.problem || "waits");
  const last = span.state === "live" ? span.progress[span.progress.length - 1] : null;
  if (last) return line(progressOf(last));
  const { todos } = workOf(span);
  if (todos) return doneOf(todos);
  if (span.action.tool === "run_command") return line(`$ ${span.action.tool_input?.command ?? ""}`);
  return line(typeof span.action.tool_input === "string" ? span.action.tool_input : compact(span.action.tool_input));
}

const TIERS = { clear: "Old results cleared", summary: "Earlier turns summarized", drop: "Oldest turns dropped" };

/** What a hook did, in words. */
export function verdictOf({ verdict, point }) {
  const did = { pass: "let pass", change: "changed", block: "blocked", ask: "asks a person about" }[verdict] ?? verdict;
  return `${did} ${POINTS[point] ?? point}`;
}

const POINTS = {
  before_run: "the question",
  before_model: "the request",
  after_model: "the reply",
  before_tool: "the call",
  after_tool: "the result",
  before_answer: "the answer",
};

/** What a call says beside its text of files, of a command, or of what is to do: {workspace, command, todos}, each null
 *  unless it has its form: the data is a tool's, of whatever source. */
export function workOf({ observation, action }) {
  const { workspace, command, todos } = Object(observation?.data);
  const wrote = Number.isInteger(workspace?.version) && Array.isArray(workspace.changed);
  return {
    workspace: wrote && workspace.changed.every((one) => typeof one?.path === "string") ? workspace : null,
    command: action.tool === "run_command" && command && typeof command === "object" ? command : null,
    todos: action.tool === "write_todos" ? todosIn(todos) : null,
  };
}

/** The list of what is to do, if it is one. */
export const todosIn = (todos) =>
  Array.isArray(todos) && todos.every((one) => typeof one?.text === "string" && typeof one.status === "string")
    ? todos
    : null;

/** How far a list of what is to do is, in words. */
export const doneOf = (items) => `${items.filter((one) => one.status === "completed").length} of ${items.length} done`;

/** How far a call is, in words. */
export const progressOf = ({ text, done, total }) =>
  done == null ? text : `${text} (${done}${total == null ? "" : ` of ${total}`})`;

/** What was decided about a call, in words. */
export const decided = ({ kind, always, policy }) =>
  policy ? "always approved: nobody was asked" : always ? `${kind}, and always from now on` : kind;

const called = (reply) => (reply.calls ?? []).map((one) => `→ ${one.tool}`).join("  ");
const line = (text) =>
  String(text ?? "")
    .slice(0, 400)
    .replace(/\s+/g, " ")
    .trim();

function compact(input) {
  if (!input || typeof input !== "object") return input == null ? "" : String(input);
  return Object.entries(input)
    .map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(", ");
}

/** Return a span's place on a time line as shares of 1: {left, width}. */
export function place(span, begin, finish) {
  const whole = Math.max(finish - begin, 1e-6);
  const left = Math.min(Math.max((span.start - begin) / whole, 0), 1);
  const right = Math.min(Math.max(((span.end ?? finish) - begin) / whole, left), 1);
  return { left, width: right - left };
}

/** Return round times for the marks of a time line of so many seconds. */
export function ticks(seconds, most = 6) {
  if (!(seconds >= 0.002)) return [0];
  const rough = seconds / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough) ?? 10 * power;
  return Array.from({ length: Math.floor(seconds / step + 1e-9) + 1 }, (_, at) => at * step);
}
