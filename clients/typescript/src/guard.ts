/** Callbacks that throw must not break the stream: other callbacks and the answer depend on it. */

/** A copy of `callbacks` in which every function reports its error instead of throwing it. */
export function guarded<T extends object>(callbacks: T): T {
  const guard = (name: string, callback: (...args: unknown[]) => unknown) => {
    const report = (error: unknown) => console.error(`turnwire: ${name} failed:`, error);
    return (...args: unknown[]): void => {
      try {
        const result = callback.apply(callbacks, args);
        if (result instanceof Promise) result.catch(report);
      } catch (error) {
        report(error);
      }
    };
  };
  const entries = Object.entries(callbacks).map(([name, value]) => [
    name,
    typeof value === "function" ? guard(name, value as (...args: unknown[]) => unknown) : value,
  ]);
  return Object.fromEntries(entries) as T;
}
