// Writes src/generated/api.ts: the types of events, snapshots, commands and errors, from the
// OpenAPI document of a server.
//
//   npm run generate -- DOCUMENT            writes the file
//   npm run generate -- DOCUMENT --check    fails if the file differs
//
// DOCUMENT is a file or a URL, such as http://127.0.0.1:7878/openapi.json. Only the schemas that
// the client uses are taken, with everything they refer to.

import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

const ROOTS = [
  "RecordedEvent",
  "RunSnapshot",
  "CommandResult",
  "CallApproval",
  "CallInput",
  "ChatMessage",
  "ErrorBody",
];
const OUTPUT = fileURLToPath(new URL("../src/generated/api.ts", import.meta.url));
const PREFIX = "#/components/schemas/";
// Names that mean something else in a browser.
const RENAMED = { Event: "RunEvent" };
const HEADER = `// Generated from /openapi.json by \`npm run generate\`. Do not edit.
//
// A field that is not required may be missing or null. Servers may add fields and events at any
// time, so ignore those that are not known here.
`;

/** The text of a document that is a file or a URL. */
async function read(document) {
  if (!/^https?:/.test(document)) return readFile(document, "utf8");
  const response = await fetch(document);
  if (!response.ok) throw new Error(`${document} answers ${response.status}`);
  return response.text();
}

/** The names of the schemas that `roots` refer to, directly or not, in alphabetical order. */
function reachable(schemas, roots) {
  const names = new Set();
  const visit = (name) => {
    if (names.has(name)) return;
    if (!schemas[name]) throw new Error(`the document has no schema ${name}`);
    names.add(name);
    JSON.stringify(schemas[name], (key, value) => {
      if (key === "$ref") visit(value.slice(PREFIX.length));
      return value;
    });
  };
  roots.forEach(visit);
  return [...names].sort();
}

const named = (name) => RENAMED[name] ?? name;

/** A description as a doc comment, or nothing. */
function comment(description, indent) {
  if (!description) return "";
  const lines = description.split("\n").map((line) => line.trim().replaceAll("*/", "* /"));
  return lines.length === 1
    ? `${indent}/** ${lines[0]} */\n`
    : `${indent}/**\n${lines.map((line) => `${indent} * ${line}\n`).join("")}${indent} */\n`;
}

/** The type of a schema, as TypeScript. */
function typeOf(schema, indent) {
  if (schema.$ref) return named(schema.$ref.slice(PREFIX.length));
  const choices = schema.oneOf ?? schema.anyOf;
  if (choices) return choices.map((choice) => typeOf(choice, indent)).join(" | ");
  if (schema.allOf) return schema.allOf.map((part) => typeOf(part, indent)).join(" & ");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (Array.isArray(schema.type)) {
    return schema.type.map((type) => typeOf({ ...schema, type }, indent)).join(" | ");
  }
  switch (schema.type) {
    case "object":
      return objectOf(schema, indent);
    case "array":
      return `Array<${typeOf(schema.items ?? {}, indent)}>`;
    case "integer":
      return "number";
    case "string":
    case "number":
    case "boolean":
    case "null":
      return schema.type;
    default:
      return "unknown";
  }
}

function objectOf(schema, indent) {
  if (!schema.properties) {
    const values =
      typeof schema.additionalProperties === "object" ? typeOf(schema.additionalProperties, indent) : "unknown";
    return `Record<string, ${values}>`;
  }
  const required = new Set(schema.required);
  const inner = `${indent}  `;
  const fields = Object.entries(schema.properties).map(([name, field]) => {
    const key = /^[A-Za-z_]\w*$/.test(name) ? name : JSON.stringify(name);
    // What may be missing may also be null, whatever the document says.
    const type = typeOf(field, inner);
    const isOptional = !required.has(name);
    const orNull = isOptional && !/\bnull$/.test(type) ? " | null" : "";
    const description = field.description ?? field.oneOf?.[0].description;
    return `${comment(description, inner)}${inner}${key}${isOptional ? "?" : ""}: ${type}${orNull};\n`;
  });
  return `{\n${fields.join("")}${indent}}`;
}

/** One exported type. A choice between objects gets a doc comment on each. */
function declaration(name, schema) {
  const doc = comment(schema.description, "");
  if (schema.oneOf) {
    const choices = schema.oneOf.map((choice) => `${comment(choice.description, "  ")}  | ${typeOf(choice, "  ")}\n`);
    return `${doc}export type ${name} =\n${choices.join("").trimEnd()};\n`;
  }
  if (schema.type === "object" && schema.properties) return `${doc}export interface ${name} ${objectOf(schema, "")}\n`;
  return `${doc}export type ${name} = ${typeOf(schema, "")};\n`;
}

const [document, mode] = process.argv.slice(2);
if (!document || (mode && mode !== "--check")) {
  console.error("usage: npm run generate -- DOCUMENT [--check]");
  process.exit(2);
}
const { schemas } = JSON.parse(await read(document)).components;
const declarations = reachable(schemas, ROOTS).map((name) => declaration(named(name), schemas[name]));
const text = [HEADER, ...declarations].join("\n");
if (mode !== "--check") {
  await writeFile(OUTPUT, text);
  console.log(`src/generated/api.ts: ${declarations.length} types`);
} else if ((await readFile(OUTPUT, "utf8")) !== text) {
  console.error("src/generated/api.ts differs from the document; run `npm run generate`");
  process.exit(1);
} else {
  console.log("src/generated/api.ts is up to date");
}
