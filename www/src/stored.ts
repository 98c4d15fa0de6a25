// Numbers stored in IndexedDB for later visits. Without IndexedDB, or if the browser denies it, nothing is stored.

const database = "warpweft";
const table = "kernels";

/** Returns the result of a request, or undefined if it fails. */
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

/** Returns the number stored under a key. */
export async function load(key: string): Promise<number | undefined> {
  const found: unknown = await use("readonly", (table) => table.get(key));
  return typeof found === "number" ? found : undefined;
}

/** Stores a number under a key. */
export async function store(key: string, number: number): Promise<void> {
  await use("readwrite", (table) => table.put(number, key));
}
