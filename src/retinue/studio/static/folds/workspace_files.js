// @ts-check
// What the files of a workspace are, and how those of two versions differ. Pure.
import { diff, linesOf } from "./text_diff.js";

const AROUND = 3; // lines that are shown before and after a change
const IMAGES = [
  ["image/png", "89504e47"],
  ["image/jpeg", "ffd8ff"],
  ["image/gif", "47494638"],
  ["image/webp", "52494646"],
];

/** Return the files that differ between two versions, by their paths: [{path, size, was, state: "added" | "changed" |
 *  "removed"}]. Both are lists of {path, size, version}, where `version` is the one that last changed the file. */
export function filesChanged(before, after) {
  const [old, now] = [before, after].map((files) => new Map(files.map((one) => [one.path, one])));
  const paths = [...new Set([...old.keys(), ...now.keys()])].sort();
  return paths.flatMap((path) => {
    const [was, is] = [old.get(path), now.get(path)];
    if (was && is && was.version === is.version && was.size === is.size) return [];
    const state = !was ? "added" : !is ? "removed" : "changed";
    return [{ path, size: is?.size ?? null, was: was?.size ?? null, state }];
  });
}

/** Return what bytes are: {text}, {image: its media type}, or {} for what is neither. */
export function contentOf(bytes) {
  const head = Array.from(bytes.subarray(0, 4), (one) => one.toString(16).padStart(2, "0")).join("");
  const image = IMAGES.find(([, magic]) => head.startsWith(magic));
  if (image) return { image: image[0] };
  if (bytes.includes(0)) return {};
  try {
    return { text: new TextDecoder("utf-8", { fatal: true }).decode(bytes) };
  } catch {
    return {};
  }
}

/** Return the lines of a text: [{kind: "same", now, text}], numbered from 1. */
export const linesIn = (text) => linesOf(text).map((one, at) => ({ kind: "same", now: at + 1, text: chomped(one) }));

/** Return how a text became another, by lines: [{kind: "same" | "added" | "removed" | "skipped", old, now, text}]. Of
 *  lines that are the same, those far from a change are one entry, `skipped`, with their `count`. */
export function lineChanges(before, after) {
  let [old, now] = [0, 0];
  const lines = diff(linesOf(before), linesOf(after)).map(({ kind, text }) => ({
    kind,
    old: kind === "added" ? null : ++old,
    now: kind === "removed" ? null : ++now,
    text: chomped(text),
  }));
  const near = new Set(
    lines.flatMap((one, at) =>
      one.kind === "same" ? [] : Array.from({ length: 2 * AROUND + 1 }, (_, by) => at + by - AROUND),
    ),
  );
  const shown = [];
  lines.forEach((one, at) => {
    const last = shown[shown.length - 1];
    if (near.has(at)) shown.push(one);
    else if (last?.kind === "skipped") last.count += 1;
    else shown.push({ kind: "skipped", count: 1, first: one });
  });
  return shown.map((one) => (one.count === 1 ? one.first : one));
}

const chomped = (line) => line.replace(/\r?\n$/, "");
