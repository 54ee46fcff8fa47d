// @ts-check
// Addresses of the studio: paths under /studio, with the state of a view in the query.
import { PREFIX, withQuery } from "./api.js";
import { html, useEffect, useState } from "./html.js";

const BASE = `${PREFIX}/studio`;
const CHANGED = "retinue:moved";

/** "/runs/x" → "/studio/runs/x". */
export const href = (to) => BASE + (to.startsWith("/") ? to : `/${to}`);

/** Go to a path of the studio, such as "/runs/run_1?tab=tree". */
export function navigate(to, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", href(to));
  window.dispatchEvent(new Event(CHANGED));
}

/** Change parts of the query and stay in the view. `null` and "" remove one. */
export function setQuery(changes, { replace = true } = {}) {
  navigate(withQuery(here(), changes, new URLSearchParams(location.search)), { replace });
}

const here = () => location.pathname.slice(BASE.length).replace(/^\/?/, "/");

/** The current {path, query}, where `query` is a URLSearchParams. */
export function useLocation() {
  const [now, setNow] = useState(read);
  useEffect(() => {
    const leaving = new AbortController();
    for (const name of ["popstate", CHANGED])
      window.addEventListener(name, () => setNow(read()), { signal: leaving.signal });
    return () => leaving.abort();
  }, []);
  return now;
}

/** The path in the studio, such as "/runs/run_1". */
export const currentPath = () => here().replace(/(.)\/$/, "$1");

const read = () => ({ path: currentPath(), query: new URLSearchParams(location.search) });

/** Return the route of a path and its parameters: "/runs/:id" matches "/runs/run_1" as {id: "run_1"}. */
export function match(routes, path) {
  for (const route of routes) {
    const names = [];
    const pattern = route.path.replace(/:(\w+)/g, (_, name) => {
      names.push(name);
      return "([^/]+)";
    });
    const found = path.match(new RegExp(`^${pattern}$`));
    if (found) return { route, params: Object.fromEntries(names.map((name, at) => [name, decoded(found[at + 1])])) };
  }
  return null;
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** A link within the studio. A click with a modifier key opens a tab, as with any link. */
export function Link({ to, children, ...more }) {
  const go = (event) => {
    if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
      return;
    event.preventDefault();
    navigate(to);
  };
  return html`<a href=${href(to)} onClick=${go} ...${more}>${children}</a>`;
}
