// The official clients of AG-UI: 1.0, and the last version before it.

import { HttpAgent } from "@ag-ui/client";
import { EventSchema } from "@ag-ui/core/schemas";
import { HttpAgent as HttpAgent0 } from "ag-ui-client-0";
import { EventSchemas as EventSchemas0 } from "ag-ui-core-0";

export const CLIENTS = [
  { name: "ag-ui 1.0.0", HttpAgent, schema: EventSchema, golden: "ag_ui.txt", isV1: true },
  { name: "ag-ui 0.0.57", HttpAgent: HttpAgent0, schema: EventSchemas0, golden: "ag_ui_before_1.txt", isV1: false },
];

/** Runs `run` and returns what the client has warned about meanwhile. */
export async function warningsOf(run) {
  const { warn, error } = console;
  const warnings = [];
  console.warn = (...words) => warnings.push(words.join(" "));
  console.error = () => {};
  try {
    await run();
  } finally {
    Object.assign(console, { warn, error });
  }
  return warnings;
}

/** The texts of all messages of the model. */
export function said(messages) {
  return messages.filter(({ role, content }) => role === "assistant" && content).map(({ content }) => content);
}
