// @ts-check
// A thread or a conversation: what was said in it, and the runs that answered.
import { list } from "../api.js";
import { words } from "../format.js";
import { html } from "../html.js";
import { Empty, PageHead, Status, Tokens, When } from "../parts/elements.js";
import { useResource } from "../parts/hooks.js";
import { Json, Text } from "../parts/text.js";
import { Link } from "../router.js";

const MOST = 1_000; // entries that are read

export default function Thread({ params }) {
  const { data, notice } = useResource((signal) => read(params.id, signal), [params.id]);
  if (notice) return notice;
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
        <ul class="run-list">${[...runs.values()].map(
          (run) => html`<li key=${run.id}>
          <${Link} to=${`/runs/${run.id}`}>${run.model}<//> <${Status} value=${run.status} />
          <span class="muted"><${Tokens} usage=${run.usage} /> tokens · <${When} at=${run.created_at} /></span>
        </li>`,
        )}</ul>
        ${!runs.size && html`<p class="muted">No run is stored for it.</p>`}
      </aside>
    </div>`;
}

async function read(id, signal) {
  const path = id.startsWith("conv_")
    ? `/v1/conversations/${encodeURIComponent(id)}/items`
    : `/v1/threads/${encodeURIComponent(id)}/messages`;
  const [entries, runs] = await Promise.all([
    list(path, { order: "asc", limit: 100 }, signal, MOST + 1),
    list("/v1/runs", { thread: id, order: "asc", limit: 100 }, signal, MOST),
  ]);
  return {
    entries: entries.slice(0, MOST),
    more: entries.length > MOST,
    runs: new Map(runs.map((one) => [one.id, one])),
  };
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
    const text = typeof part.text === "string" ? part.text : (part.text?.value ?? part.refusal);
    return text == null
      ? html`<p key=${at} class="note">${words(part.type)}</p>`
      : html`<${Text} key=${at} plain value=${text} lines=${40} />`;
  });
}

const rest = ({ id, type, status, run_id, ...more }) => more;
