/** Where the person writes. While a run works, Send is Stop in the same place. */

import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { Icon } from "./icons";

const MAX_HEIGHT = 240;

export interface ComposerProps {
  draft: string;
  onDraft: (text: string) => void;
  onSend: () => void;
  onStop: () => void;
  isRunning: boolean;
  isStopping: boolean;
  /** A message that is sent once the run is over. */
  queued: string;
  onUnqueue: () => void;
  model: string;
  nTools: number;
  placeholder: string;
}

export function Composer(props: ComposerProps): JSX.Element {
  const { draft, onDraft, onSend, onStop, isRunning, isStopping, queued } = props;
  const field = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => {
    const element = field.current;
    if (!element) return;
    element.style.height = "auto";
    element.style.height = `${Math.min(element.scrollHeight, MAX_HEIGHT)}px`;
  }, [draft]);
  useEffect(() => {
    if (matchMedia("(hover: hover)").matches) field.current?.focus({ preventScroll: true });
  }, []);
  return (
    <form
      class={`box ${isRunning ? "busy" : ""}`}
      onSubmit={(event) => {
        event.preventDefault();
        onSend();
      }}
    >
      {queued ? (
        <p class="queued">
          <span class="cut">{`Next: ${queued}`}</span>
          <button type="button" class="btn quiet sm" onClick={props.onUnqueue}>
            Take back
          </button>
        </p>
      ) : null}
      <textarea
        ref={field}
        id="composer"
        class="write"
        rows={1}
        aria-label="Message"
        placeholder={props.placeholder}
        value={draft}
        onInput={(event) => onDraft(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          onSend();
        }}
      />
      <div class="tray">
        <span class="pick cut">
          <Icon name="cube" />
          <span class="cut">{props.model || "default model"}</span>
        </span>
        {props.nTools > 0 ? (
          <span class="pick">
            <Icon name="wrench" />
            <span>{`${props.nTools} tools`}</span>
          </span>
        ) : null}
        <span class="grow" />
        {isRunning ? (
          <button type="button" class="btn go" onClick={onStop} disabled={isStopping}>
            <Icon name="stop" class="square" />
            {isStopping ? "Stopping…" : "Stop"} <kbd>Esc</kbd>
          </button>
        ) : (
          <button type="submit" class="btn primary icon go" aria-label="Send" disabled={draft.trim() === ""}>
            <Icon name="up" />
          </button>
        )}
      </div>
    </form>
  );
}
