// A run's log, folded into what views show of it. Everything here is a pure function of the events.

const PAUSES = ["AWAITING_HUMAN", "AWAITING_MEMBER"];

/** Return what events come to:
 *  {started, spans, end, usage, requests, cached, repeated, begin, finish, hidden}
 *  A span is one thing that took time, in the order in which they began:
 *    {kind: "model" | "tool" | "person", key, step, start, end, state: "live" | "done" | "failed", …}
 *  of a model also {prompt, messages, closing, problem, aside, shortened, retries, reply, said, thought, hidden},
 *  of a tool {call, action, observation}, of a person {call, action, problem, decision}. Times are Unix seconds. */
export function foldRun(events) {
  const log = {
    started: null, spans: [], end: null, hidden: false, begin: null, finish: null,
    usage: { prompt_tokens: 0, completion_tokens: 0, cached_tokens: 0, cost: 0 }, requests: 0, repeated: 0,
  };
  const open = { model: null, calls: new Map(), people: new Map(), replies: new Map() };
  for (const event of events) {
    const fold = Object.hasOwn(FOLDS, event.type) ? FOLDS[event.type] : null;
    log.begin ??= event.created_at;
    log.finish = event.created_at;
    if (event.withheld?.length && !Object.keys(event.data).length) log.hidden = true;
    if (fold) fold(log, open, event, event.data);
  }
  return log;
}

const FOLDS = {
  started(log, open, event, data) {
    log.started = { ...data, at: event.created_at };
  },
  asked(log, open, event, data) {
    const hidden = Boolean(event.withheld?.includes("messages"));
    open.model = {
      kind: "model", key: `m${event.id}`, step: data.step, start: event.created_at, end: null, state: "live",
      prompt: data.prompt, messages: data.messages ?? [], closing: data.closing, problem: data.problem,
      aside: data.aside, shortened: data.shortened, retries: [], reply: null, said: "", thought: "", hidden, event: event.id,
    };
    log.spans.push(open.model);
  },
  retried(log, open, event, data) {
    if (!open.model) return;
    open.model.retries.push({ problem: data.problem ?? "", seconds: data.seconds, at: event.created_at });
    open.model.said = open.model.thought = "";
  },
  said(log, open, event, data) {
    if (!open.model) return;
    open.model.said += data.text ?? "";
    open.model.thought += data.reasoning ?? "";
  },
  replied(log, open, event, data) {
    const span = open.model;
    open.model = null;
    if (!span || !data.reply) return;
    Object.assign(span, { reply: data.reply, thought: data.reply.reasoning ?? "", end: event.created_at, state: "done" });
    if (data.reply.seconds) span.start = Math.max(span.start, event.created_at - data.reply.seconds);
    open.replies.set(data.step, data.reply);
    add(log, data.reply.usage);
    log.requests += 1;
  },
  called(log, open, event, data) {
    if (!data.action) return;
    const known = open.calls.get(data.action.id);
    if (known && known.end === null) return; // it is called again after a crash
    call(log, open, event, data.action, data.step);
  },
  observed(log, open, event, data) {
    const seen = data.observation;
    if (!seen) return;
    let span = open.calls.get(seen.call_id);
    if (!span || span.end !== null) span = call(log, open, event, actionOf(open, seen.call_id, data.step), data.step);
    const good = ["result", "repeated"].includes(seen.outcome);
    Object.assign(span, { observation: seen, end: event.created_at, state: good ? "done" : "failed" });
    if (seen.outcome === "repeated") log.repeated += 1;
    add(log, seen.usage);
  },
  paused(log, open, event, data) {
    if (!data.action) return;
    const span = {
      kind: "person", key: `p${event.id}`, step: data.step, start: event.created_at, end: null, state: "live",
      call: data.action.id, action: data.action, problem: data.problem, decision: null, event: event.id,
    };
    open.people.set(data.action.id, span);
    log.spans.push(span);
  },
  resumed(log, open, event, data) {
    const span = open.people.get(data.call_id);
    if (span) Object.assign(span, { decision: data.decision, end: event.created_at, state: "done" });
  },
  finished(log, open, event, data) {
    log.end = { at: event.created_at, answer: data.answer ?? "", reason: "ANSWER", values: data.return_values ?? {} };
    close(log, event.created_at);
  },
  stopped(log, open, event, data) {
    if (PAUSES.includes(data.reason)) return;
    log.end = { at: event.created_at, answer: data.answer || data.best || data.partial || "", reason: data.reason, unfinished: !data.answer || data.reason !== "STAGNATED", detail: data.detail ?? "", hidden: event.withheld?.includes("detail") };
    close(log, event.created_at);
  },
};

function call(log, open, event, action, step) {
  const span = {
    kind: "tool", key: `t${event.id}`, step, start: event.created_at, end: null, state: "live",
    call: action.id, action, observation: null, event: event.id,
  };
  open.calls.set(action.id, span);
  log.spans.push(span);
  return span;
}

/** The action of a call that was never begun: refused, unknown or repeated. The reply has it, if the model made a call. */
function actionOf(open, id, step) {
  const place = Number(/(\d+)$/.exec(id)?.[1] ?? 0);
  const found = open.replies.get(step)?.calls?.[place];
  return found ? { ...found, id } : { id, tool: "", tool_input: null };
}

function close(log, at) {
  for (const span of log.spans) if (span.end === null) Object.assign(span, { end: at, state: "failed" });
}

function add(log, usage) {
  if (!usage) return;
  log.usage.prompt_tokens += usage.input_tokens ?? 0;
  log.usage.completion_tokens += usage.output_tokens ?? 0;
  log.usage.cached_tokens += usage.cached_tokens ?? 0;
  log.usage.cost += usage.cost ?? 0;
}

/** Return the messages of the whole prompt that a model span sent: those of its prompt's earlier requests, and then its
 *  own. `fresh` is the index of the first of its own. */
export function promptOf(spans, span) {
  const messages = [];
  for (const one of spans) {
    if (one.kind !== "model" || one.prompt !== span.prompt) continue;
    if (one === span) return { messages: [...messages, ...one.messages], fresh: messages.length };
    messages.push(...one.messages);
  }
  return { messages, fresh: messages.length };
}

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
  if (span.kind === "model") return span.closing ? "Closing question" : span.aside ? "Check" : span.prompt > 0 ? `Prompt ${span.prompt + 1}` : "Model";
  if (span.kind === "person") return `Person: ${span.action.tool}`;
  return span.action.tool || "Call";
}

/** One line on what a span did. */
export function summary(span) {
  if (span.kind === "model") return line(span.reply ? span.reply.text || called(span.reply) : span.said);
  if (span.kind === "person") return span.decision ? span.decision.kind : line(span.problem || "waits");
  return line(typeof span.action.tool_input === "string" ? span.action.tool_input : compact(span.action.tool_input));
}

const called = (reply) => (reply.calls ?? []).map((one) => `→ ${one.tool}`).join("  ");
const line = (text) => String(text ?? "").slice(0, 400).replace(/\s+/g, " ").trim();

function compact(input) {
  if (!input || typeof input !== "object") return input == null ? "" : String(input);
  return Object.entries(input).map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`).join(", ");
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
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
  return Array.from({ length: Math.floor(seconds / step + 1e-9) + 1 }, (_, at) => at * step);
}
