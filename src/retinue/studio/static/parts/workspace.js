// @ts-check
// The files of a run's workspace, at a version of it: their contents, and how they differ from another version.
import { get, request, save, withQuery } from "../api.js";
import { contentOf, filesChanged, lineChanges, linesIn } from "../folds/workspace_files.js";
import { count, bytes as sizeOf, visible } from "../format.js";
import { html, useEffect, useMemo } from "../html.js";
import { Link, setQuery } from "../router.js";
import { Empty } from "./elements.js";
import { useResource, useRowKeys } from "./hooks.js";
import { VirtualList } from "./virtual_list.js";

const HEIGHT = 34; // of a row
const MOST_BYTES = 2_000_000; // of a file whose content is shown
const MOST_LINES = 3_000;
const MOST_CHARACTERS = 2_000; // of a line

const addressOf = (run) => `/v1/runs/${encodeURIComponent(run)}/workspace`;

/** `query` has the `version`, the version `from` which differences are shown, and the `path` of the chosen file. */
export function Files({ run, versions, query, tabs }) {
  const [version, from, path] = ["version", "from", "path"].map((name) => query.get(name) ?? "");
  const newest = versions[versions.length - 1]?.version;
  const { data, notice } = useResource(
    (signal) => Promise.all([version, from].map((one, at) => (at && !one ? null : listOf(run, one, signal)))),
    [run, version, from, version ? "" : newest],
  );
  const files = useMemo(
    () => (data ? (data[1] ? filesChanged(data[1].files, data[0].files) : data[0].files) : []),
    [data],
  );
  const at = files.findIndex((one) => one.path === path);
  const choose = (index) => setQuery({ path: files[index]?.path });
  useRowKeys(files.length, at, choose, { Escape: () => setQuery({ path: null }) });
  const file = files[at];
  const row = (index) =>
    html`<${Row} key=${files[index].path} file=${files[index]} index=${index} chosen=${index === at} choose=${choose} />`;
  return html`<div class="workbench ${file ? "has-detail" : ""}">
    <section class="bench-list" aria-label="Files">
      <div class="row bench-bar">${tabs}<span class="muted num push">${count(files.length)} ${files.length === 1 ? "file" : "files"}${data?.[1] ? " changed" : ""}</span></div>
      <div class="row versions">
        <${Versions} name="version" label="At" none="the newest version" versions=${versions} value=${version} />
        <${Versions} name="from" label="Changes since" none="–" versions=${[...versions.slice(0, 1).map((one) => ({ version: one.version - 1 })), ...versions]} value=${from} />
      </div>
      ${notice ?? (files.length ? html`<${VirtualList} label="Files" count=${files.length} height=${HEIGHT} at=${at} row=${row} />` : html`<${Empty} title=${data[1] ? "No file differs" : "There are no files"} />`)}
    </section>
    <aside class="bench-detail ${file ? "" : "bench-hint muted"}">${
      file
        ? html`<button class="quiet close-detail" onClick=${() => setQuery({ path: null })} aria-label="Back to the list">← Back</button><${File} key=${`${path} ${data[0].version} ${data[1]?.version}`} run=${run} file=${file} version=${data[0].version} from=${data[1]?.version} />`
        : html`Choose a file, or press <kbd>j</kbd> and <kbd>k</kbd>, to see what is in it.`
    }</aside>
  </div>`;
}

/** Before its first version, a workspace is empty. */
const listOf = (run, version, signal) =>
  version === "0" ? { version: 0, files: [] } : get(addressOf(run), { version }, { signal });

function Versions({ name, label, none, versions, value }) {
  const known = !value || versions.some((one) => String(one.version) === value);
  return html`<label>${label} <select value=${value} onChange=${(event) => setQuery({ [name]: event.target.value })}>
    <option value="">${none}</option>
    ${!known && html`<option value=${value}>v${value}</option>`}
    ${versions.map((one) => html`<option key=${one.version} value=${one.version}>v${one.version}, ${one.step ? `step ${one.step}: ${one.tool}` : "the beginning"}</option>`)}
  </select></label>`;
}

function Row({ file, index, chosen, choose }) {
  return html`<div id=${`row-${index}`} class="span-row file-row" role="option" aria-selected=${chosen} onClick=${() => choose(index)}>
    <span class="file-path mono" title=${visible(file.path)}>${visible(file.path)}</span>
    <span class=${`file-state file-${file.state}`}>${file.state ?? ""}</span>
    <span class="span-time num">${sizeOf(file.size)}</span>
  </div>`;
}

/** How a file's size changed, in words. */
const changeOf = ({ size, was }) =>
  was == null ? `new, ${sizeOf(size)}` : size == null ? "removed" : `${sizeOf(was)} → ${sizeOf(size)}`;

function File({ run, file, version, from }) {
  const small = Math.max(file.size ?? 0, file.was ?? 0) <= MOST_BYTES;
  const { data, notice } = useResource((signal) => {
    const read = (there, at) => (small && there ? contentAt(run, file.path, at, signal) : null);
    return Promise.all([read(file.state !== "removed", version), read(from != null && file.state !== "added", from)]);
  }, []);
  const download = async () =>
    save(file.path.split("/").pop(), new Blob([(await contentAt(run, file.path, version)).slice()]));
  return html`<article class="detail" aria-label=${visible(file.path)}>
    <header class="detail-head">
      <div><h2 class="mono">${visible(file.path)}</h2><p class="facts muted num"><span>${file.state ? changeOf(file) : sizeOf(file.size)}</span><span>version ${version}</span></p></div>
      <div class="actions">${file.state !== "removed" && html`<button onClick=${download}>Download</button>`}</div>
    </header>
    ${notice ?? html`<${Content} path=${file.path} now=${data[0]} old=${data[1]} compared=${from != null} />`}
  </article>`;
}

const contentAt = async (run, path, version, signal) =>
  new Uint8Array(
    await (await request("GET", withQuery(`${addressOf(run)}/content`, { path, version }), { signal })).arrayBuffer(),
  );

function Content({ path, now, old, compared }) {
  const [is, was] = useMemo(() => [now, old].map((one) => (one ? contentOf(one) : null)), [now, old]);
  const shown = is ?? was;
  if (!shown) return html`<p class="note">It is too large to be shown here: download it.</p>`;
  if (is?.image) return html`<${Image} path=${path} bytes=${now} type=${is.image} />`;
  if (shown.text === undefined || (is && was && was.text === undefined))
    return html`<p class="note">It is no text, and no image that can be shown.</p>`;
  return html`<${Lines} path=${path} compared=${compared} lines=${compared ? lineChanges(was?.text ?? "", is?.text ?? "") : linesIn(shown.text)} />`;
}

function Image({ path, bytes, type }) {
  const url = useMemo(() => URL.createObjectURL(new Blob([bytes], { type })), [bytes]);
  useEffect(() => () => URL.revokeObjectURL(url), [url]);
  return html`<img class="file-image" src=${url} alt=${visible(path)} />`;
}

const SIGNS = { added: "+", removed: "−", same: " " };

function Lines({ path, lines, compared }) {
  if (!lines.length) return html`<p class="note">It is empty.</p>`;
  if (compared && lines.every((one) => ["same", "skipped"].includes(one.kind)))
    return html`<p class="note">The content is the same.</p>`;
  return html`<div class="code" tabindex="0" role="region" aria-label=${`Lines of ${visible(path)}`}>
      ${lines
        .slice(0, MOST_LINES)
        .map((one, at) =>
          one.kind === "skipped"
            ? html`<div key=${at} class="code-line code-skipped"><span>${count(one.count)} lines alike</span></div>`
            : html`<div key=${at} class=${`code-line code-${one.kind}`}><span class="code-number" aria-hidden="true">${one.now ?? one.old}</span>${compared && html`<span class="code-sign">${SIGNS[one.kind]}</span>`}<code>${visible(one.text.slice(0, MOST_CHARACTERS))}${one.text.length > MOST_CHARACTERS && "…"}</code></div>`,
        )}
    </div>
    ${lines.length > MOST_LINES && html`<p class="muted">The first ${count(MOST_LINES)} of ${count(lines.length)} lines. Download it to see the others.</p>`}`;
}

/** The files that a call changed: links to what it changed in them. `workspace` is {version, changed: [{path, size,
 *  was}]}. */
export function Changed({ run, workspace }) {
  const { version, changed = [] } = workspace ?? {};
  if (!changed.length) return null;
  const to = (path) => withQuery(`/runs/${run}`, { as: "files", version, from: version - 1, path });
  return html`<section class="stack"><h3>Files changed</h3>
    <ul class="changed">${changed.map(
      (one) =>
        html`<li key=${one.path}><${Link} class="mono" to=${to(one.path)}>${visible(one.path)}<//><span class="muted num">${changeOf(one)}</span></li>`,
    )}</ul>
  </section>`;
}
