/** The fold of the page, held against the server's own over every recorded run. */

import { describe, expect, test } from "vitest";
import { announcements } from "../src/model/announce";
import { waitsForPerson } from "../src/model/calls";
import { journalRows } from "../src/model/journal";
import { leftOutWords } from "../src/model/left_out";
import { emptyRun, foldRun } from "../src/model/run";
import { timelineOf } from "../src/model/timeline";
import { runState } from "../src/model/words";
import { eventsOf, scenarios, snapshotOf } from "./goldens";

describe.each(scenarios)("%s", (scenario) => {
  const events = eventsOf(scenario);
  const whole = foldRun(emptyRun("run_1"), events);

  test("the fold agrees with the snapshot of the server", () => {
    const snapshot = snapshotOf(scenario);
    expect(whole.lastSeq).toBe(snapshot.last_seq);
    expect(whole.outcome?.status).toBe(snapshot.outcome?.status);
    expect(whole.usage).toEqual(snapshot.usage);
    expect(whole.model).toBe(snapshot.model);
    const texts = whole.steps.filter((step) => step.kind === "message" || step.kind === "reasoning");
    expect(texts.map(({ id, kind, text, state }) => [id, kind, text, state])).toEqual(
      snapshot.said.map(({ item_id, kind, text, state }) => [item_id, kind, text, state]),
    );
    const calls = Object.values(whole.calls).filter((call) => call.outcome);
    const known = snapshot.calls.filter((call) => calls.some((one) => one.callId === call.call_id));
    expect(calls.map((call) => [call.callId, call.state, call.arguments, call.durationMs, call.turn])).toEqual(
      known.map((call) => [call.call_id, call.state, call.arguments, call.duration_ms, call.turn]),
    );
    const leftOut = whole.steps.flatMap((step) => (step.kind === "notice" && step.what === "left_out" ? [step.text] : []));
    const listed = snapshot.servers.flatMap(({ server, left_out }) => (left_out ? [leftOutWords(server, left_out)] : []));
    expect(leftOut).toEqual(listed);
  });

  test("events that come again change nothing, wherever the line was cut", () => {
    for (let cut = 0; cut <= events.length; cut += 1) {
      const before = foldRun(emptyRun("run_1"), events.slice(0, cut));
      expect(foldRun(before, events.slice(Math.max(0, cut - 3)))).toEqual(whole);
    }
  });

  test("nothing waits and nothing is at work once the run is over", () => {
    expect(Object.values(whole.calls).filter(waitsForPerson)).toEqual([]);
    expect(runState(whole).look).not.toBe("running");
  });

  test("the announcer says no token", () => {
    let view = emptyRun("run_1");
    const said: string[] = [];
    for (const event of events) {
      const next = foldRun(view, [event]);
      said.push(...announcements(view, next).map(({ text }) => text));
      view = next;
    }
    const tokens = events.flatMap(({ event }) => (event.type === "text_added" && event.text.trim().length > 3 ? [event.text.trim()] : []));
    for (const token of tokens) expect(said.join("\n")).not.toContain(token);
  });

  test("every bar of the timeline lies on the axis", () => {
    const { lanes, totalMs } = timelineOf(whole, Date.parse(whole.lastAt));
    for (const bar of lanes.flatMap((lane) => lane.bars)) {
      expect(bar.from).toBeGreaterThanOrEqual(0);
      expect(bar.to).toBeGreaterThanOrEqual(bar.from);
      expect(bar.to).toBeLessThanOrEqual(totalMs);
    }
  });

  test("the rows of the journal hold every event once", () => {
    const rows = journalRows(events, "");
    expect(rows.reduce((sum, row) => sum + row.n, 0)).toBe(events.length);
    expect(journalRows(events, "run_finished")).toHaveLength(1);
  });
});
