// The runs of a run's members, read when they are opened.
import { useCallback, useEffect, useRef, useState } from "../html.js";
import { get } from "../api.js";
import { foldRun } from "../folds/run_log.js";

/** Return [members, open]: `members` as `timelineRows` takes them; `open(run)` reads a member's log and its own
 *  members. `calls` is the number of calls of the run `id`: members are looked up again when it grows. */
export function useMembers(id, calls, active) {
  const [members, setMembers] = useState(NONE);
  const read = useRef(new Set());
  const look = useCallback(async (run) => {
    const found = await listed("/v1/runs", { parent: run, limit: 100, order: "asc" });
    if (!found.length) return;
    setMembers((before) => {
      const byCall = new Map(before.byCall);
      for (const one of found) byCall.set(`${run}/${one.call_id}`, one);
      return { ...before, byCall };
    });
  }, []);
  useEffect(() => {
    if (!calls) return;
    const timer = setTimeout(() => look(id).catch(() => {}), active ? 300 : 0);
    return () => clearTimeout(timer);
  }, [id, calls, active]);
  const open = useCallback(async (run) => {
    if (read.current.has(run.id) && run.ended_at) return;
    read.current.add(run.id);
    const events = await listed(`/v1/runs/${run.id}/events`, { limit: 1000 });
    setMembers((before) => ({ ...before, logs: new Map(before.logs).set(run.id, foldRun(events)) }));
    await look(run.id);
  }, []);
  return [members, open];
}

const NONE = { byCall: new Map(), logs: new Map() };

async function listed(path, query) {
  const found = [];
  let after;
  for (;;) {
    const page = await get(path, { ...query, after });
    found.push(...page.data);
    if (!page.has_more || !page.data.length) return found;
    after = page.last_id;
  }
}
