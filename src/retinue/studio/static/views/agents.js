// @ts-check
// The agents, teams and pipelines that are served: a list, and each drawn, with the path of a run on it.
import { get } from "../api.js";
import { graphOf } from "../folds/agent_graph.js";
import { edgesWalked, visitsOf } from "../folds/run_path.js";
import { stepsOf } from "../folds/step_alignment.js";
import { ago, words } from "../format.js";
import { html, useMemo, useState } from "../html.js";
import { Empty, Hidden, PageHead, Status, Table } from "../parts/elements.js";
import { useGet, useResource } from "../parts/hooks.js";
import { allEvents } from "../parts/run_events.js";
import { Json, Text } from "../parts/text.js";
import { Link, setQuery } from "../router.js";
import { Drawing } from "./graph_drawing.js";

const KINDS = { agent: "agent", graph: "graph of roles", chain: "chain", pipeline: "pipeline" };
const MEMBERS = 20; // of a run, whose logs are read for its path

const COLUMNS = [
  { name: "name", title: "Name", cell: (one) => html`<span class="strong">${one.id}</span>` },
  { name: "kind", title: "Kind", cell: (one) => KINDS[one.kind] ?? one.kind },
  { name: "model", title: "Model", cell: (one) => one.model ?? html`<span class="muted">none</span>` },
  {
    name: "strategy",
    title: "Strategy",
    cell: (one) => (one.graph ? html`<span class="muted">${one.kind}</span>` : (one.strategy ?? "–")),
  },
  { name: "parts", title: "Made of", wide: true, cell: (one) => html`<span class="muted">${madeOf(one)}</span>` },
];

export default function Agents({ params, query }) {
  return params.name ? html`<${Agent} key=${params.name} name=${params.name} query=${query} />` : html`<${List} />`;
}

function List() {
  const { data, notice } = useGet("/v1/studio/agents");
  if (notice) return notice;
  return html`<${PageHead} title="Agents" lead="What this server offers as models." />
    ${
      data.data.length
        ? html`<div class="labelled"><${Table} label="Agents" columns=${COLUMNS} rows=${data.data} to=${(one) => addressOf(one.id)} /></div>`
        : html`<${Empty} title="No agents are served">Start the server with a file: <code>retinue serve agents.yml</code><//>`
    }`;
}

const addressOf = (name) => `/agents/${encodeURIComponent(name)}`;

function madeOf(outline) {
  const names = outline.graph
    ? outline.graph.nodes.filter((node) => node.kind !== "end").map((node) => node.label)
    : outline.tools.map((tool) => tool.name);
  return names.length > 8
    ? `${names.slice(0, 7).join(", ")} and ${names.length - 7} more`
    : names.join(", ") || "no tools";
}

function Agent({ name, query }) {
  const wanted = query.get("run") ?? "";
  const { data, notice } = useGet(`/v1/studio/agents/${encodeURIComponent(name)}`);
  if (notice) return notice;
  const run = data.kind === "pipeline" ? "" : wanted; // a log has one call of a whole pipeline, and none of its nodes
  const lead = [KINDS[data.kind] ?? data.kind, data.model, data.graph ? null : data.strategy]
    .filter(Boolean)
    .join(" · ");
  return html`<${PageHead} title=${data.id} lead=${lead}>
      <${Link} class="button" to=${`/playground?agent=${encodeURIComponent(data.id)}`}>Try it<//>
    <//>
    ${data.kind !== "pipeline" && html`<${PathPicker} agent=${data.id} run=${run} />`}
    <${Drawn} outline=${data} run=${run} />`;
}

/** Chooses the run whose path is shown. */
function PathPicker({ agent, run }) {
  const { data } = useGet("/v1/runs", { model: agent, limit: 30, figures: true });
  const runs = data?.data ?? [];
  const known = runs.some((one) => one.id === run);
  return html`<div class="toolbar">
    <label for="path-run">Path of a run</label>
    <select id="path-run" value=${run} onChange=${(event) => setQuery({ run: event.target.value })}>
      <option value="">none</option>
      ${run && !known && html`<option value=${run}>${run}</option>`}
      ${runs.map((one) => html`<option key=${one.id} value=${one.id}>${titleOf(one)}</option>`)}
    </select>
    ${run && html`<${Link} to=${`/runs/${run}`}>Open this run<//>`}
  </div>`;
}

const titleOf = (run) =>
  `${run.question ? `${run.question.slice(0, 60)} · ` : ""}${words(run.status)} · ${ago(run.created_at)}`;

function Drawn({ outline, run }) {
  const graph = useMemo(() => graphOf(outline), [outline]);
  const [chosen, setChosen] = useState(null);
  const { data, error, notice } = useResource((signal) => (run ? pathOf(run, signal) : Promise.resolve(null)), [run]);
  const path = run ? data : null;
  const used = useMemo(() => path && usedNodes(graph, path), [graph, path]);
  const walked = useMemo(
    () => path && (graph.direction === "down" ? edgesWalked(graph, path) : toTools(graph, used)),
    [graph, path, used],
  );
  const node = graph.nodes.find((one) => one.id === chosen);
  const choose = (id) => setChosen(id === chosen ? null : id);
  return html`${run && error && notice}
    <div class=${`split ${node ? "split-open" : ""}`}>
      <div>
        <${Drawing} graph=${graph} used=${used ?? undefined} walked=${walked} chosen=${chosen} choose=${choose} label=${`${outline.id}, drawn`} />
        ${graph.left > 0 && html`<p class="muted">${graph.left} more tools are not drawn.</p>`}
        <${Legend} graph=${graph} path=${path} />
      </div>
      ${node && html`<${Detail} key=${node.id} node=${node} path=${path} close=${() => setChosen(null)} />`}
    </div>`;
}

function Legend({ graph, path }) {
  const has = (kind) => graph.edges.some((edge) => edge.kind === kind);
  return html`<p class="legend muted">
    ${has("conditional") && html`<span><i class="key key-dashed" aria-hidden="true"></i>on a condition</span>`}
    ${has("error") && html`<span><i class="key key-error" aria-hidden="true"></i>on an error</span>`}
    ${path && html`<span><i class="key key-walked" aria-hidden="true"></i>what this run did; numbers are its steps</span>`}
    <span>Choose a node to see what it is.</span>
  </p>`;
}

/** A run's path, with what its members did. Their tools are named by their member: "looker/look". */
async function pathOf(id, signal) {
  const events = await allEvents(id, signal);
  const children = await get("/v1/runs", { parent: id, limit: MEMBERS, order: "asc" }, { signal });
  const names = new Map(
    events.filter((one) => one.type === "called").map((one) => [one.data.action?.id, one.data.action?.tool]),
  );
  const members = await Promise.all(
    children.data.map(async (run) => ({
      name: names.get(run.call_id) ?? run.model,
      events: await allEvents(run.id, signal, 500),
    })),
  );
  const path = visitsOf(events);
  for (const member of members)
    for (const [tool, steps] of visitsOf(member.events).visits) {
      const inner = `${member.name}/${tool}`;
      path.visits.set(inner, [...(path.visits.get(inner) ?? []), ...steps]);
    }
  return { ...path, calls: stepsOf(events).flatMap((step) => step.calls) };
}

function usedNodes(graph, path) {
  const used = new Map();
  for (const node of graph.nodes) {
    const orders = path.visits.get(node.id);
    if (orders) used.set(node.id, { orders, failed: path.failed.has(node.id), waits: path.waits.has(node.id) });
  }
  const root = graph.nodes[0];
  if (path.steps.length || path.ended) used.set(root.id, { orders: [] });
  if (path.ended && graph.nodes.some((node) => node.id === "END")) used.set("END", { orders: [] });
  return used;
}

const toTools = (graph, used) =>
  new Map(
    graph.edges.map((edge, index) => [index, used.get(edge.tail)?.orders.length ?? 0]).filter(([, times]) => times),
  );

/** What a node is, and what it did in the run. */
function Detail({ node, path, close }) {
  const { part, tool } = node;
  const calls = path ? path.calls.filter((call) => call.tool === node.id) : [];
  return html`<aside class="node-detail" aria-label=${node.label}>
    <header><h2>${node.label}</h2><button class="quiet icon" onClick=${close} aria-label="Close">✕</button></header>
    <dl class="fact-list">
      <${Fact} name="Kind" value=${kindOf(node)} />
      <${Fact} name="Model" value=${part?.model} />
      <${Fact} name="Strategy" value=${part && !part.graph ? part.strategy : null} />
      <${Fact} name="Effects" value=${tool?.effects} />
      <${Fact} name="Approval" value=${tool?.approval ? "a person must approve each call" : null} />
      <${Fact} name="Reads" value=${node.reads?.join(", ")} />
      <${Fact} name="Writes" value=${node.writes?.join(", ")} />
      <${Fact} name="Runs at most" value=${node.max_visits ? `${node.max_visits} times` : null} />
      <${Fact} name="Asks" value=${node.question} />
      <${Fact} name="Description" value=${tool?.description} />
      <${Fact} name="Tools" value=${part?.tools?.length && !part.graph ? part.tools.map((one) => one.name).join(", ") : null} />
    </dl>
    ${part?.instructions && html`<${Text} label="Instructions" value=${part.instructions} />`}
    ${part?.withheld && html`<${Hidden} what="Instructions and descriptions" />`}
    ${tool?.parameters?.properties && Object.keys(tool.parameters.properties).length > 0 && html`<${Json} label="Parameters" value=${tool.parameters} />`}
    ${part?.graph && html`<details><summary>${KINDS[part.kind]} inside</summary><${Inner} part=${part} /></details>`}
    ${
      calls.length > 0 &&
      html`<h3>In this run</h3>
      ${calls.slice(0, 20).map(
        (call) => html`<section key=${call.id} class="call">
          <${Status} value=${call.outcome || "in_progress"} />
          <${Json} label="Input" value=${call.input} lines=${6} />
          ${call.output !== null && html`<${Json} label="Output" value=${call.output} lines=${6} />`}
        </section>`,
      )}
      ${calls.length > 20 && html`<p class="muted">and ${calls.length - 20} more calls</p>`}`
    }
  </aside>`;
}

const Fact = ({ name, value }) => (value ? html`<dt>${name}</dt><dd>${value}</dd>` : null);

function kindOf(node) {
  if (node.kind === "end") return node.id === "END" ? "the end" : "the beginning";
  if (node.kind === "gate") return "a person decides";
  return node.part ? (KINDS[node.part.kind] ?? node.part.name) : (node.made_of ?? "tool");
}

function Inner({ part }) {
  const graph = useMemo(() => graphOf(part), [part]);
  return html`<${Drawing} graph=${graph} label=${`${part.name}, drawn`} />`;
}
