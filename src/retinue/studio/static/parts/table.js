import { html } from "../html.js";
import { Link } from "../router.js";

/** A table. A column is {name, title, number?, wide?, cell(row)}; `to(row)` makes each row a link, in the column with `link`
 *  or else the first. On a phone each row becomes a card.
 *  `at` is the index of the row that the keyboard is on. */
export function Table({ columns, rows, id = (row) => row.id, to, at = -1, label }) {
  const linked = columns.find((one) => one.link) ?? columns[0];
  return html`<div class="table-wrap" tabindex="0" role="region" aria-label=${label}>
    <table class="table" role="table">
      <thead role="rowgroup">
        <tr role="row">${columns.map((one) => html`<th key=${one.name} scope="col" role="columnheader" class=${kind(one)}>${one.title}</th>`)}</tr>
      </thead>
      <tbody role="rowgroup">
        ${rows.map(
          (row, index) => html`<tr key=${id(row)} role="row" class=${index === at ? "at" : ""} aria-current=${index === at ? "true" : undefined}>
            ${columns.map(
              (one) => html`<td key=${one.name} role="cell" class=${kind(one)} data-title=${one.title}>
                ${to && one === linked ? html`<${Link} class="row-link" to=${to(row)}>${one.cell(row)}<//>` : one.cell(row)}
              </td>`,
            )}
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

const kind = (column) => `col-${column.name}${column.number ? " number" : ""}${column.wide ? " wide" : ""}`;
