import { createContext, useContext } from "../html.js";

/** Whose key this is: {tenant, scopes, prompts}; `prompts` says whether it sees agents' prompts. */
export const Session = createContext({ tenant: "", scopes: [], prompts: false });
/** Whether the key may do what needs a scope. */
export const may = ({ scopes }, scope) => scopes.includes("all") || scopes.includes(scope);
export const useSession = () => useContext(Session);
