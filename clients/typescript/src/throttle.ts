/** Calls an action at most once per interval, or at once if it matters. */
export class Throttle {
  readonly #intervalMs: number;
  readonly #action: () => void;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #lastAt = 0;

  constructor(intervalMs: number, action: () => void) {
    this.#intervalMs = intervalMs;
    this.#action = action;
  }

  /** Acts now; what was due is done with it. */
  now(): void {
    this.close();
    this.#lastAt = Date.now();
    this.#action();
  }

  /** Acts once the interval since the last time is over. */
  soon(): void {
    if (this.#timer !== undefined) return;
    const waitMs = this.#lastAt + this.#intervalMs - Date.now();
    if (waitMs <= 0) this.now();
    else this.#timer = setTimeout(() => this.now(), waitMs);
  }

  /** Drops what is due. */
  close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
