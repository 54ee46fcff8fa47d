import { createContext, useContext } from "../html.js";

/** Whose key this is: {tenant, scopes, prompts}; `prompts` says whether it sees agents' prompts. */
export const Session = createContext({ tenant: "", scopes: [], prompts: false });
export const useSession = () => useContext(Session);
