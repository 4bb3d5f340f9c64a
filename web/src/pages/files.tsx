/** Files, and the vector stores that they are indexed in. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { exact } from "../model/invisible";
import { ago, bytes, plural } from "../model/words";
import { request, sentence } from "../server/api";
import { Empty, Problem, useNow } from "../ui/controls";
import { Icon, State } from "../ui/icons";
import { TopBar } from "../ui/top_bar";

interface FileLine {
  id: string;
  filename: string;
  bytes: number;
  purpose: string;
  created_at: number;
}

interface VectorStore {
  id: string;
  name: string;
  usage_bytes: number;
  status: string;
  created_at: number;
  file_counts: { in_progress: number; completed: number; failed: number; cancelled: number; total: number };
}

interface List<T> {
  data: T[];
}

const POLL_MS = 1500;

export function FilesPage(): JSX.Element {
  const [files, setFiles] = useState<FileLine[] | undefined>(undefined);
  const [stores, setStores] = useState<VectorStore[]>([]);
  const [uploads, setUploads] = useState<string[]>([]);
  const [isOver, setIsOver] = useState(false);
  const [problem, setProblem] = useState("");
  const [name, setName] = useState("");
  const now = useNow(true, 30_000);
  const failed = (error: unknown) => setProblem(sentence(error));
  const read = async () => {
    const [listed, kept] = await Promise.all([request<List<FileLine>>("/v1/files?limit=100"), request<List<VectorStore>>("/v1/vector_stores?limit=100")]);
    setFiles(listed.data);
    setStores(kept.data);
  };
  useEffect(() => void read().catch(failed), []);
  const isIndexing = stores.some((store) => store.file_counts.in_progress > 0);
  useEffect(() => {
    if (!isIndexing) return undefined;
    const timer = setInterval(() => void read().catch(failed), POLL_MS);
    return () => clearInterval(timer);
  }, [isIndexing]);
  const act = (action: Promise<unknown>) => void action.then(read).catch(failed);
  const upload = async (list: FileList | null | undefined) => {
    for (const file of [...(list ?? [])]) {
      setUploads((all) => [...all, file.name]);
      const form = new FormData();
      form.set("purpose", "assistants");
      form.set("file", file, file.name);
      await request("/v1/files", { body: form }).catch(failed);
      setUploads((all) => all.filter((one) => one !== file.name));
    }
    await read().catch(failed);
  };
  const attach = (fileId: string, storeId: string) => storeId && act(request(`/v1/vector_stores/${encodeURIComponent(storeId)}/files`, { body: { file_id: fileId } }));
  return (
    <main
      class={`main scrolls ${isOver ? "drop" : ""}`}
      id="main"
      tabIndex={-1}
      onDragOver={(event) => (event.preventDefault(), setIsOver(true))}
      onDragLeave={() => setIsOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setIsOver(false);
        void upload(event.dataTransfer?.files);
      }}
    >
      <TopBar title="Files">
        <label class="btn">
          <Icon name="plus" />
          <span class="txt">Upload</span>
          <input class="sr" type="file" multiple aria-label="Upload files" onChange={(event) => void upload(event.currentTarget.files)} />
        </label>
      </TopBar>
      <div class="page">
        <Problem text={problem} />
        <Box title="Vector stores">
          <form
            class="inline"
            onSubmit={(event) => {
              event.preventDefault();
              if (name.trim()) act(request("/v1/vector_stores", { body: { name: name.trim() } }).then(() => setName("")));
            }}
          >
            <input class="inp" placeholder="Name of a new vector store" aria-label="Name of a new vector store" value={name} onInput={(event) => setName(event.currentTarget.value)} />
            <button type="submit" class="btn">
              Create
            </button>
          </form>
          <ul class="rows">
            {stores.map((store) => (
              <StoreRow key={store.id} store={store} onDelete={() => act(request(`/v1/vector_stores/${encodeURIComponent(store.id)}`, { method: "DELETE" }))} />
            ))}
          </ul>
          {stores.length === 0 && files ? <p class="dim none">No vector stores. File search looks in them.</p> : null}
        </Box>
        <Box title="Files">
          {uploads.map((one) => (
            <p class="frow">
              <State look="running" word="uploading" />
              <span class="cut">{exact(one)}</span>
            </p>
          ))}
          <ul class="rows">
            {(files ?? []).map((file) => (
              <li class="frow" key={file.id}>
                <Icon name="file" />
                <span class="what">
                  <b class="cut">{exact(file.filename)}</b>
                  <span class="dim cut">{`${bytes(file.bytes)} · ${file.purpose} · ${ago(now - file.created_at * 1000)}`}</span>
                </span>
                {stores.length > 0 ? (
                  <select class="inp" aria-label={`Index ${exact(file.filename)} in a vector store`} value="" onChange={(event) => attach(file.id, event.currentTarget.value)}>
                    <option value="">Index in…</option>
                    {stores.map((store) => (
                      <option value={store.id}>{exact(store.name || store.id)}</option>
                    ))}
                  </select>
                ) : null}
                <button type="button" class="btn quiet icon" aria-label={`Delete ${exact(file.filename)}`} onClick={() => act(request(`/v1/files/${encodeURIComponent(file.id)}`, { method: "DELETE" }))}>
                  <Icon name="trash" />
                </button>
              </li>
            ))}
          </ul>
          {files?.length === 0 && uploads.length === 0 ? (
            <Empty title="No files">
              <p class="dim">Upload some, or drop them anywhere on this page.</p>
            </Empty>
          ) : null}
        </Box>
      </div>
    </main>
  );
}

function Box({ title, children }: { title: string; children: ComponentChildren }): JSX.Element {
  return (
    <section class="panel" aria-label={title}>
      <header class="panel-h">
        <h2>{title}</h2>
      </header>
      {children}
    </section>
  );
}

function StoreRow({ store, onDelete }: { store: VectorStore; onDelete: () => void }): JSX.Element {
  const { in_progress: open, completed, failed, total } = store.file_counts;
  const isBusy = open > 0;
  const name = exact(store.name || store.id);
  return (
    <li class="frow">
      <Icon name="cube" />
      <span class="what">
        <b class="cut">{name}</b>
        <span class="dim cut">{`${plural(total, "file")} · ${bytes(store.usage_bytes)}${failed > 0 ? ` · ${failed} failed` : ""}`}</span>
        {isBusy ? <progress max={total} value={completed + failed} aria-label={`Indexing of ${name}`} /> : null}
      </span>
      <State look={isBusy ? "running" : failed > 0 ? "failed" : "done"} word={isBusy ? `indexing ${completed} of ${total}` : failed > 0 ? `${failed} failed` : "ready"} />
      <button type="button" class="btn quiet icon" aria-label={`Delete ${name}`} onClick={onDelete}>
        <Icon name="trash" />
      </button>
    </li>
  );
}
