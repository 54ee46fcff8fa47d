// @ts-check
// What views are told: whose key this is, what the server has, and which keys are pressed.
import { get, withQuery } from "../api.js";
import { createContext, html, useCallback, useContext, useEffect, useRef, useState } from "../html.js";
import { ErrorBox, Loading } from "./elements.js";

/** Whose key this is: {tenant, scopes, prompts}; `prompts` says whether it sees agents' prompts. */
export const Session = createContext({ tenant: "", scopes: /** @type {string[]} */ ([]), prompts: false });
export const useSession = () => useContext(Session);

/** Whether the key may do what needs a scope. */
export const useMay = (/** @type {string} */ scope) => {
  const { scopes } = useSession();
  return scopes.includes("all") || scopes.includes(scope);
};

/** What `load(signal)` returns, as {data, error, reload, notice}; `notice` is what to show in its place: an error, or
 *  that it is being loaded. It loads again when `deps` change; what came before stays until then.
 * @param {(signal: AbortSignal) => Promise<any>} load
 * @param {any[]} deps */
export function useResource(load, deps) {
  const [state, setState] = useState({ data: /** @type {any} */ (null), error: /** @type {any} */ (null) });
  const [turn, setTurn] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    const leaving = new AbortController();
    latest.current(leaving.signal).then(
      (data) => leaving.signal.aborted || setState({ data, error: null }),
      (error) => leaving.signal.aborted || setState(({ data }) => ({ data, error })),
    );
    return () => leaving.abort();
  }, [...deps, turn]);
  const reload = useCallback(() => setTurn((before) => before + 1), []);
  const { data, error } = state;
  const notice = error ? html`<${ErrorBox} error=${error} retry=${reload} />` : data ? null : html`<${Loading} />`;
  return { data, error, reload, notice };
}

/** `useResource` of the server's answer to GET; it loads again also when `deps` change.
 * @param {string} path
 * @param {any[]} deps */
export const useGet = (path, query = {}, deps = []) =>
  useResource((signal) => get(path, query, { signal }), [withQuery(path, query), ...deps]);

/** Call `keys[event.key](event)` for keys that are pressed outside of fields, without modifiers.
 * @param {Record<string, (event: KeyboardEvent) => void>} keys */
export function useKeys(keys) {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    const pressed = (/** @type {KeyboardEvent} */ event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      const at = event.target instanceof Element ? event.target : null;
      if (at?.closest("input, textarea, select, [contenteditable], dialog")) return;
      if (event.key === "Enter" && at?.closest("a, button, summary")) return;
      const act = latest.current[event.key];
      if (!act) return;
      event.preventDefault();
      act(event);
    };
    const leaving = new AbortController();
    window.addEventListener("keydown", pressed, { signal: leaving.signal });
    return () => leaving.abort();
  }, []);
}

/** `useKeys`, with j, k and the arrows, which call `choose(index)` for the next and the former of `count` rows. */
export function useRowKeys(count, at, choose, keys) {
  const step = (by) => choose(Math.max(0, Math.min(count - 1, at + by)));
  const [next, former] = [() => step(1), () => step(-1)];
  useKeys({ j: next, ArrowDown: next, k: former, ArrowUp: former, ...keys });
}
