import { html } from "../html.js";
import { Link } from "../router.js";

/** A table. A column is {name, title, number?, wide?, cell(row)}; `to(row)` makes each row a link. On a phone each row becomes a card.
 *  `at` is the index of the row that the keyboard is on. */
export function Table({ columns, rows, id = (row) => row.id, to, at = -1, label }) {
  return html`<div class="table-wrap" tabindex="0" role="region" aria-label=${label}>
    <table class="table">
      <thead>
        <tr>${columns.map((one) => html`<th key=${one.name} scope="col" class=${kind(one)}>${one.title}</th>`)}</tr>
      </thead>
      <tbody>
        ${rows.map(
          (row, index) => html`<tr key=${id(row)} class=${index === at ? "at" : ""} aria-current=${index === at ? "true" : undefined}>
            ${columns.map(
              (one, place) => html`<td key=${one.name} class=${kind(one)} data-title=${one.title}>
                ${to && place === 0 ? html`<${Link} class="row-link" to=${to(row)}>${one.cell(row)}<//>` : one.cell(row)}
              </td>`,
            )}
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

const kind = (column) => `col-${column.name}${column.number ? " number" : ""}${column.wide ? " wide" : ""}`;
