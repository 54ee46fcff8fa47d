// The views. `nav` is the name in the navigation; the first route that matches a path is its view.
// A view is `export default function View({params, query})`, and is loaded when it is first shown.
export const routes = [
  { path: "/", title: "Runs", nav: "Runs", load: () => import("./views/runs.js") },
];
