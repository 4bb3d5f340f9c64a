/** The recorded runs of the repository, which every surface is held against. */

import { readFileSync, readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { RecordedEvent, RunSnapshot } from "turnwire";

const FOLDER = process.env["TURNWIRE_GOLDENS"] ?? fileURLToPath(new URL("../../crates/turnwire-testkit/scenarios", import.meta.url));

export const scenarios = readdirSync(FOLDER).sort();

export function eventsOf(scenario: string): RecordedEvent[] {
  const lines = readFileSync(`${FOLDER}/${scenario}/events.jsonl`, "utf8").trimEnd().split("\n");
  return lines.map((line) => JSON.parse(line) as RecordedEvent);
}

/** What the server's own fold makes of the run. */
export function snapshotOf(scenario: string): RunSnapshot {
  return JSON.parse(readFileSync(`${FOLDER}/${scenario}/snapshot.json`, "utf8")) as RunSnapshot;
}
