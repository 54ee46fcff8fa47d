import { useEffect, useRef } from "../html.js";

/** Call `keys[event.key](event)` for keys that are pressed outside of fields, without modifiers. */
export function useKeys(keys) {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    const pressed = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      if (event.target.closest?.("input, textarea, select, [contenteditable], dialog")) return;
      if (event.key === "Enter" && event.target.closest?.("a, button, summary")) return;
      const act = latest.current[event.key];
      if (!act) return;
      event.preventDefault();
      act(event);
    };
    window.addEventListener("keydown", pressed);
    return () => window.removeEventListener("keydown", pressed);
  }, []);
}
