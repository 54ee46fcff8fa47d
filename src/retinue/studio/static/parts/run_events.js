// @ts-check
// The logs of runs: as they stand, and as they are written.
import { ApiError, get, list, pages, stream } from "../api.js";
import { foldRun, RunFold } from "../folds/run_log.js";
import { useCallback, useEffect, useRef, useState } from "../html.js";

const AGAIN = 1_000; // milliseconds after which a stream that was cut is asked for again
const MOST = 3_000; // events of a run, as many as a view of whole runs can use

const addressOf = (id) => `/v1/runs/${encodeURIComponent(id)}`;

/** Return the events of a run's log, oldest first.
 * @param {string} id
 * @param {AbortSignal} [signal]
 * @returns {Promise<any[]>} */
export const allEvents = (id, signal, most = MOST) => list(`${addressOf(id)}/events`, {}, signal, most);

/** Return a run with its events: {run, events}. */
export async function runWithEvents(id, signal) {
  const [run, events] = await Promise.all([get(addressOf(id), {}, { signal }), allEvents(id, signal)]);
  return { run, events };
}

const EMPTY = { run: /** @type {any} */ (null), log: new RunFold().log, error: /** @type {any} */ (null) };

/** Follow a run. Return {run, log, error, reload}: its row, and what `RunFold` makes of its events. They are updated at
 *  most once a frame; then `log` is a new object, whose parts are the same ones. */
export function useRun(id) {
  const [turn, setTurn] = useState(0);
  const [state, setState] = useState(EMPTY);
  useEffect(() => {
    let frame = 0;
    const leaving = new AbortController();
    const heard = new Following(id, leaving.signal, () => {
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        setState({ run: heard.run, log: { ...heard.fold.log }, error: heard.error });
      });
    });
    setState(EMPTY);
    heard.follow();
    return () => {
      leaving.abort();
      cancelAnimationFrame(frame);
    };
  }, [id, turn]);
  return { ...state, reload: () => setTurn((before) => before + 1) };
}

/** What was heard of a run: what there is in large pages, and then a stream of each event. `show` is called after each. */
class Following {
  run = /** @type {any} */ (null);
  error = /** @type {any} */ (null);
  fold = new RunFold();

  /** @param {string} id
   * @param {AbortSignal} signal
   * @param {() => void} show */
  constructor(id, signal, show) {
    this.path = addressOf(id);
    this.signal = signal;
    this.show = show;
  }

  async follow() {
    while (!this.signal.aborted) {
      try {
        if (this.fold.last === null) await this.#readSoFar();
        if (await this.#readStream()) return;
      } catch (error) {
        if (this.signal.aborted) return;
        this.error = error;
        this.show();
        if (error instanceof ApiError && error.status >= 400 && error.status < 500) return; // it would be refused again
      }
      await new Promise((done) => setTimeout(done, AGAIN));
    }
  }

  async #readSoFar() {
    const row = get(this.path, { log: false }, { signal: this.signal }).then((run) => {
      this.run ??= run;
      this.show();
    });
    row.catch(() => {}); // whichever is refused first is told
    for await (const page of pages(`${this.path}/events`, {}, this.signal)) {
      for (const event of page) this.fold.add(event);
      this.show();
    }
    await row;
  }

  /** Return whether the run ended; else the stream was cut. */
  async #readStream() {
    const address = `${this.path}/events?stream=true`;
    for await (const { event, data } of stream(address, { signal: this.signal, since: this.fold.last })) {
      if (data === "[DONE]") return true;
      const told = JSON.parse(data);
      if (event === "run") this.run = told;
      else if (event === "event") this.fold.add(told);
      else if (event === "error") throw new ApiError(500, told.error?.message ?? "The stream was cut.");
      this.error = null;
      this.show();
    }
    return false;
  }
}

const NO_MEMBERS = { byCall: new Map(), logs: new Map() };

/** Return [members, open]: the runs of a run's members as `timelineRows` takes them; `open(run)` reads a member's log and
 *  its own members. `calls` is the number of calls of the run `id`: members are looked up again when it grows.
 * @param {string} id
 * @param {number} calls
 * @param {boolean} active
 * @returns {[typeof NO_MEMBERS, (run: any) => Promise<void>]} */
export function useMembers(id, calls, active) {
  const [members, setMembers] = useState(NO_MEMBERS);
  const read = useRef(new Set());
  const look = useCallback(async (run) => {
    const found = await list("/v1/runs", { parent: run, limit: 100, order: "asc" });
    if (!found.length) return;
    setMembers(({ byCall, logs }) => {
      const added = found.map((one) => /** @type {[string, any]} */ ([`${run}/${one.call_id}`, one]));
      return { byCall: new Map([...byCall, ...added]), logs };
    });
  }, []);
  const works = active && [...members.byCall.values()].some((one) => !one.ended_at);
  useEffect(() => {
    if (!calls) return;
    const again = () => look(id).catch(() => {});
    const timer = setTimeout(again, active ? 300 : 0);
    const pulse = works ? setInterval(again, AGAIN) : undefined; // one in the background ends without an event here
    return () => {
      clearTimeout(timer);
      clearInterval(pulse);
    };
  }, [id, calls, active, works]);
  const open = useCallback(async (run) => {
    if (read.current.has(run.id) && run.ended_at) return;
    read.current.add(run.id);
    const events = await allEvents(run.id, undefined, Number.POSITIVE_INFINITY);
    setMembers((before) => ({ ...before, logs: new Map(before.logs).set(run.id, foldRun(events)) }));
    await look(run.id);
  }, []);
  return [members, open];
}
