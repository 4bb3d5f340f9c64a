import { expect, test } from "vitest";
import { type Chat, EMPTY_CHAT, type Message, arrived, askAgain, isEmpty, leaveEdit, mustWait, refused, sendQueued, startEdit, submit, takeBack, withFiles } from "../src/model/chat";

const choice = { model: "", tools: undefined };
const file = { id: "f", name: "notes.txt", mediaType: "text/plain", url: "data:," };
const drafted = (draft: string, more: Partial<Chat> = {}): Chat => ({ ...EMPTY_CHAT, draft, ...more });
const send = (chat: Chat, key: string, isBusy = false) => submit(chat, isBusy, { key, choice });
const words = ({ draft, queue, sending }: Chat) => [draft, queue?.text, sending?.text];

test("a message is sent at once, or waits with its files for the end of the run", () => {
  const sent = send(drafted("one", { files: [file] }), "a");
  expect(words(sent)).toEqual(["", undefined, "one"]);
  expect([sent.sending?.files, sent.files]).toEqual([[file], []]);
  expect(arrived(sent, "a")).toEqual(EMPTY_CHAT);
  expect(arrived(sent, "another")).toBe(sent);
  const queued = send(drafted("two", { files: [file] }), "b", true);
  const both = send({ ...queued, draft: "three" }, "c", true);
  expect(words(both)).toEqual(["", "two\n\nthree", undefined]);
  expect([both.queue?.key, both.queue?.files]).toEqual(["c", [file]]);
  expect(words(sendQueued(both))).toEqual(["", undefined, "two\n\nthree"]);
  expect(takeBack({ ...both, draft: "four" })).toEqual(drafted("two\n\nthree\n\nfour", { files: [file] }));
  for (const nothing of [drafted(" \n"), EMPTY_CHAT]) expect(send(nothing, "d")).toBe(nothing);
});

test("what is refused is a draft again, before what was written meanwhile, and nothing overtakes it", () => {
  const sent = { ...send(drafted("one", { files: [file] }), "a"), draft: "two" };
  const back = refused(send(sent, "b"), "a", "no such model");
  expect(words(back)).toEqual(["one", "two", undefined]);
  expect([back.files, back.problem]).toEqual([[file], "no such model"]);
  expect(words(send(back, "c"))).toEqual(["", "two", "one"]);
  expect(words(refused(sent, "a", "no"))).toEqual(["one\n\ntwo", undefined, undefined]);
  expect(words(mustWait(send(sent, "b"), "a"))).toEqual(["", "one\n\ntwo", undefined]);
});

test("an edited message replaces the one of its own run, and the draft before it comes back", () => {
  const editing = startEdit(drafted("a draft"), "run_1", "old");
  expect(editing).toEqual(drafted("old", { edit: { runId: "run_1", before: "a draft" } }));
  expect(leaveEdit({ ...editing, draft: "new" })).toEqual(drafted("a draft"));
  const sent = send({ ...editing, draft: "new" }, "a");
  expect([sent.draft, sent.edit, sent.sending?.replaces]).toEqual(["a draft", undefined, "run_1"]);
  expect(refused(sent, "a", "no")).toEqual({ ...editing, draft: "new", problem: "no" });
  // While a run works there is nothing that could be replaced; a queue would replace it later, unseen.
  const busy = send({ ...editing, draft: "new" }, "b", true);
  expect([busy.draft, busy.queue, busy.edit]).toEqual(["new", undefined, editing.edit]);
  const message: Message = { key: "c", text: "again", files: [], choice, replaces: "run_1" };
  expect(askAgain(sent, message)).toBe(sent);
  expect(askAgain(EMPTY_CHAT, message).sending).toBe(message);
});

test("files that cannot be read again are left out everywhere", () => {
  const chat = send({ ...send(drafted("", { files: [file] }), "a"), files: [file] }, "b");
  expect(isEmpty(chat)).toBe(false);
  const without = withFiles(chat, () => undefined);
  expect([without.sending?.files, without.queue?.files, without.files]).toEqual([[], [], []]);
});
