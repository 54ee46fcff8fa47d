// @ts-check
// The runs of the tenant, newest first. Filters and the search are in the address, so that a list can be shared.
import { get, post } from "../api.js";
import { count, parsed, whole } from "../format.js";
import { html, useEffect, useMemo, useRef, useState } from "../html.js";
import { Cost, Empty, ErrorBox, PageHead, Status, statusWords, Table, Tokens, When } from "../parts/elements.js";
import { useGet, useMay, useRowKeys } from "../parts/hooks.js";
import { Link, navigate, setQuery } from "../router.js";

const LIMIT = 50;
const REFRESH = 2_500; // milliseconds between looks at the first page
const STATUSES = [
  "queued",
  "in_progress",
  "requires_action",
  "completed",
  "incomplete",
  "failed",
  "cancelled",
  "expired",
];
const KINDS = ["chat", "response", "assistant", "a2a", "member", "fork", "imported"];
const SPANS = { "1h": ["last hour", 3600], "24h": ["last 24 hours", 86_400], "7d": ["last 7 days", 604_800] };

export default function Runs({ query }) {
  const { data, reload, notice } = useGet("/v1/runs", filters(query));
  const rows = data?.data ?? [];
  const [at, setAt] = useState(-1);
  const [picked, setPicked] = useState([]);
  const search = useRef(null);
  useRefresh(reload, !query.get("after"));
  useRowKeys(rows.length, at, setAt, {
    Enter: () => rows[at] && navigate(`/runs/${rows[at].id}`),
    "/": () => search.current?.focus(),
  });
  const columns = useMemo(() => columnsOf(picked, setPicked), [picked]);
  return html`
    <${PageHead} title="Runs">
      ${picked.length === 2 && html`<${Link} class="button" to=${`/compare?a=${picked[0]}&b=${picked[1]}`}>Compare the two<//>`}
      ${useMay("runs") && html`<${Import} />`}
    <//>
    <${Filters} query=${query} search=${search} />
    ${notice}
    ${
      data &&
      (rows.length
        ? html`<${Table} label="Runs" columns=${columns} rows=${rows} at=${at} to=${(run) => `/runs/${run.id}`} />`
        : html`<${Nothing} query=${query} />`)
    }
    ${data && html`<${Pages} query=${query} more=${data.has_more} last=${data.last_id} />`}
  `;
}

function filters(query) {
  const span = SPANS[query.get("since")];
  return {
    limit: LIMIT,
    figures: true,
    after: query.get("after"),
    q: query.get("q"),
    status: query.getAll("status"),
    model: query.get("agent"),
    kind: query.get("kind"),
    forked_from: query.get("forked_from"),
    thread: query.get("thread"),
    parent: query.get("parent"),
    members: query.get("kind") === "member" || query.get("parent") ? "" : "false",
    created_after: span ? Math.floor(Date.now() / 60_000) * 60 - span[1] : "",
  };
}

function useRefresh(reload, wanted) {
  useEffect(() => {
    if (!wanted) return;
    const timer = setInterval(() => document.visibilityState === "visible" && reload(), REFRESH);
    return () => clearInterval(timer);
  }, [wanted]);
}

const columnsOf = (picked, setPicked) => [
  { name: "status", title: "Status", cell: (run) => html`<${Status} value=${run.status} />` },
  {
    name: "question",
    title: "Question",
    wide: true,
    link: true,
    cell: (run) => html`<span class="clamp">${question(run)}</span>`,
  },
  { name: "agent", title: "Agent", cell: (run) => html`<span class="agent">${run.model}</span>` },
  { name: "replies", title: "Replies", number: true, cell: (run) => count(run.replies) },
  { name: "tokens", title: "Tokens", number: true, cell: (run) => html`<${Tokens} usage=${run.usage} />` },
  { name: "cost", title: "Cost", number: true, cell: (run) => html`<${Cost} value=${run.cost} />` },
  { name: "time", title: "Time", number: true, cell: (run) => html`<span class="num">${whole(seconds(run))}</span>` },
  { name: "when", title: "When", number: true, cell: (run) => html`<${When} at=${run.created_at} />` },
  { name: "pick", title: "Pick", cell: (run) => html`<${Pick} run=${run} picked=${picked} set=${setPicked} />` },
];

const question = (run) =>
  run.question ||
  (run.question === null ? html`<span class="muted">not shown</span>` : html`<span class="muted">no text</span>`);

function seconds(run) {
  if (run.started_at == null || run.status === "queued") return null;
  return (run.ended_at ?? Date.now() / 1000) - run.started_at;
}

/** Two runs that are picked can be compared; a third replaces the first. */
function Pick({ run, picked, set }) {
  const change = (event) =>
    set(event.target.checked ? [...picked, run.id].slice(-2) : picked.filter((one) => one !== run.id));
  return html`<input type="checkbox" class="pick" checked=${picked.includes(run.id)} onChange=${change} aria-label=${`Pick ${run.question || run.id} to compare`} />`;
}

function Filters({ query, search }) {
  const [agents, setAgents] = useState([]);
  useEffect(() => {
    get("/v1/studio/agents").then(
      (told) => setAgents(told.data.map((one) => one.id)),
      () => {},
    );
  }, []);
  const change = (name) => (event) => setQuery({ [name]: event.target.value, after: null });
  return html`<form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
    <${Search} asked=${query.get("q") ?? ""} field=${search} />
    <${Choice} label="Status" value=${query.get("status")} options=${STATUSES.map((one) => [one, statusWords(one)])} change=${change("status")} />
    <${Choice} label="Agent" value=${query.get("agent")} options=${withValue(agents, query.get("agent")).map((one) => [one, one])} change=${change("agent")} />
    <${Choice} label="Kind" value=${query.get("kind")} options=${KINDS.map((one) => [one, one])} change=${change("kind")} />
    <${Choice} label="Time" value=${query.get("since")} options=${Object.entries(SPANS).map(([name, [says]]) => [name, says])} change=${change("since")} />
  </form>`;
}

/** The search goes to the address a moment after the last letter; until then the field shows what was typed. */
function Search({ asked, field }) {
  const [typed, setTyped] = useState(null);
  useEffect(() => {
    if (typed === null) return;
    const timer = setTimeout(() => {
      setQuery({ q: typed, after: null });
      setTyped(null);
    }, 200);
    return () => clearTimeout(timer);
  }, [typed]);
  return html`<input ref=${field} type="search" class="grow" placeholder="Search questions  ( / )" aria-label="Search questions"
    value=${typed ?? asked} onInput=${(event) => setTyped(event.target.value)} />`;
}

const withValue = (names, value) => (value && !names.includes(value) ? [value, ...names] : names);

const Choice = ({
  label,
  value,
  options,
  change,
}) => html`<select aria-label=${label} value=${value ?? ""} onChange=${change}>
  <option value="">${label}: all</option>
  ${options.map(([name, says]) => html`<option key=${name} value=${name} selected=${name === value}>${says}</option>`)}
</select>`;

function Nothing({ query }) {
  if (query.toString()) return html`<${Empty} title="No run fits"><${Link} to="/">Show all runs<//><//>`;
  return html`<${Empty} title="No runs yet">Runs appear here as they begin: ask an agent through any of the server's APIs.<//>`;
}

const Pages = ({ query, more, last }) =>
  (more || query.get("after")) &&
  html`<nav class="pages" aria-label="Pages">
    ${query.get("after") && html`<button onClick=${() => setQuery({ after: null }, { replace: false })}>Newest</button>`}
    ${more && html`<button onClick=${() => setQuery({ after: last }, { replace: false })}>Older</button>`}
  </nav>`;

/** Takes a run that was exported here or elsewhere. */
function Import() {
  const [error, setError] = useState(null);
  const field = useRef(null);
  const chosen = async (event) => {
    const file = event.target.files[0];
    event.target.value = "";
    if (!file) return;
    try {
      const run = parsed(await file.text());
      if (typeof run !== "object") throw new Error(`${file.name} holds no JSON: choose a file that "Export" wrote.`);
      const made = await post("/v1/runs/import", run);
      navigate(`/runs/${made.id}`);
    } catch (refused) {
      setError(refused);
    }
  };
  return html`<input ref=${field} type="file" accept=".json,application/json" hidden aria-hidden="true" tabindex="-1" onChange=${chosen} />
    <button onClick=${() => field.current.click()}>Import a run</button>
    ${error && html`<${ErrorBox} error=${error} />`}`;
}
