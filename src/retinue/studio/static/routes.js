// @ts-check
// The views. `nav` is the name in the navigation; the first route that matches a path is its view.
// A view is `export default function View({params, query})`, and is loaded when it is first shown.
export const routes = [
  { path: "/", title: "Runs", nav: "Runs", load: () => import("./views/runs.js") },
  { path: "/playground", title: "Playground", nav: "Playground", load: () => import("./views/playground.js") },
  { path: "/compare", title: "Compare", nav: "Compare", load: () => import("./views/compare.js") },
  { path: "/agents", title: "Agents", nav: "Agents", load: () => import("./views/agents.js") },
  { path: "/agents/:name", title: "Agent", load: () => import("./views/agents.js") },
  { path: "/evals", title: "Evaluations", nav: "Evals", load: () => import("./views/evals.js") },
  { path: "/evals/:name", title: "Evaluation", load: () => import("./views/evals.js") },
  { path: "/runs/:id", title: "Run", load: () => import("./views/run.js") },
  { path: "/threads/:id", title: "Thread", load: () => import("./views/thread.js") },
];
