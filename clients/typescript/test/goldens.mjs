// The recorded runs of the repository, with what the server's own projections make of them.

import { readFileSync, readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";

const FOLDER =
  process.env.TURNWIRE_GOLDENS ?? fileURLToPath(new URL("../../../crates/turnwire-testkit/scenarios", import.meta.url));

/** The names of all recorded runs. */
export const scenarios = readdirSync(FOLDER).sort();

/** The events of a recorded run. */
export function eventsOf(scenario) {
  const lines = readFileSync(`${FOLDER}/${scenario}/events.jsonl`, "utf8").trimEnd().split("\n");
  return lines.map((line) => JSON.parse(line));
}

/**
 * The recorded calls of callbacks: `[name, ...arguments]` for each line, such as `on_token("a")`, and
 * the name alone if the line is too long to be recorded whole.
 */
export function callsOf(scenario, file) {
  const [calls] = readFileSync(`${FOLDER}/${scenario}/${file}`, "utf8").split("--- at the end");
  return calls
    .split("\n")
    .filter(Boolean)
    .map((line) => {
      if (/… \(\d+ bytes\)\)?$/.test(line)) return [/^\w+/.exec(line)[0]];
      const [, name, rest] = /^(\w+)\((.*)\)( structural=\w+)?$/.exec(line);
      if (name === "on_tool_block_updated") return [name, blockOf(rest)];
      return [name, ...[...rest.matchAll(STRING)].map(([, text]) => unescaped(text))];
    });
}

const STRING = /"((?:[^"\\]|\\.)*)"/g;

/** The text of a string as Rust prints it. */
function unescaped(text) {
  return text.replace(/\\(?:u\{([0-9a-f]+)\}|(.))/g, (_, code, letter) =>
    code ? String.fromCodePoint(parseInt(code, 16)) : ({ n: "\n", r: "\r", t: "\t", 0: "\0" }[letter] ?? letter),
  );
}

/** A block as Rust prints it, in the shape of `AgentToolBlockUpdateParams`. */
function blockOf(printed) {
  const text = (field) => {
    const found = new RegExp(`[ {]${field}: (?:Some\\()?"((?:[^"\\\\]|\\\\.)*)"`).exec(printed);
    return found ? unescaped(found[1]) : undefined;
  };
  const success = / success: Some\((\w+)\)/.exec(printed)?.[1];
  const images = [...(/ images: \[(.*)\] }/.exec(printed)?.[1] ?? "").matchAll(STRING)].map(([, url]) => url);
  const fields = {
    id: text("id"),
    name: text("name"),
    parameters: text("parameters"),
    parametersChunk: text("parameters_chunk"),
    compactParams: text("compact_params"),
    result: text("result"),
    success: success && success === "true",
    error: text("error"),
    stage: / stage: (\w+)/.exec(printed)[1].toLowerCase(),
    shortResult: text("short_result"),
    images: images.length > 0 ? images : undefined,
  };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}
