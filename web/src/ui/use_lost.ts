/** Whether the line to the server is lost for so long that a person should know. */

import { useEffect, useState } from "preact/hooks";
import { line } from "../server/api";
import { useStore } from "../server/store";

/** Nothing is said in the first second: most cuts are over by then. */
export function useLost(): boolean {
  const { state, since } = useStore(line);
  const [, draw] = useState(0);
  const isLong = state === "lost" && Date.now() - since >= 1000;
  useEffect(() => {
    if (state !== "lost" || isLong) return undefined;
    const timer = setTimeout(() => draw((n) => n + 1), 1000 - (Date.now() - since));
    return () => clearTimeout(timer);
  }, [state, since, isLong]);
  return isLong;
}
