// @ts-check
// Plots of an evaluation: shares with their intervals, and what a question takes against how often it is right.
import { html } from "../html.js";

const [WIDTH, LEFT, ROW] = [640, 170, 26];
const SCALE = WIDTH - LEFT - 56;
const HIGH = 240;

/** The share that is right, of all questions and of each tag, with its interval: a row a configuration. */
export function SharesPlot({ figures }) {
  const groups = [["All questions", figures.configurations], ...Object.entries(figures.tags)];
  const rows = [];
  let y = 18;
  for (const [title, summaries] of groups) {
    rows.push(html`<text class="plot-title" x="0" y=${y}>${title}</text>`);
    summaries.forEach((one, at) => {
      y += ROW - 4;
      rows.push(html`<${Interval} key=${`${title} ${one.name}`} y=${y} at=${at} one=${one} />`);
    });
    y += ROW + 2;
  }
  const bottom = y - ROW + 4;
  return html`<div class="plot-wrap" tabindex="0" role="region" aria-label="Right answers, plotted">
    <svg class="plot" viewBox=${`0 0 ${WIDTH} ${bottom + 22}`} role="img" aria-label="How often each configuration is right, with 95% intervals. The same figures are in the tables.">
      ${[0, 0.25, 0.5, 0.75, 1].map((share) => html`<${Line} key=${share} x=${LEFT + share * SCALE} from=${6} to=${bottom} label=${`${share * 100}%`} />`)}
      ${rows}
    </svg>
  </div>`;
}

function Interval({ y, at, one }) {
  const share = one.shares.right;
  const x = (value) => LEFT + value * SCALE;
  return html`<g class=${`series series-${at % 6}`}>
    <text x="12" y=${y + 4}>${shortened(one.name)}</text>
    ${
      share &&
      html`<path class="interval" d=${`M${x(share.low)},${y} H${x(share.high)}`} />
      <circle cx=${x(share.share)} cy=${y} r="5" />
      <text class="value" x=${WIDTH} y=${y + 4} text-anchor="end">${Math.round(share.share * 100)}%</text>
      <title>${`${one.name}: ${share.count} of ${share.of}, ${percent(share.low)} to ${percent(share.high)}`}</title>`
    }
  </g>`;
}

const Line = ({ x, from, to, label }) =>
  html`<g class="grid"><path d=${`M${x},${from} V${to}`} /><text x=${x} y=${to + 15} text-anchor="middle">${label}</text></g>`;

/** Each configuration's mean of `amount` (to the right) against its share of right answers (upwards). */
export function TradePlot({ figures, amount, label }) {
  const points = figures.configurations
    .map((one, at) => ({ one, at }))
    .filter(({ one }) => one.means[amount] && one.shares.right);
  if (!points.length) return null;
  const most = roundUp(Math.max(...points.map(({ one }) => one.means[amount].high)));
  const [x, y] = [(value) => 44 + (value / most) * (WIDTH - 130), (share) => 14 + (1 - share) * HIGH];
  return html`<div class="plot-wrap" tabindex="0" role="region" aria-label=${`Right answers against ${label}, plotted`}>
    <svg class="plot" viewBox=${`0 0 ${WIDTH} ${HIGH + 56}`} role="img" aria-label=${`How often each configuration is right against ${label}. The same figures are in the tables.`}>
      ${[0, 0.25, 0.5, 0.75, 1].map((share) => html`<g class="grid" key=${share}><path d=${`M44,${y(share)} H${WIDTH - 86}`} /><text x="38" y=${y(share) + 4} text-anchor="end">${share * 100}%</text></g>`)}
      ${[0, 0.25, 0.5, 0.75, 1].map((part) => html`<text class="grid-label" key=${part} x=${x(part * most)} y=${HIGH + 32} text-anchor="middle">${tick(part * most)}</text>`)}
      <text class="grid-label" x=${(44 + WIDTH - 86) / 2} y=${HIGH + 50} text-anchor="middle">${label}</text>
      ${points.map(({ one, at }) => {
        const [mean, share] = [one.means[amount], one.shares.right];
        return html`<g key=${one.name} class=${`series series-${at % 6}`}>
          <path class="interval thin" d=${`M${x(mean.low)},${y(share.share)} H${x(mean.high)} M${x(mean.mean)},${y(share.low)} V${y(share.high)}`} />
          <circle cx=${x(mean.mean)} cy=${y(share.share)} r="5" />
          <text x=${x(mean.mean) + 9} y=${y(share.share) - 9}>${shortened(one.name)}</text>
        </g>`;
      })}
    </svg>
  </div>`;
}

export const percent = (share) => `${(100 * share).toFixed(1)}%`;
const shortened = (name) => (name.length > 20 ? `…${name.slice(-19)}` : name);
const tick = (value) => Number(value.toPrecision(3)).toLocaleString("en");

/** The next number of the form 1, 2, 4, 5 or 8 times a power of ten. */
function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 4, 5, 8].find((step) => step * power >= value * 0.9999) ?? 10) * power;
}
