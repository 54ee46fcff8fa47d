// @ts-check
// The list of a run's spans: each a row with its place in time.
import { place, summary, ticks, title, workOf } from "../folds/run_log.js";
import { stepFigures } from "../folds/span_rows.js";
import { duration, short } from "../format.js";
import { html, useCallback, useState } from "../html.js";
import { VirtualList } from "./virtual_list.js";

const HEIGHT = 34;
const MANY = 60; // rows beyond which the time line is that of the rows in sight

/** `rows` of `timelineRows` or `treeRows`; `choose(index)` selects one, `toggle(row)` opens or closes it. */
export function SpanList({ rows, at, choose, toggle, begin: first, finish: last, follow }) {
  const [inSight, setInSight] = useState([0, 0]);
  const seen = useCallback((top, bottom) => setInSight([top, bottom]), []);
  const [begin, finish] = rows.length > MANY ? timesOf(rows.slice(...inSight), first, last) : [first, last];
  const row = (index) =>
    html`<${Row} key=${rows[index].key} row=${rows[index]} index=${index} chosen=${index === at} choose=${choose} toggle=${toggle} begin=${begin} finish=${finish} />`;
  return html`<div class="spans">
    <div class="axis" aria-hidden="true"><span></span><span class="axis-marks">
      ${ticks(finish - begin, innerWidth > 720 ? 4 : 2).map((one) => html`<span key=${one} style=${{ left: `${(one / Math.max(finish - begin, 1e-6)) * 100}%` }}>${mark(one, begin - first)}</span>`)}
    </span><span></span></div>
    <${VirtualList} label="Steps" count=${rows.length} height=${HEIGHT} at=${at} row=${row} follow=${follow} seen=${seen} />
  </div>`;
}

/** The first mark says when the rows begin, the others how much later they are. */
const mark = (seconds, from) =>
  seconds ? `${from > 0.0005 ? "+" : ""}${duration(seconds)}` : from > 0.0005 ? duration(from) : "0";

function timesOf(rows, first, last) {
  let [begin, finish] = [Infinity, -Infinity];
  for (const row of rows) {
    const span = row.span ?? stepSpan(row);
    begin = Math.min(begin, span.start);
    finish = Math.max(finish, span.end ?? last);
  }
  return begin < finish ? [begin, finish] : [first, last];
}

function Row({ row, index, chosen, choose, toggle, begin, finish }) {
  const { left, width } = place(row.span ?? stepSpan(row), begin, finish);
  const kind = row.span ? (row.member ? "member" : row.span.kind) : "step";
  const state = row.span ? row.span.state : "";
  const expands = !row.span || row.member;
  const flip = (event) => {
    event.stopPropagation();
    toggle(row);
  };
  return html`<div id=${`row-${index}`} class="span-row span-${kind} is-${state}" role="option" aria-selected=${chosen} onClick=${() => choose(index)} onDblClick=${() => expands && toggle(row)}>
    <span class="span-name" style=${{ paddingLeft: `${row.depth * 16}px` }}>
      ${expands ? html`<span class="twist" aria-hidden="true" onClick=${flip}>${row.open ? "▾" : "▸"}</span>` : html`<span class="twist"></span>`}
      <span class="swatch" aria-hidden="true"></span>
      <span class="span-title">${row.span ? title(row.span) : `Step ${row.step}`}</span>
      ${state === "failed" && html`<span class="span-mark">${row.span.observation?.outcome?.replaceAll("_", " ") ?? NO[row.span.kind] ?? "no result"}</span>`}
      ${row.span?.observation && workOf(row.span).command?.exit > 0 && html`<span class="span-mark">exit ${row.span.observation.data.command.exit}</span>`}
      ${row.span?.told === null && !row.member?.ended_at && html`<span class="span-live">in the background</span>`}
      <span class="span-says">${row.span ? summary(row.span) : stepSays(row)}</span>
    </span>
    <span class="span-track" aria-hidden="true"><span class="span-bar" style=${{ left: `${left * 100}%`, width: `max(2px, ${width * 100}%)` }}></span></span>
    <span class="span-time num">${timeOf(row)}</span>
  </div>`;
}

const NO = { model: "no reply", hook: "blocked" };

function timeOf(row) {
  const span = row.span ?? stepSpan(row);
  if (span.end === null) return "…";
  if (span.kind === "hook") return "";
  return duration((!row.member && span.observation?.seconds) || span.end - span.start);
}

const stepSpan = (row) => stepFigures(row.spans);

function stepSays(row) {
  const told = stepFigures(row.spans);
  return [told.tokens && `${short(told.tokens)} tokens`, told.calls && `${told.calls} call${told.calls > 1 ? "s" : ""}`]
    .filter(Boolean)
    .join(", ");
}
