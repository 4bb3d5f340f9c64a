// An MCP server on standard input and output whose tools claim something about themselves.

import { createInterface } from "node:readline";

const table = { type: "object", properties: { table: { type: "string", description: "Name of the table" } }, required: ["table"] };
const TOOLS = [
  { name: "drop_table", title: "Drops a table", inputSchema: table, annotations: { destructiveHint: true, readOnlyHint: false } },
  { name: "list_tables", title: "Lists the tables", inputSchema: { type: "object", properties: {} }, annotations: { readOnlyHint: true } },
];
const ANSWERS = {
  initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "ops", version: "1" } }),
  "tools/list": () => ({ tools: TOOLS }),
  "tools/call": ({ name, arguments: given }) => ({ content: [{ type: "text", text: name === "drop_table" ? `dropped ${given.table}` : "orders, people" }] }),
  ping: () => ({}),
};

createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const answer = ANSWERS[method] ? { result: ANSWERS[method](params ?? {}) } : { error: { code: -32601, message: "no such method" } };
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, ...answer })}\n`);
});
