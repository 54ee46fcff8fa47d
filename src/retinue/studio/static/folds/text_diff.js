// @ts-check
// The difference of two texts by words or lines (Myers 1986, An O(ND) difference algorithm). Pure, and bounded: texts
// that differ in more than a limit are shown as replaced.

const MOST_CHANGES = 600;
const MOST_WORDS = 6_000;
const BLANK = /^[ \t]+$/;

/** Return [{kind: "same" | "added" | "removed", text}] that turns `before` into `after`: by words, or by lines where
 *  the texts are long. */
export function textDiff(before, after) {
  if (before === after) return before ? [{ kind: "same", text: before }] : [];
  let [old, now] = [words(before), words(after)];
  if (old.length + now.length > MOST_WORDS) [old, now] = [linesOf(before), linesOf(after)];
  return merged(diff(old, now));
}

const words = (text) => text.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];
/** Return the lines of a text, each with its end. */
export const linesOf = (text) => text.match(/[^\n]*\n|[^\n]+$/g) ?? [];

/** Return [{kind, text}] for two lists of texts, one entry for each. */
export function diff(old, now, most = MOST_CHANGES) {
  let start = 0;
  while (start < old.length && start < now.length && old[start] === now[start]) start++;
  let end = 0;
  while (
    end < old.length - start &&
    end < now.length - start &&
    old[old.length - 1 - end] === now[now.length - 1 - end]
  )
    end++;
  const made = [
    ...old.slice(0, start).map((text) => ({ kind: "same", text })),
    ...middle(old.slice(start, old.length - end), now.slice(start, now.length - end), most),
  ];
  for (const text of old.slice(old.length - end)) made.push({ kind: "same", text });
  return made;
}

function middle(old, now, most) {
  const replaced = () => [
    ...old.map((text) => ({ kind: "removed", text })),
    ...now.map((text) => ({ kind: "added", text })),
  ];
  if (!old.length || !now.length) return replaced();
  const trace = furthest(old, now, most);
  return trace ? walkedBack(old, now, trace) : replaced();
}

/** For each number of changes the furthest reach on each diagonal, until the end is reached; `null` beyond `most`. */
function furthest(old, now, most) {
  const limit = Math.min(most, old.length + now.length);
  const reach = new Int32Array(2 * limit + 3);
  const middle = limit + 1;
  const trace = [];
  for (let changes = 0; changes <= limit; changes++) {
    trace.push(reach.slice(middle - changes - 1, middle + changes + 2));
    for (let k = -changes; k <= changes; k += 2) {
      const down = k === -changes || (k !== changes && reach[middle + k - 1] < reach[middle + k + 1]);
      let x = down ? reach[middle + k + 1] : reach[middle + k - 1] + 1;
      while (x < old.length && x - k < now.length && old[x] === now[x - k]) x++;
      reach[middle + k] = x;
      if (x >= old.length && x - k >= now.length) return trace;
    }
  }
  return null;
}

function walkedBack(old, now, trace) {
  const made = [];
  let [x, y] = [old.length, now.length];
  for (let changes = trace.length - 1; changes >= 0; changes--) {
    const at = (k) => trace[changes][k + changes + 1];
    const k = x - y;
    const down = k === -changes || (k !== changes && at(k - 1) < at(k + 1));
    const previous = down ? k + 1 : k - 1;
    const [fromX, fromY] = changes ? [at(previous), at(previous) - previous] : [0, 0];
    while (x > fromX && y > fromY) {
      made.push({ kind: "same", text: old[--x] });
      y--;
    }
    if (changes) made.push(down ? { kind: "added", text: now[--y] } : { kind: "removed", text: old[--x] });
  }
  return made.reverse();
}

/** Join neighbours of a kind, and changes that only a space parts; what was removed comes first. */
function merged(parts) {
  const made = [];
  let [removed, added] = ["", ""];
  const flush = () => {
    if (removed) made.push({ kind: "removed", text: removed });
    if (added) made.push({ kind: "added", text: added });
    [removed, added] = ["", ""];
  };
  parts.forEach(({ kind, text }, at) => {
    const between = kind === "same" && removed && added && BLANK.test(text) && (parts[at + 1]?.kind ?? kind) !== "same";
    if (kind === "removed" || between) removed += text;
    if (kind === "added" || between) added += text;
    if (kind === "same" && !between) {
      flush();
      const last = made[made.length - 1];
      if (last?.kind === "same") last.text += text;
      else made.push({ kind, text });
    }
  });
  flush();
  return made;
}
