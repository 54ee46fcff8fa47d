// Preact, its hooks and htm's tagged templates, in one place.
import { Fragment, createContext, h, render } from "./vendor/preact.js";
import htm from "./vendor/htm.js";

export * from "./vendor/hooks.js";
export { Fragment, createContext, h, render };
export const html = htm.bind(h);
