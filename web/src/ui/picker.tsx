/** Picks the model and the tools of a thread. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Choice } from "../model/chat";
import { plural } from "../model/words";
import { sentence } from "../server/api";
import { type Offer, choiceOf, isDefault, readOffer } from "../server/choices";
import { useStore } from "../server/store";
import { Dialog, Problem } from "./controls";
import { Icon } from "./icons";

/** `model`: what the last run used, which is what the next one uses unless another is picked. */
export function Picker({ id, model }: { id: string; model: string }): JSX.Element {
  const store = choiceOf(id);
  const choice = useStore(store);
  const [open, setOpen] = useState(false);
  const name = choice.model || model || "default model";
  const tools = choice.tools ? (choice.tools.length === 0 ? "no tools" : plural(choice.tools.length, "tool")) : "all tools";
  return (
    <>
      <button type="button" class="btn quiet pick" onClick={() => setOpen(true)}>
        <span class="sr">Model and tools: </span>
        <Icon name="cube" />
        <span class="cut">{name}</span>
        <Icon name="wrench" class="pick-icon" />
        <span class="pick-tools">{tools}</span>
        <Icon name="down" class="small" />
      </button>
      {open ? <PickerDialog choice={choice} onChange={(next) => store.set(next)} onClose={() => setOpen(false)} /> : null}
    </>
  );
}

function PickerDialog({ choice, onChange, onClose }: { choice: Choice; onChange: (choice: Choice) => void; onClose: () => void }): JSX.Element {
  const [offer, setOffer] = useState<Offer | undefined>(undefined);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    void readOffer().then(setOffer, (error: unknown) => setProblem(sentence(error)));
  }, []);
  const all = offer?.servers.flatMap((server) => server.tools.map((tool) => `${server.name}/${tool.name}`)) ?? [];
  const chosen = new Set(choice.tools ?? all);
  const set = (names: string[], on: boolean) => {
    const next = all.filter((one) => (names.includes(one) ? on : chosen.has(one)));
    onChange({ ...choice, tools: next.length === all.length ? undefined : next });
  };
  return (
    <Dialog title="Model and tools of this chat" onClose={onClose} class="picker">
      <Problem text={problem} />
      <fieldset class="choices">
        <legend>Model</legend>
        {["", ...(offer?.models ?? [])].map((model) => (
          <label class="check">
            <input type="radio" name="model" checked={choice.model === model} onChange={() => onChange({ ...choice, model })} />
            <span>{model || "default of the server"}</span>
          </label>
        ))}
      </fieldset>
      {offer?.servers.map(({ name, tools }) => (
        <ServerTools
          key={name}
          name={name}
          tools={tools}
          isOn={(tool) => chosen.has(`${name}/${tool}`)}
          onSet={(names, on) => set(names.map((tool) => `${name}/${tool}`), on)}
        />
      ))}
      {offer?.servers.length === 0 ? <p class="dim">The server has no MCP tools.</p> : null}
      <p class="dim">Kept for this chat, in this browser.</p>
      <p class="acts">
        <button type="button" class="btn primary" onClick={onClose}>
          Done
        </button>
        <button type="button" class="btn" disabled={isDefault(choice)} onClick={() => onChange({ model: "", tools: undefined })}>
          Use the defaults
        </button>
      </p>
    </Dialog>
  );
}

interface ServerToolsProps {
  name: string;
  tools: Offer["servers"][number]["tools"];
  isOn: (tool: string) => boolean;
  onSet: (tools: string[], on: boolean) => void;
}

function ServerTools({ name, tools, isOn, onSet }: ServerToolsProps): JSX.Element {
  const n = tools.filter((tool) => isOn(tool.name)).length;
  const isAll = n === tools.length && n > 0;
  const [open, setOpen] = useState(tools.length <= FEW || (n > 0 && !isAll));
  return (
    <div class="choices">
      <div class="choices-h">
        <label class="check">
          <input
            type="checkbox"
            checked={isAll}
            ref={(box) => {
              if (box) box.indeterminate = n > 0 && !isAll;
            }}
            onChange={(event) => onSet(tools.map((tool) => tool.name), event.currentTarget.checked)}
          />
          <span>
            <span class="sr">All tools of </span>
            <b>{name}</b>
          </span>
        </label>
        <span class="dim num grow">{`${n} of ${tools.length}`}</span>
        <button type="button" class="btn quiet sm" aria-expanded={open} onClick={() => setOpen(!open)}>
          {open ? "Hide" : "Show"}
          <span class="sr">{`the tools of ${name}`}</span>
        </button>
      </div>
      {open
        ? tools.map((tool) => (
            <label class="check">
              <input type="checkbox" checked={isOn(tool.name)} onChange={(event) => onSet([tool.name], event.currentTarget.checked)} />
              <span>
                <code>{tool.name}</code> <span class="dim">{tool.title}</span>
              </span>
            </label>
          ))
        : null}
    </div>
  );
}

/** So many tools are shown without being asked for. */
const FEW = 6;
