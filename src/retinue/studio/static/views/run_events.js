// Reading runs and their logs.
import { get } from "../api.js";

const PAGE = 1_000;
const MOST = 3_000; // events of a run

/** Return the events of a run's log, oldest first, as many as a view can use. */
export async function allEvents(id, signal, most = MOST) {
  const found = [];
  for (;;) {
    const after = found.length ? found[found.length - 1].id : 0;
    const page = await get(`/v1/runs/${encodeURIComponent(id)}/events`, { after, limit: PAGE }, { signal });
    found.push(...page.data);
    if (!page.has_more || !page.data.length || found.length >= most) return found;
  }
}

/** Return a run with its events: {run, events}. */
export async function runWithEvents(id, signal) {
  const [run, events] = await Promise.all([get(`/v1/runs/${encodeURIComponent(id)}`, {}, { signal }), allEvents(id, signal)]);
  return { run, events };
}

/** What a run was asked, as far as this key may see it. */
export const questionOf = (events) => events.find((one) => one.type === "started")?.data.question ?? "";
