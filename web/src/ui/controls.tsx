/** Small controls that several pages use. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { announce } from "../server/announcer";
import { serverNow } from "../server/clock";
import { Icon } from "./icons";

/** Copies a text, and says for a moment whether that went well. */
export function CopyButton({ text, what, label = "Copy" }: { text: string; what: string; label?: string }): JSX.Element {
  const [said, setSaid] = useState("");
  const copy = async (button: HTMLElement) => {
    const outcome = (await isCopied(text, button)) ? "Copied" : "Not copied: the browser does not allow it";
    setSaid(outcome);
    announce({ text: outcome, alert: false });
    setTimeout(() => setSaid(""), 3000);
  };
  return (
    <button type="button" class="btn quiet sm" onClick={(event) => void copy(event.currentTarget)} aria-label={said || (label === "Copy" ? `Copy ${what}` : label)}>
      <Icon name={said === "Copied" ? "check" : said ? "warn" : "copy"} />
      <span>{said || label}</span>
    </button>
  );
}

/** Pages that came over plain HTTP have no clipboard, but the older way to it. */
async function isCopied(text: string, beside: HTMLElement): Promise<boolean> {
  const wasCopied = await navigator.clipboard?.writeText(text).then(() => true, () => false);
  if (wasCopied) return true;
  const field = Object.assign(document.createElement("textarea"), { value: text, className: "sr" });
  beside.after(field);
  field.select();
  const isDone = document.execCommand("copy");
  field.remove();
  beside.focus();
  return isDone;
}

/** A window over the page. Esc and a click outside close it. */
export function Dialog(props: { title: string; onClose: () => void; children: ComponentChildren; class?: string }): JSX.Element {
  const { title, onClose, children, class: extra = "" } = props;
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const element = dialog.current;
    element?.showModal();
    return () => element?.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      class={`sheet ${extra}`}
      aria-label={title}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => event.target === dialog.current && onClose()}
    >
      <header>
        <h2>{title}</h2>
        <button type="button" class="btn quiet icon" aria-label="Close" onClick={onClose}>
          <Icon name="close" />
        </button>
      </header>
      <div class="sheet-body">{children}</div>
    </dialog>
  );
}

/** The time now, once a second or oftener; stands still if `on` is false. */
export function useNow(on: boolean, everyMs = 1000): number {
  const [now, setNow] = useState(serverNow());
  useEffect(() => {
    if (!on) return undefined;
    setNow(serverNow());
    const timer = setInterval(() => setNow(serverNow()), everyMs);
    return () => clearInterval(timer);
  }, [on, everyMs]);
  return now;
}

/** A command that the server has not answered for so long is said to be without an answer. */
const LATE_MS = 2000;

/** Whether `on` has been so for longer than an answer should take. */
export function useLate(on: boolean): boolean {
  const [isLate, setIsLate] = useState(false);
  useEffect(() => {
    setIsLate(false);
    if (!on) return undefined;
    const timer = setTimeout(() => {
      setIsLate(true);
      announce({ text: NO_ANSWER, alert: false });
    }, LATE_MS);
    return () => clearTimeout(timer);
  }, [on]);
  return on && isLate;
}

export const NO_ANSWER = "No answer from the server yet.";

/** A command that is on its way, in words. */
export function OnItsWay({ on, word }: { on: boolean; word: string }): JSX.Element | null {
  const isLate = useLate(on);
  const text = isLate ? NO_ANSWER : word;
  return on && text ? <p class="why">{text}</p> : null;
}

/** A button with an icon that is explained to everybody. */
export function IconButton(props: { name: string; label: string; onClick: () => void; class?: string }): JSX.Element {
  return (
    <button type="button" class={`btn quiet icon ${props.class ?? ""}`} aria-label={props.label} title={props.label} onClick={props.onClick}>
      <Icon name={props.name} />
    </button>
  );
}

/** What a page shows while it has nothing. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="nothing">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

/** What went wrong, said to everybody; nothing if all is well. */
export function Problem({ text }: { text: string | undefined }): JSX.Element | null {
  return text ? (
    <p class="problem" role="alert">
      {text}
    </p>
  ) : null;
}
