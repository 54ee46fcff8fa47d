// @ts-check
// Which way a run took through what it ran on: the nodes that were used, how often and in which order, and the edges
// between them. A fold over the run's events. Pure.

/** Return {visits: Map(name → [order…]), failed: Set, waits: Set, steps: [[name…]…], ended} of a run's events. A step's
 *  names were called side by side; in a graph, whose model is not asked, the log numbers no steps. */
export function visitsOf(events) {
  const visits = new Map();
  const steps = [];
  const [failed, waits, tools] = [new Set(), new Set(), new Map()];
  const told = new Set(); // gates that were asked about, by call
  const open = new Set(); // calls of this step without a result
  let [at, ended] = [null, false];
  const visit = (step, action, gate) => {
    if (told.has(action.id)) return;
    if (gate) told.add(action.id);
    if (step !== at || gate || !open.size) steps.push([]);
    at = gate ? null : step;
    if (!gate) open.add(action.id);
    steps[steps.length - 1].push(action.tool);
    tools.set(action.id, action.tool);
    visits.set(action.tool, [...(visits.get(action.tool) ?? []), steps.length]);
  };
  for (const { type, data } of events) {
    if (type === "called") {
      waits.delete(action(data).tool);
      visit(data.step, action(data), false);
    } else if (type === "paused") {
      visit(data.step, action(data), true);
      waits.add(action(data).tool);
    } else if (type === "resumed") waits.delete(tools.get(data.call_id));
    else if (type === "observed") {
      const name = tools.get(data.observation?.call_id);
      open.delete(data.observation?.call_id);
      if (name && !["result", "repeated"].includes(data.observation.outcome)) failed.add(name);
    } else if (type === "finished") ended = true;
  }
  return { visits, failed, waits, steps, ended };
}

const action = (data) => data.action ?? { id: "", tool: "" };

/** Return the indexes of the edges of a graph that a run followed, with how often: Map(index → times). A conditional
 *  edge counts if its tail ran next, or is the only one of its candidates that ran at all after its head. */
export function edgesWalked(graph, path) {
  const walked = new Map();
  const add = (index) => walked.set(index, (walked.get(index) ?? 0) + 1);
  const names = new Set(graph.nodes.map((node) => node.id));
  const steps = path.steps.map((step) => step.filter((name) => names.has(name))).filter((step) => step.length);
  const before = new Map(); // the step of each node's last visit
  const used = new Set(); // visits of a head that an edge led on from
  steps.forEach((step, number) => {
    for (const tail of step)
      graph.edges.forEach((edge, index) => {
        if (edge.tail !== tail) return;
        const since = before.get(tail) ?? -1;
        const head = before.get(edge.head) ?? (edge.head === firstOf(graph) ? -1 : null);
        if (head === null || (head < since && since >= 0)) return;
        if (edge.head === firstOf(graph) && since >= 0) return;
        if (edge.kind === "error" && !path.failed.has(edge.head)) return;
        const visit = `${index} ${head}`;
        if (edge.kind === "conditional" && !chosen(graph, edge, tail, steps, head, number)) return;
        if (!used.has(visit)) add(index);
        used.add(visit);
      });
    for (const name of step) before.set(name, number);
  });
  if (path.ended) addEnds(graph, steps, add);
  return walked;
}

/** The node from which everything begins: START, or a pipeline's root. */
const firstOf = (graph) => graph.nodes[0]?.id;

function chosen(graph, edge, tail, steps, head, number) {
  if (number === head + 1) return true;
  const rivals = graph.edges
    .filter((one) => one.kind === "conditional" && one.head === edge.head)
    .map((one) => one.tail);
  return !(steps[head + 1] ?? []).some((name) => rivals.includes(name) && name !== tail);
}

function addEnds(graph, steps, add) {
  const end = graph.nodes.find((node) => node.id === "END");
  const ran = new Set(steps.flat());
  const final = new Set(steps[steps.length - 1] ?? []);
  graph.edges.forEach((edge, index) => {
    if (!end || edge.tail !== "END") return;
    if (edge.kind === "always" ? ran.has(edge.head) : final.has(edge.head)) add(index);
  });
}
