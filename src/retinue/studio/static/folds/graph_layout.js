// @ts-check
// The places of a graph's nodes and edges on a plane: layers in the direction of the edges, few crossings, edges that go
// back at the side. Pure: the same graph is always drawn alike.

const GAP = 26; // between neighbours of a layer
const LAYER = 56; // between layers
const MARGIN = 12;
const LANE = 18; // between edges that go back
const LETTER = 6.8; // of a label
const BESIDE = 7; // between an edge and its label
const SWEEPS = 8;
const BEND = 8; // width of a point where a long edge passes a layer

/** Lay out `nodes` ({id, width, height}) and `edges` ({head, tail, …}). `direction` is "down" or "right".
 *  `last` is the id of a node that is below all others. Return {width, height, nodes, edges}: nodes with the x and y of
 *  their middle, edges with a `path` for SVG, the place of their label (`at`: its left end, or its middle of an edge
 *  that goes `back`). */
export function layout(nodes, edges, { direction = "down", last = "" } = {}) {
  const across = direction === "down" ? (node) => node.width : (node) => node.height;
  const along = direction === "down" ? (node) => node.height : (node) => node.width;
  const known = new Set(nodes.map((one) => one.id));
  const drawn = edges.filter((edge) => known.has(edge.head) && known.has(edge.tail));
  const back = backEdges(nodes, drawn);
  const depth = depths(
    nodes,
    drawn.filter((edge) => !back.has(edge)),
    last,
  );
  const { layers, chains } = withBends(
    nodes,
    drawn.filter((edge) => !back.has(edge)),
    depth,
    across,
    along,
  );
  order(layers);
  spread(layers);
  const starts = offsets(layers);
  const places = new Map(layers.flat().map((cell) => [cell.id, cell]));
  const sides = new Map([...back].map((edge) => [edge, edge.head === edge.tail ? 0 : sideOf(edge, places)]));
  const lanes = (side) => [...sides.values()].filter((one) => one === side).length;
  const beside = (side) =>
    Math.max(
      0,
      ...[...sides].filter(([, one]) => one === side).map(([edge]) => ((edge.label ?? "").length * LETTER) / 2),
    );
  const shift = lanes(-1) && lanes(-1) * LANE + LANE / 2 + beside(-1);
  for (const cell of places.values()) cell.at += shift;
  const extent = Math.max(0, ...layers.flat().map((cell) => cell.at + cell.size / 2));
  const labels = Math.max(
    0,
    ...[...chains].map(([edge, chain]) => (edge.label ? chain[1].at + BESIDE + edge.label.length * LETTER : 0)),
  );
  const turn = direction === "down" ? (a, l) => [a, l] : (a, l) => [l, a];
  const total = [
    Math.max(extent, labels) +
      MARGIN +
      (lanes(1) + lanes(0) ? LANE * (lanes(1) + 1) + Math.max(beside(1), beside(0)) : 0),
    starts.end + MARGIN,
  ];
  const [width, height] = turn(...total);
  const taken = { "-1": 0, 0: 0, 1: 0 };
  return {
    width: Math.ceil(width),
    height: Math.ceil(height),
    nodes: nodes.map((node) => {
      const cell = places.get(node.id);
      const [x, y] = turn(cell.at, starts.of[cell.layer] + starts.size[cell.layer] / 2);
      return { ...node, x, y };
    }),
    edges: drawn.map((edge) => {
      const made = back.has(edge)
        ? backwards(
            edge,
            places,
            starts,
            sides.get(edge),
            laneAt(sides.get(edge), ++taken[sides.get(edge)], Math.max(extent, labels), shift),
          )
        : forwards(chains.get(edge), starts);
      return { ...edge, back: back.has(edge), path: svgPath(made.points, turn), at: point(made.label, turn) };
    }),
  };
}

const point = (/** @type {number[]} */ [a, l], turn) => {
  const [x, y] = turn(a, l);
  return { x, y };
};

/** The edges that close a circle, as found by walking from each node in order. */
function backEdges(nodes, edges) {
  const out = new Map(nodes.map((one) => [one.id, []]));
  for (const edge of edges) out.get(edge.head).push(edge);
  const state = new Map(); // 1: on the way, 2: done
  const back = new Set();
  for (const { id } of nodes) {
    if (state.has(id)) continue;
    const way = [[id, 0]];
    state.set(id, 1);
    while (way.length) {
      const top = way[way.length - 1];
      const edge = out.get(top[0])[top[1]++];
      if (!edge) {
        state.set(top[0], 2);
        way.pop();
      } else if (state.get(edge.tail) === 1) back.add(edge);
      else if (!state.has(edge.tail)) {
        state.set(edge.tail, 1);
        way.push([edge.tail, 0]);
      }
    }
  }
  return back;
}

/** Each node's layer: one below the lowest of those that lead to it. */
function depths(nodes, edges, last) {
  const depth = new Map(nodes.map((one) => [one.id, 0]));
  const waiting = new Map(nodes.map((one) => [one.id, 0]));
  const out = new Map(nodes.map((one) => [one.id, []]));
  for (const edge of edges) {
    waiting.set(edge.tail, waiting.get(edge.tail) + 1);
    out.get(edge.head).push(edge.tail);
  }
  const free = nodes.filter((one) => !waiting.get(one.id)).map((one) => one.id);
  while (free.length) {
    const head = free.shift();
    for (const tail of out.get(head)) {
      depth.set(tail, Math.max(depth.get(tail), depth.get(head) + 1));
      waiting.set(tail, waiting.get(tail) - 1);
      if (!waiting.get(tail)) free.push(tail);
    }
  }
  if (depth.has(last)) {
    const others = nodes.filter((one) => one.id !== last).map((one) => depth.get(one.id));
    depth.set(last, Math.max(depth.get(last), 1 + Math.max(-1, ...others)));
  }
  return depth;
}

/** Layers of cells, with a bend where an edge passes a layer; and each edge's cells from head to tail. */
function withBends(nodes, edges, depth, across, along) {
  const layers = [];
  const put = (cell) => {
    while (layers.length <= cell.layer) layers.push([]);
    layers[cell.layer].push(cell);
    return cell;
  };
  const cells = new Map();
  for (const node of nodes)
    cells.set(
      node.id,
      put({ id: node.id, layer: depth.get(node.id), size: across(node), long: along(node), up: [], down: [] }),
    );
  const chains = new Map();
  edges.forEach((edge, number) => {
    const chain = [cells.get(edge.head)];
    const end = cells.get(edge.tail);
    for (let layer = chain[0].layer + 1; layer < end.layer; layer++)
      chain.push(put({ id: `\u0000${number}:${layer}`, layer, size: BEND, long: 0, up: [], down: [] }));
    chain.push(end);
    for (let at = 1; at < chain.length; at++) {
      chain[at].up.push(chain[at - 1]);
      chain[at - 1].down.push(chain[at]);
    }
    chains.set(edge, chain);
  });
  return { layers, chains };
}

/** Sort each layer by the middle of its neighbours, downwards and upwards in turn. */
function order(layers) {
  layers.forEach(rankCells);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const side = sweep % 2 ? "down" : "up";
    for (const layer of sweep % 2 ? [...layers].reverse() : layers) {
      const wish = new Map(layer.map((cell) => [cell, mean(cell[side].map((one) => one.rank)) ?? cell.rank]));
      layer.sort((one, other) => wish.get(one) - wish.get(other) || one.rank - other.rank);
      rankCells(layer);
    }
  }
}

function rankCells(layer) {
  for (const [rank, cell] of layer.entries()) cell.rank = rank;
}

/** Give each cell its place in its layer: near its neighbours, without overlap. */
function spread(layers) {
  const total = (layer) => layer.reduce((sum, cell) => sum + cell.size + GAP, -GAP);
  const widest = Math.max(0, ...layers.map(total));
  for (const layer of layers) {
    let at = MARGIN + (widest - total(layer)) / 2;
    for (const cell of layer) {
      cell.at = at + cell.size / 2;
      at += cell.size + GAP;
    }
  }
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    for (const layer of sweep % 2 ? [...layers].reverse() : layers) {
      const wish = layer.map((cell) => mean([...cell.up, ...cell.down].map((one) => one.at)) ?? cell.at);
      placed(layer, wish);
    }
  }
  const left = Math.min(...layers.flat().map((cell) => cell.at - cell.size / 2));
  for (const cell of layers.flat()) cell.at += MARGIN - left;
}

/** Put the cells of a layer as near to where they wish to be as their order allows. */
function placed(layer, wish) {
  const room = (at) => (layer[at - 1].size + layer[at].size) / 2 + GAP;
  const right = [...wish];
  for (let at = 1; at < layer.length; at++) right[at] = Math.max(right[at], right[at - 1] + room(at));
  const left = [...wish];
  for (let at = layer.length - 2; at >= 0; at--) left[at] = Math.min(left[at], left[at + 1] - room(at + 1));
  for (const [at, cell] of layer.entries()) cell.at = (right[at] + left[at]) / 2;
}

const mean = (values) => (values.length ? values.reduce((sum, one) => sum + one, 0) / values.length : null);

function offsets(layers) {
  const size = layers.map((layer) => Math.max(...layer.map((cell) => cell.long), 0));
  const of = [];
  let at = MARGIN;
  for (const one of size) {
    of.push(at);
    at += one + LAYER;
  }
  return { of, size, end: Math.max(MARGIN, at - LAYER) };
}

/** An edge down, as [the middle of a side, layer] points: bends pass straight through their layer. */
function forwards(chain, starts) {
  const points = [];
  chain.forEach((cell, at) => {
    const middle = starts.of[cell.layer] + starts.size[cell.layer] / 2;
    if (cell.long) points.push([cell.at, middle + (at ? -1 : 1) * (cell.long / 2)]);
    else points.push([cell.at, starts.of[cell.layer]], [cell.at, starts.of[cell.layer] + starts.size[cell.layer]]);
  });
  const b = points[1];
  return { points: { kind: "curve", points }, label: [b[0] + BESIDE, b[1] - LAYER / 4] };
}

/** Where an edge back passes fewer nodes: -1 before them all, 1 behind. */
function sideOf(edge, places) {
  const beside = [places.get(edge.head), places.get(edge.tail)];
  const passed = (side) =>
    [...places.values()].filter(
      (cell) => cell.long && beside.some((one) => one.layer === cell.layer && (cell.at - one.at) * side > 0),
    ).length;
  return passed(-1) < passed(1) ? -1 : 1;
}

const laneAt = (side, lane, extent, shift) => (side < 0 ? MARGIN + shift - LANE * lane : extent + LANE * lane);

/** An edge back up, at the place `over` at a side; `side` is 0 for a node that leads to itself. */
function backwards(edge, places, starts, side, over) {
  const head = places.get(edge.head);
  const tail = places.get(edge.tail);
  const middle = (cell) => starts.of[cell.layer] + starts.size[cell.layer] / 2;
  const from = [head.at + ((side || 1) * head.size) / 2, middle(head) + head.long * 0.2];
  const to = [tail.at + ((side || 1) * tail.size) / 2, middle(tail) - tail.long * 0.2];
  if (!side) over = from[0] + GAP * 0.6;
  return {
    points: { kind: "corner", points: [from, [over, from[1]], [over, to[1]], to] },
    label: [over, (from[1] + to[1]) / 2],
  };
}

function svgPath({ kind, points }, turn) {
  const at = (a, l) =>
    turn(a, l)
      .map((one) => Math.round(one * 10) / 10)
      .join(",");
  const [first, ...rest] = points;
  if (kind === "corner") return `M${at(...first)} ${rest.map((one) => `L${at(...one)}`).join(" ")}`;
  let path = `M${at(...first)}`;
  let [a, l] = first;
  for (const [nextA, nextL] of rest) {
    const half = (l + nextL) / 2;
    path += nextA === a ? ` L${at(nextA, nextL)}` : ` C${at(a, half)} ${at(nextA, half)} ${at(nextA, nextL)}`;
    [a, l] = [nextA, nextL];
  }
  return path;
}
