// @ts-check
// What is drawn of an agent's outline (GET /v1/studio/agents/NAME): nodes and edges. Pure.

const MOST = 80; // nodes of a drawing
const LETTER = 7.8;
const WIDEST = 230;

/** Return {nodes, edges, direction, last} of an outline, for `layout`. Agents are drawn with their tools and members at
 *  any depth; graphs, chains and pipelines as they are walked. */
export function graphOf(outline) {
  if (outline.graph) return walked(outline);
  const nodes = [];
  const edges = [];
  let left = 0;
  const add = (part, id, label, depth) => {
    for (const tool of part.tools) {
      if (nodes.length >= MOST) {
        left += 1;
        continue;
      }
      const inner = `${id}${tool.name}`;
      const member = tool.part && tool.part.kind !== "code";
      nodes.push(
        sized({
          id: inner,
          label: tool.name,
          kind: member ? "member" : "tool",
          note: note(tool),
          part: tool.part,
          tool,
        }),
      );
      edges.push({ head: label, tail: inner, kind: "always", label: "" });
      if (tool.part?.kind === "agent") add(tool.part, `${inner}/`, inner, depth + 1);
    }
  };
  const root = "\u0000";
  nodes.push(
    sized({ id: root, label: outline.name ?? outline.id, kind: "agent", note: outline.model ?? "", part: outline }),
  );
  add(outline, "", root, 0);
  return { nodes, edges, direction: "right", last: "", left };
}

function walked(outline) {
  const tools = new Map(outline.tools.map((tool) => [tool.name, tool]));
  const nodes = outline.graph.nodes.map((node) => {
    const tool = tools.get(node.id);
    const part = node.part ?? tool?.part ?? null;
    const says =
      node.kind === "gate"
        ? "a person decides"
        : node.kind === "end"
          ? ""
          : part
            ? madeOf(part)
            : (node.made_of ?? "function");
    const kind = node.kind === "end" || node.kind === "gate" ? node.kind : part ? "member" : "tool";
    return sized({ ...node, kind, note: says, part, tool });
  });
  return { nodes, edges: outline.graph.edges, direction: "down", last: "END", left: 0 };
}

const madeOf = (part) => (part.kind === "agent" ? (part.model ?? part.strategy ?? "agent") : part.kind);

function note(tool) {
  if (tool.part && tool.part.kind !== "code") return madeOf(tool.part);
  return tool.approval ? "needs approval" : tool.effects;
}

function sized(node) {
  const longest = Math.max(node.label.length, (node.note ?? "").length * 0.85);
  return {
    ...node,
    width: Math.round(Math.min(WIDEST, Math.max(64, longest * LETTER + 36))),
    height: node.note ? 44 : 32,
  };
}

/** Shorten a label to what its node has room for. */
export function fitted(text, width) {
  const most = Math.floor((width - 28) / LETTER);
  return text.length <= most ? text : `${text.slice(0, Math.max(1, most - 1))}…`;
}
