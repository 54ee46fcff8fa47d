// @ts-check
// Preact, its hooks and htm's tagged templates, in one place, with the types of their npm packages. State and elements
// that begin as `null` may become anything: what the server sends has no types here.
import * as vendorHooks from "./vendor/hooks.js";
import htm from "./vendor/htm.js";
import * as vendorPreact from "./vendor/preact.js";

const preact = /** @type {typeof import("preact")} */ (/** @type {unknown} */ (vendorPreact));
const hooks = /** @type {typeof import("preact/hooks")} */ (/** @type {unknown} */ (vendorHooks));

export const { createContext, render } = preact;
export const { useCallback, useContext, useEffect, useLayoutEffect, useMemo } = hooks;
/** @type {{(initial: null): {current: any}} & typeof hooks.useRef} */
export const useRef = hooks.useRef;
/** @type {{(initial: null): [any, (next: any) => void]} & typeof hooks.useState} */
export const useState = hooks.useState;
/** @type {(strings: TemplateStringsArray, ...values: any[]) => any} */
export const html = htm.bind(preact.h);
