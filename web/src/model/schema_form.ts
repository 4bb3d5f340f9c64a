/**
 * A form from a JSON Schema: the fields of an object with flat properties, as tools ask for them.
 *
 * What the form cannot show is written as JSON, so nothing that a schema asks for is out of reach. A
 * text with invisible characters is, too: in a field they would not be seen.
 */

import { exactJson, hasInvisible } from "./invisible";

export type Field =
  | { kind: "text"; key: string; title: string; help: string; required: boolean; format: string; multiline: boolean; emptyIsValue: boolean }
  | { kind: "number"; key: string; title: string; help: string; required: boolean; whole: boolean }
  | { kind: "boolean"; key: string; title: string; help: string; required: boolean }
  | { kind: "choice"; key: string; title: string; help: string; required: boolean; options: Option[]; many: boolean }
  | { kind: "json"; key: string; title: string; help: string; required: boolean };

export interface Option {
  value: string;
  label: string;
}

type Schema = Record<string, unknown>;

/** The fields that a schema asks for. */
export function fieldsOf(schema: Schema | undefined): Field[] {
  const properties = (schema?.["properties"] ?? {}) as Record<string, Schema>;
  const required = new Set((schema?.["required"] ?? []) as string[]);
  return Object.entries(properties).map(([key, property]) => fieldOf(key, property ?? {}, required.has(key)));
}

function fieldOf(key: string, schema: Schema, required: boolean): Field {
  const title = typeof schema["title"] === "string" ? schema["title"] : key;
  const help = typeof schema["description"] === "string" ? schema["description"] : "";
  const common = { key, title, help, required };
  const options = optionsOf(schema);
  if (options) return { kind: "choice", ...common, options, many: false };
  const type = Array.isArray(schema["type"]) ? schema["type"].find((one) => one !== "null") : schema["type"];
  switch (type) {
    case "string": {
      const preset = schema["default"];
      if (typeof preset === "string" && hasInvisible(preset)) return { kind: "json", ...common };
      const format = typeof schema["format"] === "string" ? schema["format"] : "";
      return { kind: "text", ...common, format, multiline: Number(schema["maxLength"] ?? 0) > 200, emptyIsValue: false };
    }
    case "integer":
    case "number":
      return { kind: "number", ...common, whole: type === "integer" };
    case "boolean":
      return { kind: "boolean", ...common };
    case "array": {
      const items = optionsOf((schema["items"] ?? {}) as Schema);
      return items ? { kind: "choice", ...common, options: items, many: true } : { kind: "json", ...common };
    }
    default:
      return { kind: "json", ...common };
  }
}

function optionsOf(schema: Schema): Option[] | undefined {
  const named = (schema["oneOf"] ?? schema["anyOf"]) as { const?: unknown; title?: unknown }[] | undefined;
  if (Array.isArray(named) && named.length > 0 && named.every((one) => typeof one?.const === "string")) {
    return named.map((one) => ({ value: one.const as string, label: typeof one.title === "string" ? one.title : (one.const as string) }));
  }
  const values = schema["enum"] as unknown[] | undefined;
  if (!Array.isArray(values) || !values.every((one) => typeof one === "string")) return undefined;
  const names = schema["enumNames"] as unknown[] | undefined;
  return values.map((value, place) => {
    const label = names?.[place];
    return { value: value as string, label: typeof label === "string" ? label : (value as string) };
  });
}

/** A field for each argument that is there, for tools whose schema is not known. */
export function fieldsOfValues(values: Record<string, unknown>): Field[] {
  return Object.entries(values).map(([key, value]) => {
    const common = { key, title: key, help: "", required: true };
    if (typeof value === "string" && !hasInvisible(value)) {
      return { kind: "text", ...common, format: "", multiline: value.length > 80 || value.includes("\n"), emptyIsValue: true };
    }
    if (typeof value === "number") return { kind: "number", ...common, whole: false };
    return typeof value === "boolean" ? { kind: "boolean", ...common } : { kind: "json", ...common };
  });
}

/** What a person typed, by key. Numbers and JSON stay text until they are read. */
export type Draft = Record<string, string | boolean | string[]>;

/** What the form starts with: the given values, else the defaults of the schema. */
export function draftOf(fields: readonly Field[], schema: Schema | undefined, values: Record<string, unknown> = {}): Draft {
  const properties = (schema?.["properties"] ?? {}) as Record<string, Schema>;
  return Object.fromEntries(fields.map((field) => [field.key, draftValue(field, field.key in values ? values[field.key] : properties[field.key]?.["default"])]));
}

function draftValue(field: Field, value: unknown): string | boolean | string[] {
  switch (field.kind) {
    case "boolean":
      return value === true;
    case "choice":
      return field.many ? (Array.isArray(value) ? (value as string[]) : []) : typeof value === "string" ? value : "";
    case "json":
      return value === undefined ? "" : exactJson(JSON.stringify(value, null, 2));
    default:
      return value === undefined || value === null ? "" : String(value);
  }
}

/** The values of the form, or what is wrong with which field. */
export function readDraft(
  fields: readonly Field[],
  draft: Draft,
): { values: Record<string, unknown>; problems: Record<string, string> } {
  const values: Record<string, unknown> = {};
  const problems: Record<string, string> = {};
  for (const field of fields) {
    const typed = draft[field.key];
    if (typed === "" && field.kind === "text" && field.emptyIsValue) {
      values[field.key] = "";
      continue;
    }
    if (typed === "" || typed === undefined || (Array.isArray(typed) && typed.length === 0)) {
      if (field.required && field.kind !== "boolean") problems[field.key] = "Please fill this in.";
      else if (Array.isArray(typed)) values[field.key] = typed;
      continue;
    }
    if (field.kind === "number") {
      const number = Number(typed);
      if (!Number.isFinite(number)) problems[field.key] = "Please write a number.";
      else if (field.whole && !Number.isInteger(number)) problems[field.key] = "Please write a whole number.";
      else values[field.key] = number;
    } else if (field.kind === "json") {
      try {
        values[field.key] = JSON.parse(String(typed));
      } catch {
        problems[field.key] = "Please write JSON.";
      }
    } else {
      values[field.key] = typed;
    }
  }
  return { values, problems };
}
