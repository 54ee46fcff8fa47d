// @ts-check
// The rows of a run's list: its spans, and those of members that were opened, below the call that began them. Pure.

/** Return the rows of the time line: {key, span, depth, runId, member, open}. `members` maps a run's id to
 *  {byCall: Map(call → run), logs: Map(run id → {spans})}; `opened` is a Set of keys. */
export function timelineRows(runId, spans, members, opened, depth = 0, prefix = "") {
  const rows = [];
  for (const span of spans) {
    const key = prefix + span.key;
    const member = span.kind === "tool" ? (members.byCall.get(`${runId}/${span.call}`) ?? null) : null;
    const open = opened.has(key);
    rows.push({ key, span, depth, runId, member, open });
    const log = member && open ? members.logs.get(member.id) : null;
    if (log) rows.push(...timelineRows(member.id, log.spans, members, opened, depth + 1, `${key}/`));
  }
  return rows;
}

/** Return the rows of the tree: as the time line's, below a row for each step: {key, depth, step, spans, open}. Steps
 *  are open unless `opened` has their key. */
export function treeRows(runId, spans, members, opened, depth = 0, prefix = "") {
  const rows = [];
  for (const group of steps(spans)) {
    const key = `${prefix}s${group.spans[0].key}`;
    const open = !opened.has(key);
    rows.push({ key, depth, step: group.step, spans: group.spans, open, runId });
    if (!open) continue;
    for (const row of timelineRows(runId, group.spans, members, new Set(), depth + 1, prefix)) {
      row.open = opened.has(row.key);
      rows.push(row);
      const log = row.member && row.open ? members.logs.get(row.member.id) : null;
      if (log) rows.push(...treeRows(row.member.id, log.spans, members, opened, depth + 2, `${row.key}/`));
    }
  }
  return rows;
}

function steps(spans) {
  const groups = [];
  for (const span of spans) {
    const last = groups[groups.length - 1];
    if (last && last.step === span.step) last.spans.push(span);
    else groups.push({ step: span.step, spans: [span] });
  }
  return groups;
}

/** What a step took: {start, end, tokens, calls, failed}. */
export function stepFigures(spans) {
  const made = { start: spans[0].start, end: spans[0].end, tokens: 0, calls: 0, failed: false, live: false };
  for (const span of spans) {
    made.start = Math.min(made.start, span.start);
    made.end = span.end === null ? null : Math.max(made.end ?? 0, span.end);
    made.live ||= span.state === "live";
    made.failed ||= span.state === "failed";
    if (span.kind === "tool") made.calls += 1;
    if (span.reply?.usage) made.tokens += (span.reply.usage.input_tokens ?? 0) + (span.reply.usage.output_tokens ?? 0);
  }
  return made;
}
