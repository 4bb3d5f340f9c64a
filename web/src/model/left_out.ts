/** The words about tools that a server lists and the model is not offered. */

import type { LeftOut } from "turnwire";
import { exact } from "./invisible";

/** How many tools a line names. */
const MAX_IN_LINE = 5;

/** What is left out of the tools of a server, and why. */
export function leftOutWords(server: string, leftOut: LeftOut): string {
  const tools = leftOut.tools ?? [];
  const n = tools.length + (leftOut.more ?? 0);
  const named = tools.slice(0, MAX_IN_LINE).map(({ name, reason }) => `${name} (${reason})`);
  const others = n > named.length ? ` and ${n - named.length} more` : "";
  return exact(`${n === 1 ? "1 tool" : `${n} tools`} of ${server} ${n === 1 ? "is" : "are"} not offered: ${named.join(", ")}${others}.`);
}
