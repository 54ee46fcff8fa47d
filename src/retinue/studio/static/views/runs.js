// The runs of the tenant, newest first.
import { html } from "../html.js";
import { get } from "../api.js";
import { Empty, ErrorBox, Loading, PageHead, Status, Table, Tokens, When, useResource } from "../parts/index.js";

const COLUMNS = [
  { name: "status", title: "Status", cell: (run) => html`<${Status} value=${run.status} />` },
  { name: "agent", title: "Agent", cell: (run) => run.model },
  { name: "tokens", title: "Tokens", number: true, cell: (run) => html`<${Tokens} usage=${run.usage} />` },
  { name: "when", title: "When", number: true, cell: (run) => html`<${When} at=${run.created_at} />` },
];

export default function Runs() {
  const { data, error, reload } = useResource((signal) => get("/v1/runs", { limit: 50 }, { signal }), []);
  if (error) return html`<${ErrorBox} error=${error} retry=${reload} />`;
  if (!data) return html`<${Loading} />`;
  return html`<${PageHead} title="Runs" />
    ${data.data.length
      ? html`<${Table} label="Runs" columns=${COLUMNS} rows=${data.data} to=${(run) => `/runs/${run.id}`} />`
      : html`<${Empty} title="No runs yet">Runs of this tenant appear here as they begin.<//>`}`;
}
