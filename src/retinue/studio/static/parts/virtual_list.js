// @ts-check
// A list of thousands of rows of one height, of which only those in sight exist.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../html.js";

const AROUND = 12; // rows beyond the edges

/** `row(index)` renders a row; `at` is the index that is kept in sight; `seen(first, last)` is told which are. */
export function VirtualList({ count, height, at = -1, row, label, follow = false, seen }) {
  const box = useRef(null);
  const [view, setView] = useState({ top: 0, size: 900 });
  useEffect(() => {
    const measure = () => setView({ top: box.current.scrollTop, size: box.current.clientHeight });
    const watch = new ResizeObserver(measure);
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (at < 0 || !box.current) return;
    const { scrollTop, clientHeight } = box.current;
    const top = at * height;
    if (top < scrollTop) box.current.scrollTop = top;
    else if (top + height > scrollTop + clientHeight) box.current.scrollTop = top + height - clientHeight;
  }, [at, height]);
  useLayoutEffect(() => {
    if (follow && box.current) box.current.scrollTop = count * height;
  }, [count, follow]);
  const [top, bottom] = [Math.floor(view.top / height), Math.min(count, Math.ceil((view.top + view.size) / height))];
  useEffect(() => seen?.(top, bottom), [top, bottom]);
  const scrolled = () => setView({ top: box.current.scrollTop, size: box.current.clientHeight });
  const first = Math.max(0, top - AROUND);
  const last = Math.min(count, bottom + AROUND);
  const rows = [];
  for (let index = first; index < last; index++) rows.push(row(index));
  return html`<div class="virtual" ref=${box} onScroll=${scrolled} tabindex="0" role="listbox" aria-label=${label} aria-activedescendant=${at < 0 ? undefined : `row-${at}`}>
    <div class="virtual-all" role="presentation" style=${{ height: `${count * height}px` }}>
      <div class="virtual-some" role="presentation" style=${{ transform: `translateY(${first * height}px)` }}>${rows}</div>
    </div>
  </div>`;
}
