// @ts-check
// Two runs side by side: their steps, and where they part. Pure.

const DONE = new Set(["result", "repeated"]);

/** Return a run's steps from its events: [{step, log, reply, thought, problem, calls: [{id, tool, input, output, outcome, seconds,
 *  note}], verdicts: [{hook, point, verdict, reason}], tokens, seconds, ended}]. What is withheld is missing. `log` is the log's own number of the step, which a graph's
 *  calls have in common: there, a call after all results is a step of its own. */
export function stepsOf(events) {
  const steps = [];
  const calls = new Map();
  const at = (number, calls = false) => {
    const last = steps[steps.length - 1];
    const over = calls && last?.calls.length && last.calls.every((call) => call.output !== null);
    if (last && last.log === number && !last.ended && !over) return last;
    const made = {
      step: steps.length + 1,
      log: number,
      reply: "",
      thought: "",
      problem: "",
      calls: [],
      verdicts: [],
      tokens: 0,
      seconds: 0,
      ended: null,
    };
    steps.push(made);
    return made;
  };
  for (const { type, data } of events) {
    if (type === "asked" && data.problem) at(data.step).problem = data.problem;
    else if (type === "replied" && data.reply) replied(at(data.step), data.reply);
    else if (type === "called" || type === "paused") called(at, calls, data, type === "paused");
    else if (type === "judged") at(data.step).verdicts.push(data);
    else if (type === "observed") observed(calls, data.observation);
    else if (type === "finished") steps.push(end({ answer: data.answer ?? "" }));
    else if (type === "stopped" && !["AWAITING_HUMAN", "AWAITING_MEMBER"].includes(data.reason))
      steps.push(end({ answer: data.answer ?? "", reason: data.reason, detail: data.detail ?? "" }));
  }
  return steps;
}

const end = (ended) => ({
  step: null,
  log: null,
  reply: "",
  problem: "",
  calls: [],
  verdicts: [],
  tokens: 0,
  seconds: 0,
  ended,
});

function replied(step, reply) {
  step.reply = reply.text ?? "";
  step.thought = reply.reasoning ?? "";
  step.tokens += (reply.usage?.input_tokens ?? 0) + (reply.usage?.output_tokens ?? 0);
  step.seconds += reply.seconds ?? 0;
}

function called(at, calls, data, waits) {
  const action = data.action;
  if (!action) return;
  const known = calls.get(action.id);
  if (known) {
    known.input = action.tool_input;
    known.outcome = waits ? "waits" : "";
    return;
  }
  const made = {
    id: action.id,
    tool: action.tool,
    input: action.tool_input,
    output: null,
    outcome: waits ? "waits" : "",
    seconds: null,
    note: "",
  };
  calls.set(action.id, made);
  at(data.step, true).calls.push(made);
}

function observed(calls, seen) {
  const call = calls.get(seen?.call_id);
  if (call)
    Object.assign(call, {
      output: seen.text ?? "",
      outcome: seen.outcome ?? "result",
      seconds: seen.seconds ?? null,
      note: seen.note ?? "",
    });
}

export const succeeded = (outcome) => DONE.has(outcome);

/** Pair the steps of two runs, and how they ended: [{a, b, same}], either of which may be missing. They are the same
 *  until they part; `parted` is the index of the first pair that differs, or -1. */
export function align(one, other) {
  const rows = [];
  const put = (a, b) => rows.push({ a, b, same: a !== null && b !== null && said(a) === said(b) });
  const [steps, ends] = [
    [one, other].map((its) => its.filter((step) => !step.ended)),
    [one, other].map((its) => its.find((step) => step.ended) ?? null),
  ];
  for (let at = 0; at < Math.max(...steps.map((its) => its.length)); at++)
    put(steps[0][at] ?? null, steps[1][at] ?? null);
  if (ends[0] || ends[1]) put(...ends);
  return { rows, parted: rows.findIndex((row) => !row.same) };
}

/** What of a step counts when runs are compared: all but how long it took and what it cost. */
function said(step) {
  return JSON.stringify([
    step.reply,
    step.problem,
    step.calls.map((call) => [call.tool, sorted(call.input), call.output, call.outcome]),
    step.ended && [step.ended.answer, step.ended.reason ?? ""],
  ]);
}

/** A JSON value with its keys in order. */
function sorted(value) {
  if (Array.isArray(value)) return value.map(sorted);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(
    Object.keys(value)
      .sort()
      .map((name) => [name, sorted(value[name])]),
  );
}
