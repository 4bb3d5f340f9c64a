/** What is said about the line to the server, in one place under the top. */

import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { announce } from "../server/announcer";
import { line } from "../server/api";
import { tryNow } from "../server/run_feed";
import { useStore } from "../server/store";
import { useNow } from "./controls";
import { Icon } from "./icons";
import { useLost } from "./use_lost";

/** After this time the page says that it goes on trying. */
const LONG_SEC = 6;

export function Banner(): JSX.Element | null {
  const { state, since, restarting, caughtUp, news } = useStore(line);
  const isLost = useLost();
  const wasLost = useRef(false);
  const now = useNow(isLost);
  const back = useRef({ caughtUp, said: true });
  useEffect(() => {
    if (isLost && !wasLost.current) announce({ text: "Connection lost", alert: true });
    wasLost.current = isLost;
  }, [isLost]);
  back.current.caughtUp = caughtUp;
  useEffect(() => {
    if (state !== "back") return undefined;
    // The missed events arrive in a moment.
    const timer = setTimeout(() => announce({ text: `Back, ${back.current.caughtUp} events caught up`, alert: false }), 600);
    return () => clearTimeout(timer);
  }, [state]);
  if (isLost) {
    const seconds = Math.max(1, Math.round((now - since) / 1000));
    const isLong = seconds >= LONG_SEC;
    return (
      <div class="banner" data-st="failed">
        <Icon name="wifi" />
        <p>
          <b>{restarting ? "The server is restarting." : isLong ? "Still trying." : "Connection lost."}</b>{" "}
          {isLong ? `For ${seconds} s by now. Everything shown here is kept.` : "The run goes on at the server. Trying again."}
        </p>
        <span class="grow" />
        <button type="button" class="btn sm" onClick={tryNow}>
          Try now
        </button>
      </div>
    );
  }
  if (state !== "back") return null;
  return (
    <div class="banner" data-st="done">
      <Icon name="check" />
      <p>
        <b>Back.</b> {caughtUp > 0 ? `${caughtUp} ${caughtUp === 1 ? "event" : "events"} caught up. ${news}` : "Nothing was missed."}
      </p>
    </div>
  );
}
