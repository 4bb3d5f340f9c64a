/** The smallest store that components can watch. */

import { useEffect, useState } from "preact/hooks";

export class Store<T> {
  #value: T;
  readonly #watchers = new Set<() => void>();

  constructor(value: T) {
    this.#value = value;
  }

  get value(): T {
    return this.#value;
  }

  set(value: T): void {
    if (Object.is(value, this.#value)) return;
    this.#value = value;
    for (const watcher of [...this.#watchers]) watcher();
  }

  update(change: (value: T) => T): void {
    this.set(change(this.#value));
  }

  watch(watcher: () => void): () => void {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }
}

/** The value of a store; draws again when it changes. */
export function useStore<T>(store: Store<T>): T {
  const [, draw] = useState(0);
  useEffect(() => {
    const seen = store.value;
    const stop = store.watch(() => draw((n) => n + 1));
    // It may have changed between drawing and watching.
    if (seen !== store.value) draw((n) => n + 1);
    return stop;
  }, [store]);
  return store.value;
}
