// `useChat` of the AI SDK 5, 6 and 7, rendered by React into a DOM, with every transport, against
// the gateway.

import { WorkflowChatTransport } from "@ai-sdk/workflow/client";

import { assert, BASE_URL, equal, main, SCENARIOS, script, test, waitUntil } from "./harness.mjs";
import { API, Page, SDKS } from "./page.mjs";

// A run that says this and goes on until it is stopped, so that whoever reads it late is in time.
const ENDLESS = script(SCENARIOS.endless_text);
const WHOLE = SCENARIOS.endless_text.turns[0].text.join("");
const add = (a, b) => ({ name: "add", arguments: { a, b } });
const slow = (seconds, steps) => ({ name: "slow", arguments: { seconds, steps } });
const guarded = script([{ calls: [{ name: "structured", arguments: {} }] }, { text: "So be it." }]);

/** Waits until only people are awaited. The stream of version 5 stays open meanwhile. */
function untilAsked(page, { sdk }) {
  return page.until("it asks", () => page.all("question").length === 1 && (sdk === 5 || page.status === "ready"));
}

/** Adds a test that opens pages with each SDK. */
function testPage(name, run, sdks = SDKS) {
  test(name, async (sdk) => {
    const pages = [];
    const open = (options) => {
      pages.push(new Page(sdk, options));
      return pages.at(-1);
    };
    try {
      await run(open, sdk);
    } finally {
      pages.forEach((page) => page.close());
    }
  }, sdks);
}

testPage("text", async (open) => {
  const page = open();
  await page.ask("Good day");
  equal(page.said, "You said: Good day");
  equal(page.outcome, "completed");
});

testPage("a tool", async (open) => {
  const page = open();
  await page.ask(script([{ calls: [add(4, 5)] }, { text: "It is {results}." }]));
  equal(page.all("tool"), ['add output-available "9"']);
  equal(page.said, "It is 9.");
});

testPage("a failing tool", async (open) => {
  const page = open();
  await page.ask(script([{ calls: [{ name: "fail", arguments: { message: "disk is full" } }] }, { text: "Well." }]));
  const [tool] = page.all("tool");
  assert(tool.startsWith("fail output-error failed: ") && tool.includes("disk is full"), tool);
  equal([page.said, page.outcome], ["Well.", "completed"]);
});

testPage("three tools at once, the last one done first", async (open) => {
  const page = open();
  await page.send(script([{ calls: [slow(1.2, 1), slow(1.2, 1), add(2, 2)] }, { text: "All three." }]));
  await page.until("the last tool is done before the others", () => {
    const isDone = page.all("tool").map((tool) => tool.includes("output-available"));
    return isDone[2] && !isDone[0] && !isDone[1];
  });
  await page.end();
  equal(page.all("tool").map((tool) => tool.split(" ")[1]), Array(3).fill("output-available"));
  equal(page.said, "All three.");
});

testPage("progress of a tool while it works", async (open) => {
  const page = open();
  await page.send(script([{ calls: [slow(1.2, 4)] }, { text: "Done." }]));
  await page.until("there is progress", () => page.all("progress").length === 1);
  equal(page.all("tool"), ["slow input-available"]);
  await page.end();
  equal(page.all("progress").length, 1, "it replaces itself");
  equal(page.said, "Done.");
});

for (const isAllowed of [true, false]) {
  testPage(`an approval that is ${isAllowed ? "granted" : "denied"} by a click`, async (open, version) => {
    const page = open();
    await page.send(guarded);
    await untilAsked(page, version);
    await page.press(isAllowed ? "Allow" : "Deny");
    await page.end();
    const state = isAllowed ? "output-available" : version.sdk === 5 ? "output-error" : "output-denied";
    equal(page.all("tool").map((tool) => tool.split(" ")[1]), [state]);
    equal(page.said, "So be it.");
    equal(page.chat.messages.length, 2, "one answer");
  });
}

testPage("an approval after a reload", async (open, version) => {
  const before = open();
  await before.send(guarded);
  await untilAsked(before, version);
  before.close();
  const page = open({ id: before.id, resume: true });
  await untilAsked(page, version);
  await page.press("Allow");
  await page.end();
  equal(page.said, "So be it.");
});

/** Waits for all that the endless run says, and stops it. */
async function stopAfterAll(page) {
  await page.until("it says all", ({ said }) => said.endsWith(WHOLE));
  await page.press("Stop");
  await page.end();
  equal(page.outcome, "cancelled");
}

testPage("cancel", async (open) => {
  const page = open();
  await page.send(ENDLESS);
  await stopAfterAll(page);
});

testPage("a function of the page, whose output continues the answer", async (open, { ai }) => {
  const tools = { where: { description: "Where the user is.", inputSchema: { type: "object", properties: {} } } };
  let page;
  // Not awaited: the hook must be done with the call first.
  const onToolCall = ({ toolCall: { toolName, toolCallId } }) => {
    const { addToolOutput, addToolResult } = page.chat;
    void (addToolOutput ?? addToolResult)({ tool: toolName, toolCallId, output: { city: "Ulm" } });
  };
  page = open({ body: { tools }, onToolCall, sendAutomaticallyWhen: ai.lastAssistantMessageIsCompleteWithToolCalls });
  await page.send(script([{ calls: [{ name: "where", arguments: {} }] }, { text: "You are in {results}." }]));
  await page.until("it goes on", () => page.said.endsWith(".") && page.outcome === "completed");
  equal(page.said, 'You are in {"city":"Ulm"}.');
  equal(page.all("tool"), ['where output-available {"city":"Ulm"}']);
});

testPage("a cut length", async (open) => {
  const finished = [];
  const page = open({ onFinish: ({ finishReason }) => finished.push(finishReason) });
  await page.ask(script([{ text: "Half", finish: "length" }]));
  equal([page.said, page.outcome], ["Half", "incomplete"]);
  equal(finished, ["length"], "what the hook says of its length");
});

testPage("a failed run", async (open) => {
  const page = open();
  await page.send(script([{ error: "rejected" }]));
  await page.until("it fails", ({ status }) => status === "error");
  assert(page.error, "it says why");
});

testPage("a page that is closed, and another one that resumes", async (open) => {
  const first = open();
  await first.send(ENDLESS);
  await first.until("it speaks", ({ said }) => said);
  first.close();
  const second = open({ id: first.id, resume: true });
  await stopAfterAll(second);
  equal(second.all("text"), [WHOLE]);
});

testPage("a connection that breaks, and resume on the same page", async (open, { resumesItself }) => {
  const page = open({ breakAfter: 2 });
  await page.send(ENDLESS);
  if (!resumesItself) {
    await page.until("it breaks", ({ status }) => status === "error");
    await page.press("Resume");
  }
  await stopAfterAll(page);
  equal(page.all("text"), [WHOLE], "nothing twice");
  equal(page.chat.messages.length, 2, "one answer");
});

testPage("stop of the hook is a cancel", async (open) => {
  const page = open();
  await page.send(ENDLESS);
  await page.until("it speaks", ({ said }) => said);
  const { run_id } = page.chat.messages.at(-1).metadata;
  page.chat.stop();
  const look = async () => (await fetch(`${BASE_URL}/v1/runs/${run_id}`)).json();
  await waitUntil(look, ({ status }) => status === "cancelled");
}, SDKS.filter(({ stopsForReal }) => stopsForReal));

testPage("text and a tool, without any settings", async (open) => {
  const page = open({ transport: new WorkflowChatTransport({ api: API }) });
  await page.ask(script([{ calls: [add(4, 5)] }, { text: "It is {results}." }]));
  equal(page.said, "It is 9.");
}, SDKS.filter(({ resumesItself }) => resumesItself));

await main("node22 use-chat");
