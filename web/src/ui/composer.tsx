/** Where the person writes. While a run works, Send is Stop in the same place. */

import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Attachment, Message } from "../model/chat";
import { Icon } from "./icons";
import { isComposing, typed } from "./keys";

const MAX_HEIGHT = 240;
/** The gateway takes bodies of 4 MB, and base64 needs a third more than the file. */
const MAX_BYTES = 2_900_000;
const ACCEPTED = "image/*,application/pdf,text/*,.md,.json,.csv,.toml,.yaml";

/** Adds files to those that are there, or says why one was not. */
async function readFiles(used: number, list: FileList | null | undefined, add: ComposerProps["onFile"]): Promise<string> {
  let room = MAX_BYTES - used;
  // The list empties itself when its field is used again.
  for (const file of [...(list ?? [])]) {
    room -= file.size;
    if (room < 0) return `${file.name} is too large: all files together may have 2.9 MB.`;
    await add(file.name || "pasted", mediaTypeOf(file), await dataUrl(file));
  }
  return "";
}

function mediaTypeOf(file: File): string {
  return file.type || "text/plain";
}

function dataUrl(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).replace(/^data:[^,]*,/, `data:${mediaTypeOf(file)};base64,`));
    reader.onerror = () => reject(reader.error ?? new Error("the file cannot be read"));
    reader.readAsDataURL(file);
  });
}

export interface ComposerProps {
  draft: string;
  onDraft: (text: string) => void;
  onSend: () => void;
  onStop: () => void;
  onEscape: () => void;
  isRunning: boolean;
  isStopping: boolean;
  /** A message that is sent once the run is over. */
  queued: Message | undefined;
  onUnqueue: () => void;
  files: readonly Attachment[];
  onFile: (name: string, mediaType: string, url: string) => Promise<void>;
  onRemove: (id: string) => void;
  /** What the thread uses, to be changed. */
  picker: JSX.Element;
  placeholder: string;
}

export function Composer(props: ComposerProps): JSX.Element {
  const { draft, onDraft, onSend, onStop, isRunning, isStopping, queued, files } = props;
  const [problem, setProblem] = useState("");
  const [isOver, setIsOver] = useState(false);
  // Why the last files were not attached, once they are read. A message waits for its files.
  const reading = useRef<Promise<string> | undefined>(undefined);
  const add = (list: FileList | null | undefined) => {
    const used = files.reduce((sum, one) => sum + one.url.length * 0.75, 0);
    const read = readFiles(used, list, props.onFile).catch(() => "The file cannot be read.");
    reading.current = read;
    void read.then((why) => {
      setProblem(why);
      if (reading.current === read) reading.current = undefined;
    });
  };
  const submit = () => void (reading.current ? reading.current.then((why) => why || onSend()) : onSend());
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
      class={`box ${isRunning ? "busy" : ""} ${isOver ? "drop" : ""}`}
      onDragOver={(event) => (event.preventDefault(), setIsOver(true))}
      onDragLeave={() => setIsOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setIsOver(false);
        add(event.dataTransfer?.files);
      }}
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      {queued ? (
        <p class="queued">
          <span class="cut">{`Next: ${[queued.text, ...queued.files.map((file) => file.name)].filter(Boolean).join(", ")}`}</span>
          <button type="button" class="btn quiet sm" onClick={props.onUnqueue}>
            Take back
          </button>
        </p>
      ) : null}
      {files.length > 0 || problem ? (
        <ul class="attached" aria-label="Attached files">
          {files.map((file) => (
            <li class="chip" key={file.id}>
              <Icon name="file" />
              <span class="cut">{file.name}</span>
              <button type="button" aria-label={`Remove ${file.name}`} onClick={() => props.onRemove(file.id)}>
                <Icon name="close" />
              </button>
            </li>
          ))}
          {problem ? <li class="problem">{problem}</li> : null}
        </ul>
      ) : null}
      <textarea
        onPaste={(event) => {
          const pasted = event.clipboardData?.files;
          if (!pasted?.length) return;
          event.preventDefault();
          add(pasted);
        }}
        ref={field}
        id="composer"
        class="write"
        rows={1}
        aria-label="Message"
        placeholder={props.placeholder}
        value={draft}
        onInput={(event) => onDraft(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (isComposing(event)) return;
          typed.at = performance.now();
          if (event.key === "Escape") props.onEscape();
          else if (event.key === "Enter" && !event.shiftKey) submit();
          else return;
          event.preventDefault();
        }}
      />
      <div class="tray">
        <label class="btn quiet icon attach" title="Attach files">
          <Icon name="clip" />
          <input class="sr" type="file" multiple accept={ACCEPTED} aria-label="Attach files" onChange={(event) => (add(event.currentTarget.files), (event.currentTarget.value = ""))} />
        </label>
        {props.picker}
        <span class="grow" />
        {isRunning ? (
          <button type="button" class="btn go" onClick={onStop} disabled={isStopping}>
            <Icon name="stop" class="square" />
            {isStopping ? "Stopping…" : "Stop"} <kbd>Esc</kbd>
          </button>
        ) : (
          <button type="submit" class="btn primary icon go" aria-label="Send" disabled={draft.trim() === "" && files.length === 0}>
            <Icon name="up" />
          </button>
        )}
      </div>
    </form>
  );
}
