// What views are made of.
export { Status } from "./status.js";
export { Cost, Duration, Tokens, When } from "./figures.js";
export { Copy, Json, Text, Thoughts } from "./text.js";
export { Empty, ErrorBox, Hidden, Loading } from "./notices.js";
export { Table } from "./table.js";
export { Dialog } from "./dialog.js";
export { PageHead } from "./page.js";
export { useKeys } from "./keyboard.js";
export { useResource } from "./resource.js";
export { may, useSession } from "./session.js";
export { Link } from "../router.js";
