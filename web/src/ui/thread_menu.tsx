/** What can be done with a thread: another name, or none of it any more. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { EMPTY_CHAT } from "../model/chat";
import { go, to } from "../router";
import { sentence } from "../server/api";
import { chatOf } from "../server/chats";
import { deleteThread, renameThread, titles } from "../server/threads";
import { Dialog, IconButton } from "./controls";

export function ThreadMenu({ id }: { id: string }): JSX.Element {
  const [open, setOpen] = useState<"no" | "rename" | "delete">("no");
  const [name, setName] = useState("");
  const [problem, setProblem] = useState("");
  const close = () => setOpen("no");
  const act = async (action: () => Promise<void>) => {
    try {
      await action();
      close();
    } catch (error) {
      setProblem(sentence(error));
    }
  };
  const start = (what: "rename" | "delete") => {
    setProblem("");
    setName(titles.value[id] ?? "");
    setOpen(what);
  };
  return (
    <span class="thread-menu">
      <IconButton name="pen" label="Rename this chat" onClick={() => start("rename")} />
      <IconButton name="trash" label="Delete this chat" onClick={() => start("delete")} />
      {open === "rename" ? (
        <Dialog title="Rename this chat" onClose={close}>
          <form
            class="stack"
            onSubmit={(event) => {
              event.preventDefault();
              if (name.trim()) void act(() => renameThread(id, name.trim().slice(0, 200)));
            }}
          >
            <label for="thread-name">Name</label>
            <input id="thread-name" class="inp" value={name} onInput={(event) => setName(event.currentTarget.value)} />
            {problem ? <p class="problem">{problem}</p> : null}
            <div class="acts">
              <button type="submit" class="btn primary">
                Rename
              </button>
              <button type="button" class="btn" onClick={close}>
                Cancel
              </button>
            </div>
          </form>
        </Dialog>
      ) : null}
      {open === "delete" ? (
        <Dialog title="Delete this chat?" onClose={close}>
          <div class="stack">
            <p>Its messages are removed from the server. Its runs stay in the list of runs.</p>
            {problem ? <p class="problem">{problem}</p> : null}
            <div class="acts">
              <button
                type="button"
                class="btn danger"
                onClick={() =>
                  void act(async () => {
                    await deleteThread(id);
                    chatOf(id).set(EMPTY_CHAT);
                    go(to.chat());
                  })
                }
              >
                Delete
              </button>
              <button type="button" class="btn" onClick={close}>
                Cancel
              </button>
            </div>
          </div>
        </Dialog>
      ) : null}
    </span>
  );
}
