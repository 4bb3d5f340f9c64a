// What a client gathers from raw events. Made of the events alone, and trusting none of them:
// what the deltas add up to must be what the finishing event says, and what the items add up to
// must be the response at the end.

import { assert, equal } from "./harness.mjs";

const TERMINAL = new Set(["response.completed", "response.incomplete", "response.failed"]);
const LIFECYCLE = /^response\.(mcp_call|mcp_list_tools|web_search_call|file_search_call)\./;

/** Tokens and how likely they are, also those beside them. */
function likely(logprobs) {
  const tops = (token) => (token.top_logprobs ?? []).map((top) => [top.token, top.logprob]);
  return logprobs.map((token) => [token.token, token.logprob, tops(token)]);
}

export class Fold {
  first = undefined;
  last = undefined;
  items = [];
  done = new Set();
  numbers = [];
  types = [];
  ends = [];

  add(event) {
    const { type } = event;
    assert(!this.last, `${type} after the end`);
    this.numbers.push(event.sequence_number);
    this.types.push(type);
    if (!this.first) {
      assert(type === "response.created", `the first event is ${type}`);
      this.first = event.response;
    }
    // Events of the extended profile stand beside the official ones and change nothing.
    if (type.startsWith("turnwire:")) return;
    if (event.output_index !== undefined && type !== "response.output_item.added") {
      const item = this.items[event.output_index];
      assert(item, `${type} speaks of an item that is not there`);
      if (event.item_id !== undefined) equal(event.item_id, item.id, type);
      assert(!this.done.has(event.output_index), `${type} after the item's end`);
    }
    if (LIFECYCLE.test(type)) this.#lifecycle(event);
    this.#fold(event);
    if (TERMINAL.has(type)) {
      this.last = event.response;
      equal(event.response.id, this.first.id, "the id of the response");
    }
  }

  /** The response at the end, if it is what the events added up to. */
  response() {
    assert(this.last, "the stream has no end", this.types.slice(-3));
    equal(this.numbers, this.numbers.map((_, place) => place), "numbers");
    equal(this.done.size, this.items.length, "items that are done");
    equal(this.items, this.last.output, "output");
    return this.last;
  }

  // The tool's name is on every lifecycle event.
  #lifecycle(event) {
    assert(event.item_id, `${event.type} has no item`);
    if (!event.type.includes(".mcp_list_tools.")) assert(event.name, `${event.type} has no name`);
    if (/\.(completed|failed)$/.test(event.type)) this.ends.push([event.type, event.output_index]);
  }

  #fold(event) {
    const item = this.items[event.output_index];
    const part = () => item.content[event.content_index];
    switch (event.type) {
      case "response.output_item.added":
        equal(event.output_index, this.items.length, "output_index");
        this.items.push(structuredClone(event.item));
        break;
      case "response.output_item.done":
        equal([event.item.id, event.item.type], [item.id, item.type]);
        for (const field of ["content", "arguments"]) {
          if (item[field]?.length) equal(item[field], event.item[field], field);
        }
        this.items[event.output_index] = structuredClone(event.item);
        this.done.add(event.output_index);
        break;
      case "response.content_part.added":
        item.content ??= [];
        equal(event.content_index, item.content.length, "content_index");
        item.content.push(structuredClone(event.part));
        break;
      case "response.content_part.done":
        if (event.part.logprobs) {
          // The deltas tell them without the bytes.
          equal(likely(part().logprobs), likely(event.part.logprobs), "logprobs");
          part().logprobs = structuredClone(event.part.logprobs);
        }
        equal(part(), event.part, "part");
        break;
      case "response.output_text.delta":
        part().text += event.delta;
        part().logprobs.push(...structuredClone(event.logprobs));
        break;
      case "response.reasoning_text.delta":
        part().text += event.delta;
        break;
      case "response.output_text.done":
        equal(part().text, event.text, "text");
        equal(likely(part().logprobs), likely(event.logprobs), "logprobs");
        break;
      case "response.reasoning_text.done":
        equal(part().text, event.text, "text");
        break;
      case "response.output_text.annotation.added":
        equal(event.annotation_index, part().annotations.length, "annotation_index");
        part().annotations.push(structuredClone(event.annotation));
        break;
      case "response.refusal.delta":
        part().refusal += event.delta;
        break;
      case "response.refusal.done":
        equal(part().refusal, event.refusal, "refusal");
        break;
      case "response.function_call_arguments.delta":
      case "response.mcp_call_arguments.delta":
        item.arguments += event.delta;
        break;
      case "response.function_call_arguments.done":
      case "response.mcp_call_arguments.done":
        equal(item.arguments, event.arguments, "arguments");
        break;
    }
  }
}

const ADDED = new Set(["parsed", "parsed_arguments", "output_text", "output_parsed", "_request_id"]);

/** Without the fields that a client adds for its own user. */
export function plain(value) {
  if (Array.isArray(value)) return value.map(plain);
  if (!value || typeof value !== "object") return value;
  const fields = Object.entries(value).filter(([name, it]) => !ADDED.has(name) && it !== undefined);
  return Object.fromEntries(fields.map(([name, it]) => [name, plain(it)]));
}

export function same(mine, theirs) {
  equal(plain(mine), plain(theirs), "response");
}

export function textOf(response) {
  return partsOf(response).map((part) => part.text ?? "").join("");
}

export function refusalOf(response) {
  return partsOf(response).map((part) => part.refusal ?? "").join("");
}

function partsOf(response) {
  return response.output.filter((item) => item.type === "message").flatMap((item) => item.content);
}
