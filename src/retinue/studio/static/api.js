// @ts-check
// The server's API with the key of this tab. The key is kept in sessionStorage only.

const KEY = "retinue.key";

/** What the server refused, in one line. */
export class ApiError extends Error {
  constructor(status, message, code = null) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** Where the server is: "" at its own address, "/ai" where an application has it at that prefix. */
export const PREFIX = new URL(import.meta.url).pathname.replace(/\/studio\/static\/.*$/, "");

/** Whether the application around the server says who asks: its cookies do, and there is no key. */
export const ownLogin = () => document.documentElement.dataset.login === "application";

export const key = () => sessionStorage.getItem(KEY) ?? "";

export const signedIn = () => ownLogin() || key() !== "";

export function signIn(value) {
  sessionStorage.setItem(KEY, value);
}

/** Forget the key. The page shows the sign-in form again. */
export function signOut() {
  sessionStorage.clear(); // and what was decided but not sent
  window.dispatchEvent(new Event("retinue:signed-out"));
}

/** Move a key from the address (`#key=…`) to this tab, so that no history keeps it. Another key than the tab's is taken
 *  only if its user says so: a stranger's link could else have them work, unawares, in the stranger's account. */
export function takeKeyFromAddress() {
  const given = new URLSearchParams(location.hash.slice(1)).get("key");
  if (!given) return;
  const other = key() && key() !== given;
  if (!other || window.confirm("This link signs this tab in with another key. Use that one from now on?"))
    signIn(given);
  history.replaceState(null, "", location.pathname + location.search);
}

/** Remove a key from the address, unused. */
export function dropKeyFromAddress() {
  const given = new URLSearchParams(location.hash.slice(1)).get("key");
  if (given) history.replaceState(null, "", location.pathname + location.search);
}

/** "/v1/runs" and {status: ["failed"], limit: 5} → "/v1/runs?status=failed&limit=5". Empty values are left out, and
 *  take the place of what `given` has of that name.
 * @param {string} path
 * @param {Record<string, any>} query */
export function withQuery(path, query = {}, given = new URLSearchParams()) {
  for (const [name, value] of Object.entries(query)) {
    given.delete(name);
    for (const one of [value].flat()) if (one != null && one !== "") given.append(name, one);
  }
  const text = given.toString();
  return text ? `${path}?${text}` : path;
}

/** @typedef {{method?: string, body?: any, headers?: Record<string, string>, signal?: AbortSignal}} Options */

/** Send a request. Return the response; raise `ApiError` unless it is a success.
 * @param {string} method
 * @param {string} path
 * @param {Options} options */
export async function request(method, path, { body, headers = {}, signal } = {}) {
  /** @type {Record<string, string>} */
  const sent = { ...(ownLogin() ? {} : { Authorization: `Bearer ${key()}` }), ...headers };
  let given = body;
  if (body !== undefined && !(body instanceof FormData)) {
    sent["Content-Type"] = "application/json";
    given = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(PREFIX + path, { method, headers: sent, body: given, signal });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, "The server does not answer. Is it running?");
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

async function refusal(response) {
  /** @type {any} */
  let told;
  try {
    told = (await response.json()).error;
  } catch {
    // a proxy's page
  }
  if (response.status === 401 && key()) signOut();
  return new ApiError(response.status, told?.message ?? `The server answered ${response.status}.`, told?.code);
}

/** @type {(path: string, query?: Record<string, any>, options?: Options) => Promise<any>} */
export const get = async (path, query, options) => (await request("GET", withQuery(path, query), options)).json();
/** @type {(path: string, body?: any, options?: Options) => Promise<any>} */
export const post = async (path, body = {}, options) => (await request("POST", path, { ...options, body })).json();

const PAGE = 1_000; // entries of the largest page

/** Yield the pages of a list, each as an array.
 * @param {string} path
 * @param {Record<string, any>} query
 * @param {AbortSignal} [signal] */
export async function* pages(path, query = {}, signal) {
  let after = query.after;
  for (let more = true; more; ) {
    const page = await get(path, { limit: PAGE, ...query, after }, { signal });
    yield page.data;
    after = page.last_id;
    more = page.has_more && page.data.length > 0;
  }
}

/** Return the entries of a list, page by page until there are `most`.
 * @param {string} path
 * @param {Record<string, any>} query
 * @param {AbortSignal} [signal] */
export async function list(path, query = {}, signal, most = Number.POSITIVE_INFINITY) {
  const found = [];
  for await (const page of pages(path, query, signal)) {
    found.push(...page);
    if (found.length >= most) break;
  }
  return found;
}

/** Yield the events of a server-sent stream as {id, event, data}; `data` is text.
 *  `since` is the id of the last event that the caller has.
 * @param {string} path
 * @param {Options & {since?: string | number | null}} options */
export async function* stream(path, { method = "GET", body, signal, since } = {}) {
  /** @type {Record<string, string>} */
  const headers = { Accept: "text/event-stream" };
  if (since) headers["Last-Event-ID"] = String(since);
  const response = await request(method, path, { body, headers, signal });
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let event = fresh();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (rest + value).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        if (line.trimEnd() !== "") take(event, line.trimEnd());
        else {
          if (event.data !== null) yield event;
          event = fresh();
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

const fresh = () => ({ id: "", event: "message", data: /** @type {any} */ (null) });

function take(event, line) {
  const at = line.indexOf(":");
  if (at < 1) return;
  const name = line.slice(0, at);
  const value = line.slice(at + 1).replace(/^ /, "");
  if (name === "data") event.data = event.data === null ? value : `${event.data}\n${value}`;
  else if (name === "event" || name === "id") event[name] = value;
}

/** Save a JSON value or a Blob as a file on this computer. */
export function save(name, content) {
  const blob = content instanceof Blob ? content : new Blob([JSON.stringify(content, null, 2)]);
  const url = URL.createObjectURL(blob);
  const link = Object.assign(document.createElement("a"), { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
