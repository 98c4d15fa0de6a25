// Numbers that a page finds again at a later visit, in IndexedDB. Where there is none, or it is denied, nothing is kept.

const database = "warpweft";
const table = "kernels";

/** What a request gives; nothing where it fails. */
function given<T>(request: IDBRequest<T>): Promise<T | undefined> {
  return new Promise((resolve) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => resolve(undefined);
  });
}

async function use<T>(mode: IDBTransactionMode, work: (table: IDBObjectStore) => IDBRequest<T>): Promise<T | undefined> {
  let opened: IDBDatabase | undefined;
  try {
    const request = indexedDB.open(database, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(table);
    opened = await given(request);
    return opened && (await given(work(opened.transaction(table, mode).objectStore(table))));
  } catch {
    return undefined;
  } finally {
    opened?.close();
  }
}

/** The number kept under a key. */
export async function load(key: string): Promise<number | undefined> {
  const found: unknown = await use("readonly", (table) => table.get(key));
  return typeof found === "number" ? found : undefined;
}

/** Keeps a number under a key. */
export async function store(key: string, number: number): Promise<void> {
  await use("readwrite", (table) => table.put(number, key));
}
