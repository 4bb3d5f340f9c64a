/** A run behind a link: the same view without a rail, without a key, and with nothing to press. */

import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { requestIfThere } from "../server/api";
import { sharedFeed } from "../server/run_feed";
import { Icon, Mark } from "../ui/icons";
import { RunDetails } from "./run";

interface Shared {
  redact?: boolean;
  expires_at?: string;
}

export function SharedPage({ token }: { token: string }): JSX.Element {
  const feed = useMemo(() => sharedFeed(token), [token]);
  const [facts, setFacts] = useState<Shared>({});
  useEffect(() => {
    void requestIfThere<Shared>(`/v1/shared/${encodeURIComponent(token)}`).then((answer) => setFacts(answer ?? {}), () => undefined);
    return () => feed.close();
  }, [feed]);
  return (
    <>
      <header class="sharebar">
        <Mark />
        <strong>Turnwire</strong>
        <span class="chip">
          <Icon name="lock" />
          Shared, read-only
        </span>
        {facts.redact ? <span class="dim">Messages, arguments and results are redacted by the owner.</span> : null}
        <span class="grow" />
        {facts.expires_at ? <span class="dim num">{`ends ${new Date(facts.expires_at).toLocaleString()}`}</span> : null}
      </header>
      <RunDetails feed={feed} call={undefined} readOnly />
    </>
  );
}
