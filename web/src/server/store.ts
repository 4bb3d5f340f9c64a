/** The smallest store that components can watch. */

import { useEffect, useRef, useState } from "preact/hooks";

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
  const drawn = useRef(store.value);
  drawn.current = store.value;
  useEffect(() => {
    const stop = store.watch(() => draw((n) => n + 1));
    // It may have changed between drawing and watching: effects run after the next frame.
    if (drawn.current !== store.value) draw((n) => n + 1);
    return stop;
  }, [store]);
  return drawn.current;
}

/** A set of IDs that this browser keeps. */
export function keptIds(key: string): ReadonlySet<string> {
  try {
    return new Set(JSON.parse(localStorage.getItem(key) ?? "[]") as string[]);
  } catch {
    return new Set();
  }
}

/** Keeps the newest of them. */
export function keepIds(key: string, ids: Iterable<string>, most: number): void {
  localStorage.setItem(key, JSON.stringify([...ids].slice(-most)));
}
