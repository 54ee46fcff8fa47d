// @ts-check
// Reports of evaluations: the figures with their intervals as tables and plots, and each question with its runs.
import { stepsOf } from "../folds/step_alignment.js";
import { duration, moment, words } from "../format.js";
import { html, useMemo, useState } from "../html.js";
import { Empty, ErrorBox, Hidden, PageHead, Table, When } from "../parts/elements.js";
import { useGet, useSession } from "../parts/hooks.js";
import { Text } from "../parts/text.js";
import { setQuery } from "../router.js";
import { percent, SharesPlot, TradePlot } from "./eval_plots.js";
import { StepList } from "./step_list.js";

const SHARES = {
  right: "right",
  judged: "right by a model's verdict",
  exact_match: "exact match",
  contains: "contains an answer",
  numeric: "number right",
  said_not_stated: "unanswerable: says so",
  said_not_stated_wrongly: "answerable: says it is not stated",
};
const QUALITY = { f1: "F1", evidence_found: "evidence found", tool_accuracy: "tool accuracy" };
const COSTS = {
  steps: "steps",
  requests: "requests",
  input_tokens: "tokens in",
  cached_tokens: "of these cached",
  output_tokens: "tokens out",
  cost: "cost",
  seconds: "seconds",
};
const PAGE = 50; // questions that are shown at once

export default function Evals({ params, query }) {
  const { prompts } = useSession();
  if (!prompts) return html`<${PageHead} title="Evaluations" /><${Hidden} what="Evaluations" />`;
  return params.name ? html`<${Report} key=${params.name} name=${params.name} query=${query} />` : html`<${List} />`;
}

// ── all of them ──────────────────────────────────────────────────────────────────────────────────

const COLUMNS = [
  { name: "name", title: "Evaluation", cell: (one) => html`<span class="strong">${one.id}</span>` },
  { name: "dataset", title: "Dataset", cell: (one) => one.dataset ?? html`<span class="muted">no report yet</span>` },
  { name: "questions", title: "Questions", number: true, cell: (one) => one.questions ?? "–" },
  {
    name: "right",
    title: "Right",
    wide: true,
    cell: (one) =>
      html`<span class="muted">${one.configurations.map((its) => `${its.name} ${its.right ? percent(its.right.share) : "–"}`).join(", ")}</span>`,
  },
  { name: "when", title: "When", number: true, cell: (one) => html`<${When} at=${one.written_at} />` },
];

function List() {
  const { data, notice } = useGet("/v1/studio/evals");
  if (notice) return notice;
  return html`<${PageHead} title="Evaluations" />
    ${
      data.data.length
        ? html`<div class="labelled"><${Table} label="Evaluations" columns=${COLUMNS} rows=${data.data} to=${(one) => `/evals/${encodeURIComponent(one.id)}`} /></div>`
        : data.served
          ? html`<${Empty} title="No evaluations yet"><code>retinue eval agents.yml --dataset questions.jsonl --out FOLDER/first</code> writes one.<//>`
          : html`<${Empty} title="This server shows no evaluations">Start it with <code>--evals FOLDER</code>, where <code>retinue eval --out FOLDER/name</code> writes them.<//>`
    }`;
}

// ── one report ───────────────────────────────────────────────────────────────────────────────────

function Report({ name, query }) {
  const { data, error, notice } = useGet(`/v1/studio/evals/${encodeURIComponent(name)}`);
  if (error?.code === "no_report") return html`<${PageHead} title=${name} /><${ErrorBox} error=${error} />`;
  if (notice) return html`${error && html`<${PageHead} title=${name} />`}${notice}`;
  const { figures } = data;
  return html`<${PageHead} title=${name} lead=${`${figures.questions} questions of ${figures.dataset} · ${moment(data.written_at)}`} />
    <div class="report">
      <${Figures} figures=${figures} />
      <div class="plots">
        <section><h2>Right, with 95% intervals</h2><${SharesPlot} figures=${figures} /></section>
        <section><h2>Right against what it takes</h2>
          <${TradePlot} figures=${figures} amount="seconds" label="seconds a question" />
          <${TradePlot} figures=${figures} amount="output_tokens" label="tokens written a question" />
        </section>
      </div>
      <${Pairs} pairs=${figures.pairs} />
      <${Questions} report=${data} query=${query} />
      <details><summary>About this evaluation</summary><ul class="about">${data.about.map((line) => html`<li>${line}</li>`)}</ul></details>
    </div>`;
}

function Figures({ figures }) {
  const has = (names, part) => Object.keys(names).filter((one) => figures.configurations.some((its) => its[part][one]));
  const [shares, quality, costs] = [has(SHARES, "shares"), has(QUALITY, "means"), has(COSTS, "means")];
  const named = {
    name: "configuration",
    title: "Configuration",
    cell: (one) => html`<${Name} figures=${figures} name=${one.name} />`,
  };
  const mean = (one, titles) => ({
    name: one,
    title: titles[one],
    number: true,
    cell: (its) => html`<${Mean} name=${one} mean=${its.means[one]} />`,
  });
  const answers = [
    named,
    {
      name: "questions",
      title: "questions",
      number: true,
      cell: (one) => (one.failed ? `${one.questions} (${one.failed} more have no answer)` : one.questions),
    },
    ...shares.map((mark) => ({
      name: mark,
      title: SHARES[mark],
      number: true,
      cell: (one) => html`<${Share} share=${one.shares[mark]} />`,
    })),
    ...quality.map((one) => mean(one, QUALITY)),
  ];
  const takes = [
    named,
    ...costs.map((one) => mean(one, COSTS)),
    { name: "stops", title: "stop reasons", cell: (one) => html`<span class="muted">${stops(one)}</span>` },
  ];
  const rows = figures.configurations;
  return html`<section><h2>Answers</h2><${Table} label="Answers" columns=${answers} rows=${rows} id=${(one) => one.name} /></section>
    <section><h2>What a question takes</h2><${Table} label="What a question takes" columns=${takes} rows=${rows} id=${(one) => one.name} /></section>`;
}

const Name = ({ figures, name }) =>
  html`<span class="strong"><span class=${`series-dot series-${figures.configurations.findIndex((one) => one.name === name) % 6}`} aria-hidden="true"></span>${name}</span>`;
const stops = (one) =>
  Object.entries(one.stop_reasons)
    .map(([reason, times]) => `${words(reason).toLowerCase()} ${times}`)
    .join(", ");
const Share = ({ share }) =>
  share
    ? html`<span title=${`${share.count} of ${share.of}`}>${percent(share.share)}</span> <span class="muted interval-text">${(100 * share.low).toFixed(0)}–${(100 * share.high).toFixed(0)}</span>`
    : "–";
const Mean = ({ name, mean }) =>
  mean
    ? html`${figure(name, mean.mean)} <span class="muted interval-text">${figure(name, mean.low)}–${figure(name, mean.high)}</span>`
    : "–";

function figure(name, value) {
  if (name in QUALITY) return value.toFixed(3);
  if (name === "cost") return Number(value.toPrecision(4)).toString();
  return name.includes("tokens") ? Math.round(value).toLocaleString("en") : value.toFixed(2);
}

const PAIRED = [
  { name: "pair", title: "From → to", cell: (one) => html`<span class="strong">${one.first} → ${one.second}</span>` },
  { name: "both", title: "both right", number: true, cell: (one) => one.both },
  { name: "first", title: "only the first", number: true, cell: (one) => one.only_first },
  { name: "second", title: "only the second", number: true, cell: (one) => one.only_second },
  { name: "neither", title: "neither", number: true, cell: (one) => one.neither },
  {
    name: "right",
    title: "difference in points",
    number: true,
    cell: ({ right }) =>
      html`${signed(100 * right.mean)} <span class="muted interval-text">${signed(100 * right.low)} to ${signed(100 * right.high)}</span>`,
  },
  { name: "p", title: "p", number: true, cell: ({ right }) => (right.p < 0.001 ? "< 0.001" : right.p.toFixed(3)) },
];

const signed = (value) => `${value > 0 ? "+" : value < 0 ? "−" : ""}${Math.abs(value).toFixed(1)}`;

function Pairs({ pairs }) {
  if (!pairs.length) return null;
  return html`<section><h2>Paired tests</h2><${Table} label="Paired tests" columns=${PAIRED} rows=${pairs} id=${(one) => `${one.first} ${one.second}`} />
    <p class="muted remark">McNemar's exact test, on the questions that both answered; no p is corrected for the number of tests.</p></section>`;
}

// ── its questions ────────────────────────────────────────────────────────────────────────────────

const CHOICES = { all: "all", wrong: "wrong by any", differ: "right by some only", right: "right by all" };

function Questions({ report, query }) {
  const [text, setText] = useState(query.get("q") ?? "");
  const [most, setMost] = useState(PAGE);
  const wanted = CHOICES[query.get("show")] ? query.get("show") : "all";
  const found = useMemo(
    () => report.questions.filter((one) => isWanted(one, wanted) && says(one, text)),
    [report, wanted, text],
  );
  return html`<section><h2>Questions</h2>
    <div class="toolbar">
      <label class="sr" for="find">Search</label>
      <input id="find" class="search" type="search" placeholder="Search questions and answers" value=${text} onInput=${(event) => setText(event.target.value)} onChange=${() => setQuery({ q: text })} />
      <label class="sr" for="show">Which</label>
      <select id="show" value=${wanted} onChange=${(event) => setQuery({ show: event.target.value === "all" ? null : event.target.value })}>
        ${Object.entries(CHOICES).map(([name, title]) => html`<option key=${name} value=${name}>${title}</option>`)}
      </select>
      <span class="muted" role="status">${found.length} of ${report.questions.length}</span>
    </div>
    <ul class="questions">${found.slice(0, most).map((one) => html`<li key=${one.id}><${Question} one=${one} report=${report} /></li>`)}</ul>
    ${found.length > most && html`<button onClick=${() => setMost(most + 200)}>Show more of ${found.length}</button>`}
  </section>`;
}

function isWanted(question, wanted) {
  const rights = Object.values(question.runs).map((run) => run.right);
  if (wanted === "wrong") return rights.some((right) => !right);
  if (wanted === "differ") return rights.includes(true) && rights.includes(false);
  return wanted === "right" ? rights.length > 0 && rights.every(Boolean) : true;
}

function says(question, text) {
  const all = [
    question.id,
    question.question,
    question.gold,
    ...question.tags,
    ...Object.values(question.runs).map((run) => run.answer),
  ]
    .join("\n")
    .toLowerCase();
  return text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => all.includes(word));
}

const Mark = ({ right, name }) =>
  html`<span class=${`mark-${right ? "right" : "wrong"}`} title=${`${name}: ${right ? "right" : "wrong"}`}><span aria-hidden="true">${right ? "✓" : "✗"}</span><span class="sr">${name} ${right ? "right" : "wrong"}</span></span>`;

function Question({ one, report }) {
  const [open, setOpen] = useState(false);
  return html`<details class="eval-question" onToggle=${(event) => event.target === event.currentTarget && setOpen(event.currentTarget.open)}>
    <summary><span class="marks">${Object.entries(one.runs).map(([name, run]) => html`<${Mark} key=${name} name=${name} right=${run.right} />`)}</span>
      <span class="question-text">${one.question}</span> <span class="muted">${one.id}</span></summary>
    ${
      open &&
      html`<div class="question-body">
      <dl class="fact-list"><dt>Accepted</dt><dd>${one.gold || "–"}</dd>${one.tags.length > 0 && html`<dt>Tags</dt><dd>${one.tags.join(", ")}</dd>`}</dl>
      ${Object.entries(one.runs).map(([name, run]) => html`<${Run} key=${name} name=${name} run=${run} question=${one} report=${report} />`)}
    </div>`
    }
  </details>`;
}

function Run({ name, run, question, report }) {
  const [shown, setShown] = useState(false);
  const marks = [
    ...Object.entries(run.shares)
      .filter(([mark]) => mark !== "right")
      .map(([mark, yes]) => `${SHARES[mark] ?? words(mark)}: ${yes ? "yes" : "no"}`),
    ...Object.entries(run.amounts)
      .filter(([mark]) => mark in QUALITY)
      .map(([mark, value]) => `${QUALITY[mark]} ${value.toFixed(2)}`),
    `${run.amounts.steps === 1 ? "1 step" : `${run.amounts.steps ?? 0} steps`}`,
    duration(run.amounts.seconds),
  ];
  return html`<section class="eval-run">
    <h3><${Name} figures=${report.figures} name=${name} /> <${Mark} name="" right=${run.right} />
      ${run.stop_reason !== "ANSWER" && html`<span class="status-wait">${words(run.stop_reason).toLowerCase()}</span>`}</h3>
    <${Text} label="Answer" value=${run.answer} lines=${6} />
    ${run.error && html`<p class="problem">${run.error}</p>`}
    <p class="muted">${marks.join(" · ")}</p>
    <button class="quiet" aria-expanded=${shown} onClick=${() => setShown(!shown)}>${shown ? "Hide the run" : "Show the run"}</button>
    ${shown && html`<${Trace} evaluation=${report.id} configuration=${name} question=${question.id} />`}
  </section>`;
}

function Trace({ evaluation, configuration, question }) {
  const { data, notice } = useGet(`/v1/studio/evals/${encodeURIComponent(evaluation)}/runs`, {
    configuration,
    question,
  });
  if (notice) return notice;
  const members = Object.entries(data.members);
  return html`<${StepList} steps=${stepsOf(data.events)} />
    ${members.map(([path, events]) => html`<details key=${path}><summary>Called: ${path}</summary><${StepList} steps=${stepsOf(events)} /></details>`)}`;
}
