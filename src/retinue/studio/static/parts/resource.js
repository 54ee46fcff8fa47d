import { useCallback, useEffect, useRef, useState } from "../html.js";

/** What `load(signal)` returns, as {data, error, loading, reload, set}. It loads again when `deps` change; what came
 *  before stays until then. */
export function useResource(load, deps) {
  const [state, setState] = useState({ data: null, error: null, loading: true });
  const [turn, setTurn] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    const leaving = new AbortController();
    setState((before) => ({ ...before, loading: true }));
    latest.current(leaving.signal).then(
      (data) => leaving.signal.aborted || setState({ data, error: null, loading: false }),
      (error) => leaving.signal.aborted || setState((before) => ({ ...before, error, loading: false })),
    );
    return () => leaving.abort();
  }, [...deps, turn]);
  const reload = useCallback(() => setTurn((before) => before + 1), []);
  const set = useCallback((change) => setState((before) => ({ ...before, data: change(before.data) })), []);
  return { ...state, reload, set };
}
