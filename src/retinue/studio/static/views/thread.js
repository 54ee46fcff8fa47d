// A thread or a conversation: what was said in it, and the runs that answered.
import { html } from "../html.js";
import { get } from "../api.js";
import { words } from "../format.js";
import { Empty, ErrorBox, Json, Link, Loading, PageHead, Status, Text, Tokens, When, useResource } from "../parts/index.js";

const MOST = 1_000; // entries that are read

export default function Thread({ params }) {
  const { data, error, reload } = useResource((signal) => read(params.id, signal), [params.id]);
  if (error) return html`<${ErrorBox} error=${error} retry=${reload} />`;
  if (!data) return html`<${Loading} />`;
  const { entries, runs, more } = data;
  return html`
    <${PageHead} title=${params.id.startsWith("conv_") ? "Conversation" : "Thread"} lead=${html`<span class="mono">${params.id}</span>`}>
      <${Link} class="button" to=${`/?thread=${encodeURIComponent(params.id)}`}>Its runs<//>
    <//>
    <div class="thread">
      <ol class="said" aria-label="Messages">
        ${entries.map((one) => html`<${Entry} key=${one.id} entry=${one} run=${runs.get(one.run_id)} />`)}
        ${!entries.length && html`<${Empty} title="Nothing was said yet" />`}
        ${more && html`<li class="muted">Only the first ${MOST} entries are shown.</li>`}
      </ol>
      <aside aria-label="Runs"><h2>Runs</h2>
        <ul class="run-list">${[...runs.values()].map((run) => html`<li key=${run.id}>
          <${Link} to=${`/runs/${run.id}`}>${run.model}<//> <${Status} value=${run.status} />
          <span class="muted"><${Tokens} usage=${run.usage} /> tokens · <${When} at=${run.created_at} /></span>
        </li>`)}</ul>
        ${!runs.size && html`<p class="muted">No run is stored for it.</p>`}
      </aside>
    </div>`;
}

async function read(id, signal) {
  const path = id.startsWith("conv_") ? `/v1/conversations/${encodeURIComponent(id)}/items` : `/v1/threads/${encodeURIComponent(id)}/messages`;
  const [entries, runs] = await Promise.all([pages(path, { order: "asc" }, signal), pages("/v1/runs", { thread: id, order: "asc" }, signal)]);
  return { entries: entries.found, more: entries.more, runs: new Map(runs.found.map((one) => [one.id, one])) };
}

async function pages(path, query, signal) {
  const found = [];
  let page = { has_more: true };
  while (page.has_more && found.length < MOST) {
    page = await get(path, { ...query, limit: 100, after: page.last_id }, { signal });
    found.push(...page.data);
    if (!page.data.length) break;
  }
  return { found, more: page.has_more };
}

function Entry({ entry, run }) {
  const role = entry.role ?? entry.type;
  return html`<li class="entry entry-${entry.role ?? "other"}">
    <p class="entry-head"><span class="entry-role">${words(role)}</span>
      ${entry.created_at && html`<span class="muted"><${When} at=${entry.created_at} /></span>`}
      ${entry.status === "incomplete" && html`<${Status} value="incomplete" />`}
      ${run && html`<${Link} class="push" to=${`/runs/${run.id}`}>run<//>`}
    </p>
    ${entry.content || entry.role ? html`<${Content} parts=${entry.content} />` : html`<${Json} label=${words(entry.type)} value=${rest(entry)} />`}
  </li>`;
}

function Content({ parts }) {
  if (typeof parts === "string") return html`<${Text} plain value=${parts} lines=${40} />`;
  return (parts ?? []).map((part, at) => {
    const text = typeof part.text === "string" ? part.text : part.text?.value ?? part.refusal;
    return text == null ? html`<p key=${at} class="note">${words(part.type)}</p>` : html`<${Text} key=${at} plain value=${text} lines=${40} />`;
  });
}

const rest = ({ id, type, status, run_id, ...more }) => more;
