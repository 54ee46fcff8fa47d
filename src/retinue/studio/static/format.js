// @ts-check
// Numbers, durations and times as people read them.

const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });

/** 1234567 → "1,234,567"; nothing known → "–". */
export const count = (value) => (value == null ? "–" : grouped.format(value));

/** 12345 → "12.3k". */
export function short(value) {
  if (value == null) return "–";
  if (value < 10_000) return grouped.format(value);
  if (value < 1_000_000) return `${(value / 1000).toFixed(value < 100_000 ? 1 : 0)}k`;
  return `${(value / 1_000_000).toFixed(1)}M`;
}

/** Seconds → "85 ms", "2.1 s", "3 m 12 s", "1 h 05 m". */
export function duration(seconds) {
  if (seconds == null || Number.isNaN(seconds)) return "–";
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  const pad = (value) => String(value).padStart(2, "0");
  if (whole < 3600) return `${Math.floor(whole / 60)} m ${pad(whole % 60)} s`;
  return `${Math.floor(whole / 3600)} h ${pad(Math.floor((whole % 3600) / 60))} m`;
}

/** A time between two whole seconds. */
export const whole = (seconds) =>
  seconds == null ? "–" : seconds < 1 ? "< 1 s" : seconds < 60 ? `${Math.round(seconds)} s` : duration(seconds);

/** A cost in the currency of the prices: "0.0123". */
export function cost(value) {
  if (value == null) return "–";
  if (value > 0 && value < 0.0001) return "< 0.0001";
  return value.toFixed(value < 10 ? 4 : 2);
}

/** Unix seconds → "just now", "5 min ago", "3 h ago", "Mar 4". */
export function ago(at, now = Date.now() / 1000) {
  if (at == null) return "–";
  const passed = now - at;
  if (passed < 45) return "just now";
  if (passed < 3570) return `${Math.round(passed / 60)} min ago`;
  if (passed < 86_400) return `${Math.round(passed / 3600)} h ago`;
  if (passed < 6 * 86_400) return `${Math.round(passed / 86_400)} d ago`;
  return day.format(new Date(at * 1000));
}

/** Unix seconds → date and time. */
export const moment = (at) => (at == null ? "" : clock.format(new Date(at * 1000)));

/** "in_progress" → "in progress". */
export const words = (name) => String(name ?? "").replaceAll("_", " ");

/** The value of a JSON text; what is no JSON, or no text, as it is. */
export function parsed(value) {
  try {
    return typeof value === "string" ? JSON.parse(value) : value;
  } catch {
    return value;
  }
}

/** The text of any JSON value. */
export const pretty = (value) => (typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? ""));

/** 120 → "120 B", 1234 → "1.2 kB"; nothing → "–". */
export function bytes(size) {
  if (size == null) return "–";
  if (size < 1000) return `${size} B`;
  return size < 1e6 ? `${(size / 1000).toFixed(1)} kB` : `${(size / 1e6).toFixed(1)} MB`;
}

/** A text of a file or a command, with what a browser would not show, or would turn the text around with, made visible. */
export const visible = (text) =>
  text.replaceAll("\r\n", "\n").replace(/(?![\t\n\u200c\u200d])[\p{Cc}\p{Cf}\u2028\u2029]/gu, (one) => {
    const code = one.codePointAt(0);
    return code < 32 ? String.fromCharCode(0x2400 + code) : `⟨${code.toString(16)}⟩`;
  });
