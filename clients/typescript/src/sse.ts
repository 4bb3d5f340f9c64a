/**
 * Reading server-sent events from bytes that arrive in any pieces.
 *
 * A piece may end in the middle of a character, of a line or of a frame. A frame counts once its
 * blank line has arrived; a frame that the connection cut off is dropped, and the next connection
 * sends it again. Each piece is looked at once, so a frame of 10 MB costs no more than many small
 * ones.
 */

/** One server-sent event. */
export interface SseFrame {
  /** Its `data:` lines, joined by line breaks. */
  data: string;
  /** Its `id:`, or the last one before it. */
  id: string;
}

/** Turns bytes into frames. */
export class SseParser {
  /** The last `retry:` of the server: how long to wait before reconnecting, in milliseconds. */
  retryMs: number | undefined;

  readonly #decoder = new TextDecoder();
  /** The beginning of a line whose end has not arrived. */
  #line = "";
  /** Whether the last line ended with CR at the end of a piece: an LF belongs to it. */
  #afterCr = false;
  #data: string[] = [];
  #id = "";

  /** Reads the next bytes and returns the frames that they complete. */
  push(bytes: Uint8Array): SseFrame[] {
    const frames: SseFrame[] = [];
    let text = this.#decoder.decode(bytes, { stream: true });
    if (this.#afterCr && text.length > 0) {
      if (text.startsWith("\n")) text = text.slice(1);
      this.#afterCr = false;
    }
    let start = 0;
    const lineEnd = /\r\n|\r|\n/g;
    for (let end = lineEnd.exec(text); end; end = lineEnd.exec(text)) {
      this.#readLine(this.#line + text.slice(start, end.index), frames);
      this.#line = "";
      start = lineEnd.lastIndex;
    }
    this.#afterCr = text.endsWith("\r");
    this.#line += text.slice(start);
    return frames;
  }

  #readLine(line: string, frames: SseFrame[]): void {
    if (line === "") {
      if (this.#data.length > 0) frames.push({ data: this.#data.join("\n"), id: this.#id });
      this.#data = [];
      return;
    }
    const colon = line.indexOf(":");
    // A line that starts with a colon is a comment: the keep-alive of the server.
    if (colon === 0) return;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "data") this.#data.push(value);
    else if (field === "id") this.#id = value;
    else if (field === "retry" && /^\d+$/.test(value)) this.retryMs = Number(value);
  }
}
