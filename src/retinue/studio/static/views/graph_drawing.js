// @ts-check
// A graph as SVG: nodes that can be chosen with the mouse and by keyboard, and the same as a list for those who hear it.

import { fitted } from "../folds/agent_graph.js";
import { layout } from "../folds/graph_layout.js";
import { html, useMemo, useState } from "../html.js";

const ARROWS = ["plain", "walked", "error"];

let drawings = 0; // markers of two drawings have names of their own

/** Draw `graph` ({nodes, edges, direction, last}). `used` has what a run did, by node id: {orders, failed, waits};
 *  `walked` how often it followed each edge, by index. `chosen` is a node's id, `choose` is called with one;
 *  without it nothing can be chosen. */
export function Drawing({ graph, used, walked, chosen, choose, label }) {
  const [id] = useState(() => `drawing-${++drawings}`);
  const drawn = useMemo(() => layout(graph.nodes, graph.edges, graph), [graph]);
  const numbered = drawn.edges.map((edge) => ({
    ...edge,
    times: walked?.get(graph.edges.findIndex((one) => same(one, edge))),
  }));
  const top = numbered.filter((edge) => edge.times);
  return html`<div class="drawing">
    <div class="drawing-scroll" tabindex="0" role="region" aria-label=${label}>
      <svg viewBox=${`0 0 ${drawn.width} ${drawn.height}`} width=${drawn.width} height=${drawn.height} role="group" aria-label=${label}>
        <defs>${ARROWS.map((name) => html`<${Arrow} key=${name} id=${id} name=${name} />`)}</defs>
        ${numbered.filter((edge) => !edge.times).map((edge) => html`<${Edge} id=${id} edge=${edge} unused=${used} />`)}
        ${top.map((edge) => html`<${Edge} id=${id} edge=${edge} />`)}
        ${drawn.nodes.map((node) => html`<${Node} key=${node.id} node=${node} used=${used && (used.get(node.id) ?? false)} chosen=${chosen === node.id} choose=${choose} />`)}
      </svg>
    </div>
    <details class="as-list">
      <summary>As a list</summary>
      <ul>${graph.nodes.map((node) => html`<li key=${node.id}><${Listed} node=${node} graph=${graph} walked=${walked} used=${used?.get(node.id)} /></li>`)}</ul>
    </details>
  </div>`;
}

const same = (one, other) =>
  one.head === other.head && one.tail === other.tail && one.kind === other.kind && one.label === other.label;

const Arrow = ({
  id,
  name,
}) => html`<marker id=${`${id}-${name}`} class=${`arrow arrow-${name}`} viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="6.5" markerHeight="6.5" orient="auto">
  <path d="M0,0.6 L8,4 L0,7.4 z" />
</marker>`;

function Edge({ id, edge, unused }) {
  const kind = edge.times ? "walked" : edge.kind === "error" ? "error" : "plain";
  const label = [edge.label, edge.times > 1 ? `×${edge.times}` : ""].filter(Boolean).join(" ");
  return html`<g class=${`edge edge-${edge.kind} ${edge.times ? "edge-walked" : unused ? "edge-unused" : ""}`}>
    <path d=${edge.path} marker-end=${`url(#${id}-${kind})`} />
    ${label && html`<text x=${edge.at.x} y=${edge.at.y + 4} text-anchor=${edge.back ? "middle" : "start"}>${fitted(label, 190)}</text>`}
    <title>${tells(edge)}</title>
  </g>`;
}

function tells(edge) {
  const when =
    edge.kind === "error"
      ? " if it fails"
      : edge.condition
        ? ` if ${edge.condition}`
        : edge.label
          ? ` (${edge.label})`
          : "";
  return `${name(edge.head)} → ${name(edge.tail)}${when}`;
}

const name = (id) => id.replace("\u0000", "") || "the agent";

function Node({ node, used, chosen, choose }) {
  const { x, y, width, height } = node;
  const pressed = (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    choose(node.id);
  };
  const state = used ? (used.failed ? "failed" : used.waits ? "waits" : "used") : used === false ? "unused" : "";
  const orders = used?.orders?.length ? ordersOf(used.orders) : "";
  return html`<g
    class=${`node node-${node.kind} ${state && `node-${state}`} ${chosen ? "node-chosen" : ""}`}
    aria-label=${says(node, used)}
    ...${choose ? { role: "button", tabindex: "0", "aria-pressed": chosen, onClick: () => choose(node.id), onKeyDown: pressed } : { role: "img" }}>
    <rect x=${x - width / 2} y=${y - height / 2} width=${width} height=${height} rx=${node.kind === "end" ? height / 2 : 7} />
    ${node.kind !== "end" && html`<path class="stripe" d=${`M${x - width / 2 + 6},${y - height / 2 + 8} v${height - 16}`} />`}
    <text class="node-label" x=${x} y=${node.note ? y - 2 : y + 4.5} text-anchor="middle">${fitted(node.label, width)}</text>
    ${node.note && html`<text class="node-note" x=${x} y=${y + 14} text-anchor="middle">${fitted(node.note, width * 1.12)}</text>`}
    ${orders && html`<${Badge} x=${x + width / 2 - 4} y=${y - height / 2} text=${orders} />`}
    <title>${says(node, used)}</title>
  </g>`;
}

function ordersOf(orders) {
  const steps = [...new Set(orders)];
  const shown = steps.length > 3 ? `${steps.slice(0, 2).join(" ")} …` : steps.join(" ");
  return steps.length > 3 || steps.length < orders.length ? `${shown} ×${orders.length}` : shown;
}

function Badge({ x, y, text }) {
  const width = Math.max(18, text.length * 6.6 + 10);
  return html`<g class="badge"><rect x=${x - width + 8} y=${y - 9} width=${width} height="18" rx="9" /><text x=${x - width / 2 + 8} y=${y + 4} text-anchor="middle">${text}</text></g>`;
}

const KINDS = { gate: "a person decides", member: "member", agent: "agent" };

function says(node, used) {
  const did =
    used === undefined
      ? ""
      : used
        ? used.orders.length && `, ran ${times(used.orders.length)}, in step ${[...new Set(used.orders)].join(", ")}`
        : ", did not run";
  const end = used?.failed ? ", failed" : used?.waits ? ", waits for a person" : "";
  return (
    [node.label, KINDS[node.kind], node.note].filter((one, at, all) => one && all.indexOf(one) === at).join(", ") +
    (did || "") +
    end
  );
}

const times = (count) => ["never", "once", "twice"][count] ?? `${count} times`;

function Listed({ node, graph, used, walked }) {
  const out = graph.edges
    .map((edge, index) => ({ ...edge, times: walked?.get(index) }))
    .filter((edge) => edge.head === node.id);
  return html`<strong>${node.label}</strong>${node.note && `, ${node.note}`}${used?.orders.length > 0 && html`, <em>ran ${times(used.orders.length)}</em>`}
    ${out.length > 0 && ` → ${out.map((edge) => `${target(edge, graph)}${edge.times ? " ✓" : ""}`).join(", ")}`}`;
}

function target(edge, graph) {
  const label = graph.nodes.find((node) => node.id === edge.tail)?.label ?? edge.tail;
  const when =
    edge.kind === "error" ? "on an error" : edge.kind === "conditional" ? edge.label || "on a condition" : edge.label;
  return when ? `${label} (${when})` : label;
}
