/** The small picture of a run in a list. */

import type { CallSnapshot } from "turnwire";
import { expect, test } from "vitest";
import { rowsOf, stepsOf } from "../src/model/step_bar";

const at = (second: number) => new Date(Date.UTC(2026, 10, 16, 12, 0, second)).toISOString();
const RUN = { created_at: at(0), ended_at: at(10), status: "completed" };

function call(facts: object): CallSnapshot {
  return { call_id: "c", tool: "t", state: "done", announced_at: at(1), attempts: [], ...facts } as unknown as CallSnapshot;
}

test("the model has what calls leave, and a run that failed ends red", () => {
  expect(stepsOf(RUN, [], 0)).toEqual([{ kind: "model", from: 0, to: 1, row: 0 }]);
  const steps = stepsOf({ ...RUN, status: "failed" }, [call({ started_at: at(2), finished_at: at(5) })], 0);
  expect(steps).toEqual([
    { kind: "model", from: 0, to: 0.2, row: 0 },
    { kind: "failed", from: 0.5, to: 1, row: 0 },
    { kind: "done", from: 0.2, to: 0.5, row: 1 },
  ]);
});

test("calls at the same time are in rows of their own, and waiting for a person is a piece of its own", () => {
  const calls = [
    call({ started_at: at(1), finished_at: at(3) }),
    call({ started_at: at(1), finished_at: at(9), state: "failed" }),
    call({ approval: { requested_at: at(2), resolved_at: at(6) }, started_at: at(6), finished_at: at(8) }),
    call({ started_at: at(4), finished_at: at(5), state: "unknown" }),
  ];
  const steps = stepsOf(RUN, calls, 0).filter((step) => step.row > 0);
  expect(steps.map(({ kind, row }) => [kind, row])).toEqual([["done", 1], ["failed", 2], ["wait", 3], ["done", 3], ["unknown", 1]]);
  expect(rowsOf(steps)).toBe(3);
});

test("a run at work ends now, and its open call with it", () => {
  const steps = stepsOf({ ...RUN, ended_at: null, status: "needs_input" }, [call({ approval: { requested_at: at(5) }, state: "needs approval" })], Date.parse(at(20)));
  expect(steps).toEqual([
    { kind: "model", from: 0, to: 0.25, row: 0 },
    { kind: "wait", from: 0.25, to: 1, row: 1 },
  ]);
});
