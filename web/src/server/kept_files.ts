/** Contents of files that were attached and not sent, kept over a reload: `localStorage` is too small for them. */

const [NAME, FILES] = ["turnwire", "files"];

export function keepFile(id: string, url: string): Promise<unknown> {
  return ask("readwrite", (files) => files.put(url, id));
}

/** `undefined` if the browser has it no more. */
export function keptFile(id: string): Promise<string | undefined> {
  return ask("readonly", (files) => files.get(id) as IDBRequest<string | undefined>);
}

/** Deletes all but those that are wanted. */
export async function dropFiles(wanted: ReadonlySet<string>): Promise<void> {
  const ids = await ask("readonly", (files) => files.getAllKeys());
  await Promise.all(ids.filter((id) => !wanted.has(String(id))).map((id) => ask("readwrite", (files) => files.delete(id))));
}

function ask<T>(mode: IDBTransactionMode, act: (files: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const open = indexedDB.open(NAME, 1);
    open.onupgradeneeded = () => open.result.createObjectStore(FILES);
    open.onerror = () => reject(open.error ?? new Error("the browser keeps no files"));
    open.onsuccess = () => {
      const db = open.result;
      const transaction = db.transaction(FILES, mode);
      const asked = act(transaction.objectStore(FILES));
      transaction.oncomplete = () => (db.close(), resolve(asked.result));
      transaction.onabort = () => (db.close(), reject(transaction.error ?? new Error("the browser keeps no files")));
    };
  });
}
