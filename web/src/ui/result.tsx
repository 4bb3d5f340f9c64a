/** The result of a call: images, a tree if it is JSON, otherwise text; the whole of it on request. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { type Call, outputOf } from "../model/calls";
import { exact } from "../model/invisible";
import { isPlaceholder } from "../model/redaction";
import { bytes, resultBytes } from "../model/words";
import { sentence } from "../server/api";
import type { RunFeed } from "../server/run_feed";
import { JsonTree, Redacted, parsed } from "./json";

const SHOWN_CHARS = 4000;
const IMAGE_TYPES = /^image\/(png|jpeg|gif|webp|avif)$/;

export function Result({ call, feed }: { call: Call; feed: RunFeed }): JSX.Element | null {
  const output = outputOf(call);
  const [whole, setWhole] = useState<string | undefined>(undefined);
  const [problem, setProblem] = useState("");
  if (!output) return null;
  const text = whole ?? output.text;
  const value = output.structured ?? parsed(text);
  const cut = whole === undefined && (output.rest != null || text.length > SHOWN_CHARS);
  const load = async () => {
    try {
      setWhole(output.rest ? await feed.wholeResult(call.callId) : output.text);
    } catch (error) {
      setProblem(sentence(error));
    }
  };
  return (
    <div class="result">
      <h3>Result</h3>
      {(output.images ?? []).map((image) =>
        IMAGE_TYPES.test(image.media_type) && !image.base64.startsWith("turnwire-file:") ? (
          <img src={`data:${image.media_type};base64,${image.base64}`} alt={`Image returned by ${exact(call.tool.name)}`} />
        ) : (
          <p class="dim">{`An image (${image.media_type}) that is not shown here.`}</p>
        ),
      )}
      {value !== undefined && value !== null ? (
        <div class="tree" tabIndex={0} role="group" aria-label="Result as a tree">
          <JsonTree value={value} />
        </div>
      ) : text.trim() === "" ? (
        output.images?.length ? null : <p class="dim">No output.</p>
      ) : (
        <pre class="text" tabIndex={0} role="group" aria-label="Result">
          {isPlaceholder(text) ? <Redacted /> : cut ? `${text.slice(0, SHOWN_CHARS)}…` : text}
        </pre>
      )}
      {cut ? (
        <button type="button" class="btn quiet sm" onClick={() => void load()}>
          {`Show all, ${bytes(resultBytes(call))}`}
        </button>
      ) : null}
      {problem ? <p class="problem">{problem}</p> : null}
    </div>
  );
}
