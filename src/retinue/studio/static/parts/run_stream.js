// The log of a run as it is written: what there is in large pages, and then a stream of each event.
import { useEffect, useMemo, useRef, useState } from "../html.js";
import { ApiError, get, stream } from "../api.js";
import { foldRun } from "../folds/run_log.js";

const PAGE = 1_000; // events
const AGAIN = 1_000; // milliseconds after which a stream that was cut is asked for again

/** Follow a run. Return {run, events, log, error, reload}: its row, its events, and what `foldRun` makes of them. They
 *  are updated at most once a frame. */
export function useRun(id) {
  const [turn, setTurn] = useState(0);
  const [state, setState] = useState(EMPTY);
  const frame = useRef(0);
  useEffect(() => {
    const leaving = new AbortController();
    const heard = { run: null, events: [], error: null };
    const show = () => {
      frame.current ||= requestAnimationFrame(() => {
        frame.current = 0;
        setState({ run: heard.run, events: heard.events, error: heard.error, count: heard.events.length });
      });
    };
    setState(EMPTY);
    follow(id, heard, show, leaving.signal);
    return () => {
      leaving.abort();
      cancelAnimationFrame(frame.current);
      frame.current = 0;
    };
  }, [id, turn]);
  const log = useMemo(() => foldRun(state.events), [state.events, state.count]);
  return { ...state, log, reload: () => setTurn((before) => before + 1) };
}

const EMPTY = { run: null, events: [], error: null, count: 0 };

async function follow(id, heard, show, signal) {
  const path = `/v1/runs/${encodeURIComponent(id)}`;
  while (!signal.aborted) {
    try {
      if (!heard.events.length) await readSoFar(path, heard, show, signal);
      const since = heard.events.length ? heard.events[heard.events.length - 1].id : null;
      for await (const { event, data } of stream(`${path}/events?stream=true`, { signal, since })) {
        if (data === "[DONE]") return;
        const told = JSON.parse(data);
        if (event === "run") heard.run = told;
        else if (event === "event") heard.events.push(told);
        else if (event === "error") throw new ApiError(500, told.error?.message ?? "The stream was cut.");
        heard.error = null;
        show();
      }
    } catch (error) {
      if (signal.aborted) return;
      heard.error = error;
      show();
      if (error.status >= 400 && error.status < 500) return; // it would be refused again
    }
    await new Promise((done) => setTimeout(done, AGAIN));
  }
}

async function readSoFar(path, heard, show, signal) {
  const row = get(path, { log: false }, { signal }).then((run) => ((heard.run ??= run), show()));
  row.catch(() => {}); // whichever is refused first is told
  for (let more = true; more; ) {
    const page = await get(`${path}/events`, { limit: PAGE, after: heard.events[heard.events.length - 1]?.id }, { signal });
    heard.events.push(...page.data);
    more = page.has_more && page.data.length > 0;
    show();
  }
  await row;
}
