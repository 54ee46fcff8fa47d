// @ts-check
// The frame of the studio: sign-in, navigation, and the view of the current address.
import { dropKeyFromAddress, get, key, ownLogin, signedIn, signIn, signOut, takeKeyFromAddress } from "./api.js";
import { html, render, useEffect, useState } from "./html.js";
import { Dialog, Empty, ErrorBox, Loading } from "./parts/elements.js";
import { Session, useKeys } from "./parts/hooks.js";
import { currentPath, Link, match, useLocation } from "./router.js";
import { routes } from "./routes.js";

const THEME = "retinue.theme";
const KEYS = [
  ["j  k", "next, previous row or step"],
  ["Enter", "open it"],
  ["/", "search"],
  ["t", "dark or light"],
  ["?", "this help"],
];

function App() {
  const [session, setSession] = useState(null);
  const [error, setError] = useState(null);
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const leaving = new AbortController();
    const left = () => {
      setSession(null);
      setTurn((before) => before + 1);
    };
    const linked = () => {
      if (key()) return dropKeyFromAddress(); // into a page that is open
      takeKeyFromAddress();
      left();
    };
    window.addEventListener("retinue:signed-out", left, { signal: leaving.signal });
    window.addEventListener("hashchange", linked, { signal: leaving.signal });
    return () => leaving.abort();
  }, []);
  useEffect(() => {
    if (!signedIn()) return;
    get("/v1/key").then((told) => {
      setSession(told);
      setError(null);
    }, setError);
  }, [turn]);
  const again = () => {
    setError(null);
    setTurn((before) => before + 1);
  };
  const entered = (value) => {
    signIn(value);
    again();
  };
  if (!signedIn()) return html`<${SignIn} error=${error} entered=${entered} />`;
  if (session === null)
    return html`<main class="alone">${error ? html`<${ErrorBox} error=${error} retry=${again} />` : html`<${Loading} />`}</main>`;
  return html`<${Session.Provider} value=${session}><${Frame} session=${session} /><//>`;
}

function SignIn({ error, entered }) {
  const submit = (event) => {
    event.preventDefault();
    const value = String(new FormData(event.target).get("key")).trim();
    if (value) entered(value);
  };
  return html`<main class="alone">
    <form class="sign-in" onSubmit=${submit}>
      <h1><${Mark} /> Retinue studio</h1>
      <label for="key">API key</label>
      <input id="key" name="key" type="password" autocomplete="off" spellcheck="false" autofocus required aria-describedby="key-help" />
      ${error && html`<${ErrorBox} error=${error} />`}
      <button class="primary">Sign in</button>
      <p id="key-help" class="muted">
        A key of this server: <code>retinue keys make</code> makes one. It stays in this tab, and is forgotten when the tab is closed.
      </p>
    </form>
  </main>`;
}

function Frame({ session }) {
  const { path, query } = useLocation();
  const found = match(routes, path);
  const [help, setHelp] = useState(false);
  useKeys({ "?": () => setHelp(true), t: toggleTheme });
  return html`
    <a class="skip" href="#view">Skip to content</a>
    <header class="bar">
      <${Link} to="/" class="brand" aria-label="Retinue"><${Mark} /><span>Retinue</span><//>
      <nav aria-label="Views">
        ${routes
          .filter((one) => one.nav)
          .map(
            (one) =>
              html`<${Link} key=${one.path} to=${one.path} aria-current=${isUnder(one, path) ? "page" : undefined}>${one.nav}<//>`,
          )}
      </nav>
      <div class="bar-end">
        <span class="muted tenant" title="The tenant of this key">${session.tenant}</span>
        <button class="quiet icon" onClick=${toggleTheme} aria-label="Dark or light" title="Dark or light (t)">◐</button>
        <button class="quiet icon wide-only" onClick=${() => setHelp(true)} aria-label="Keyboard" title="Keyboard (?)">?</button>
        ${!ownLogin() && html`<button class="quiet" onClick=${signOut}>Sign out</button>`}
      </div>
    </header>
    <main id="view" tabindex="-1">
      ${
        found
          ? html`<${Loaded} key=${found.route.path + JSON.stringify(found.params)} route=${found.route} params=${found.params} query=${query} />`
          : html`<${Empty} title="There is no such page"><${Link} to="/">All runs<//><//>`
      }
    </main>
    ${help && html`<${Help} close=${() => setHelp(false)} />`}
  `;
}

const isUnder = (route, path) =>
  route.path === "/" ? path === "/" || path.startsWith("/runs") : path.startsWith(route.path);

const views = new Map(); // those that were loaded

function Loaded({ route, params, query }) {
  const [view, setView] = useState(() => views.get(route));
  const [error, setError] = useState(null);
  useEffect(() => {
    document.title = `${route.title} · Retinue`;
    if (view) return;
    route.load().then(
      (module) => {
        views.set(route, module.default);
        setView(() => module.default);
      },
      () => setError(new Error("This view could not be loaded. The server may have been updated: reload the page.")),
    );
  }, [route]);
  if (error) return html`<${ErrorBox} error=${error} retry=${() => location.reload()} />`;
  return view ? html`<${view} params=${params} query=${query} />` : html`<${Loading} />`;
}

const Help = ({ close }) => html`<${Dialog} title="Keyboard" close=${close}>
  <dl class="keys">${KEYS.map(([name, says]) => html`<dt>${name.split("  ").map((one) => html`<kbd>${one}</kbd>`)}</dt><dd>${says}</dd>`)}</dl>
<//>`;

const Mark = () => html`<svg class="mark" viewBox="0 0 16 16" aria-hidden="true">
  <circle cx="8" cy="3.5" r="2.5" /><circle cx="3" cy="12" r="2" /><circle cx="8" cy="12" r="2" /><circle cx="13" cy="12" r="2" />
</svg>`;

function toggleTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem(THEME, root.dataset.theme);
}

const chosen = localStorage.getItem(THEME);
if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
takeKeyFromAddress();
match(routes, currentPath())
  ?.route.load()
  .catch(() => {}); // while it is asked whose key this is; a failure is told later
render(html`<${App} />`, document.body.querySelector("#app") ?? document.body);
