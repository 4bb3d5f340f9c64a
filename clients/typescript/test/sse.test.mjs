// Event streams in every form that a server or a proxy may give them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { SseParser } from "../dist/sse.js";

const encoder = new TextEncoder();

/** The frames of a stream that arrives in pieces of `size` bytes. */
function framesOf(text, size = Infinity) {
  const bytes = encoder.encode(text);
  const parser = new SseParser();
  const frames = [];
  for (let start = 0; start < bytes.length; start += size)
    frames.push(...parser.push(bytes.subarray(start, start + size)));
  return frames;
}

const STREAM =
  ': ping\nid: 1\ndata: {"a":"naïve 🦀"}\n\nretry: 100\nid: 2\ndata:two\ndata: lines\n\n: ping\n\nid\ndata\n\n';
const FRAMES = [
  { data: '{"a":"naïve 🦀"}', id: "1" },
  { data: "two\nlines", id: "2" },
  { data: "", id: "" },
];

test("a stream means the same wherever it is cut, also inside a character", () => {
  for (let size = 1; size <= encoder.encode(STREAM).length; size += 1)
    assert.deepEqual(framesOf(STREAM, size), FRAMES, `pieces of ${size}`);
});

test("lines may end with CRLF or CR, also if the two arrive apart", () => {
  for (const lineEnd of ["\r\n", "\r"]) {
    const stream = STREAM.replaceAll("\n", lineEnd);
    for (let size = 1; size <= 40; size += 1)
      assert.deepEqual(framesOf(stream, size), FRAMES, `${JSON.stringify(lineEnd)}, ${size}`);
  }
});

test("comments are no frames, and a byte order mark is no part of a field", () => {
  assert.deepEqual(framesOf(": only\n\n:\n\n"), []);
  assert.deepEqual(framesOf("\ufeffdata: x\n\n"), [{ data: "x", id: "" }]);
});

test("a frame without its blank line is none", () => {
  assert.deepEqual(framesOf("data: whole\n\ndata: half\n"), [{ data: "whole", id: "" }]);
});

test("retry is the time to wait, if it is a number", () => {
  const parser = new SseParser();
  parser.push(encoder.encode("retry: soon\n"));
  assert.equal(parser.retryMs, undefined);
  parser.push(encoder.encode("retry: 100\n"));
  assert.equal(parser.retryMs, 100);
});

test("a frame of 10 MB in small pieces takes time in proportion to its size", () => {
  const text = "é".repeat(5_000_000);
  const begin = performance.now();
  const [frame] = framesOf(`data: ${text}\n\n`, 1021);
  assert.equal(frame.data, text);
  assert.ok(performance.now() - begin < 3000, `${performance.now() - begin} ms`);
});
