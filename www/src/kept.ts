// Model files that a site keeps in the browser, in the folder `warpweft-models` of the origin private file system.
//
// Each model file has a separate folder, named by a hash of its URL. The folder has `about.json`, and the bytes in files `0`,
// `1`, `2` and so on. A stream's bytes appear in a file when the stream is closed, so each of these files is complete or empty.
// A model file is whole if the sizes add up to the total in `about.json`. Otherwise the download was interrupted, and the next
// one continues after the last byte.

import { argumentError, stateError, WarpweftError } from "./errors.js";
import { describe, refused } from "./host.js";

const FOLDER = "warpweft-models";

/** The size of a file in bytes. A page that is closed loses at most this part of its download. */
const MAX_FILE_BYTES = 1 << 25;

/** A model file that the browser keeps. */
export interface KeptModel {
  /** The last part of the URL. */
  readonly name: string;
  /** The URL that the file was downloaded from. */
  readonly url: string;
  /** The number of stored bytes. */
  readonly bytes: number;
  /** The size of the whole file in bytes. More than `bytes` if the download was interrupted. */
  readonly total: number;
}

/** The content of `about.json`. */
interface About {
  url: string;
  total: number;
  /** The version of the file on the server: its ETag or date, or null if the server sends neither. */
  tag: string | null;
}

type Folder = FileSystemDirectoryHandle & { keys(): AsyncIterable<string> };

const isMissing = (cause: unknown) => ["NotFoundError", "TypeMismatchError"].includes((cause as Error).name);

const megabytes = (bytes: number) => `${Math.ceil(bytes / 1e6)} MB`;

async function open(op: string): Promise<Folder> {
  // The type declares `storage` everywhere, but only pages on https and localhost have it, and Node does not.
  const storage = (globalThis.navigator as Navigator | undefined)?.storage as StorageManager | undefined;
  if (typeof storage?.getDirectory !== "function") {
    const message = `${op}: the origin private file system must be available, got none; it needs a page on https or localhost`;
    throw new WarpweftError("Unsupported", message);
  }
  try {
    return (await (await storage.getDirectory()).getDirectoryHandle(FOLDER, { create: true })) as Folder;
  } catch (cause) {
    const message = `${op}: the browser denies the origin private file system: ${String(cause)}`;
    throw new WarpweftError("Unsupported", message, { cause });
  }
}

/** Returns the name of a model file's folder. */
async function keyOf(url: string): Promise<string> {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(url)));
  return Array.from(hash.subarray(0, 16), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Returns the complete files of a folder, in order. */
async function filesOf(folder: Folder): Promise<File[]> {
  const files: File[] = [];
  for (;;) {
    try {
      const file = await (await folder.getFileHandle(String(files.length))).getFile();
      if (file.size === 0) return files;
      files.push(file);
    } catch (cause) {
      if (isMissing(cause)) return files;
      throw cause;
    }
  }
}

/** Reads `about.json`. Returns undefined if the page was closed before it was written. */
async function aboutOf(folder: Folder): Promise<About | undefined> {
  try {
    return JSON.parse(await (await (await folder.getFileHandle("about.json")).getFile()).text()) as About;
  } catch (cause) {
    if (isMissing(cause) || cause instanceof SyntaxError) return undefined;
    throw cause;
  }
}

/** Returns the URL as `fetch` resolves it, or undefined if it is not a URL of a web server. */
export function webAddress(address: string): string | undefined {
  try {
    const { href } = new URL(new Request(address).url);
    return /^https?:/.test(href) ? href : undefined;
  } catch {
    return undefined;
  }
}

/** Runs `work` while no other page, worker or load of this site downloads or deletes the same file. */
export async function withLock<T>(url: string, signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
  const options = signal ? { signal } : {};
  return navigator.locks.request(`${FOLDER}/${url}`, options, work) as Promise<T>;
}

/** A model file in the browser's storage. */
export class KeptFile {
  readonly #op: string;
  readonly #home: Folder;
  readonly #key: string;
  readonly #folder: Folder;
  readonly #about: About;
  readonly #files: File[];
  /** The last, incomplete file, with its stream and the number of bytes written to it. */
  #last: { handle: FileSystemFileHandle; stream: FileSystemWritableFileStream; written: number } | undefined;

  private constructor(op: string, home: Folder, key: string, folder: Folder, about: About, files: File[]) {
    [this.#op, this.#home, this.#key, this.#folder, this.#about, this.#files] = [op, home, key, folder, about, files];
  }

  /** Finds the stored file of a URL. The file may be incomplete. */
  static async find(op: string, url: string): Promise<KeptFile | undefined> {
    const [home, key] = [await open(op), await keyOf(url)];
    return KeptFile.#at(op, home, key);
  }

  static async #at(op: string, home: Folder, key: string): Promise<KeptFile | undefined> {
    try {
      const folder = (await home.getDirectoryHandle(key)) as Folder;
      const about = await aboutOf(folder);
      return about && new KeptFile(op, home, key, folder, about, await filesOf(folder));
    } catch (cause) {
      if (isMissing(cause)) return undefined;
      throw new WarpweftError("Unsupported", `${op}: kept models must be readable, got: ${String(cause)}`, { cause });
    }
  }

  /** Finds all stored files. */
  static async all(op: string): Promise<KeptFile[]> {
    const home = await open(op);
    const found: KeptFile[] = [];
    for await (const key of home.keys()) {
      const file = await KeptFile.#at(op, home, key);
      if (file) found.push(file);
    }
    return found;
  }

  /** Returns the file to continue. That is the stored file if it is whole or of this version, and otherwise a new one. */
  static async continue(op: string, about: About): Promise<KeptFile> {
    const kept = await KeptFile.find(op, about.url);
    if (kept && (kept.isWhole || kept.#isVersion(about))) return kept;
    await kept?.delete();
    const [home, key] = [await open(op), await keyOf(about.url)];
    const folder = (await home.getDirectoryHandle(key, { create: true })) as Folder;
    const file = new KeptFile(op, home, key, folder, about, []);
    await file.#checked(async () => {
      const stream = await (await folder.getFileHandle("about.json", { create: true })).createWritable();
      await stream.write(JSON.stringify(about));
      await stream.close();
    });
    return file;
  }

  #isVersion({ tag, total }: About): boolean {
    return tag !== null && tag === this.#about.tag && total === this.#about.total;
  }

  /** The number of bytes in complete files. */
  get length(): number {
    return this.#files.reduce((sum, { size }) => sum + size, 0);
  }

  get isWhole(): boolean {
    return this.length === this.#about.total;
  }

  /** The bytes of complete files, which are not in memory. */
  get blob(): Blob {
    return new Blob(this.#files);
  }

  get facts(): KeptModel {
    const { url, total } = this.#about;
    const last = new URL(url).pathname.split("/").pop() ?? "";
    let name = last;
    try {
      name = decodeURIComponent(last);
    } catch {
      // The URL has a percent sign that encodes nothing, so it is shown unchanged.
    }
    return { name: name || url, url, bytes: this.length, total };
  }

  /** Refuses a download that does not fit into the browser's storage. */
  async checkRoom(): Promise<void> {
    const { quota, usage = 0 } = await navigator.storage.estimate();
    const need = this.#about.total - this.length;
    if (quota === undefined || need <= quota - usage) return;
    await this.abandon();
    const got = megabytes(Math.max(quota - usage, 0));
    const must = `keeping ${this.facts.name} needs ${megabytes(need)} of the browser's storage, got ${got}`;
    throw new WarpweftError("Memory", `${this.#op}: ${must}; delete models that are not needed, or load without keep`);
  }

  /** Appends bytes. */
  async write(bytes: Uint8Array): Promise<void> {
    await this.#checked(async () => {
      this.#last ??= await this.#next();
      await this.#last.stream.write(bytes as Uint8Array<ArrayBuffer>);
      this.#last.written += bytes.length;
    });
    if (this.#last!.written >= MAX_FILE_BYTES) await this.close();
  }

  async #next() {
    const handle = await this.#folder.getFileHandle(String(this.#files.length), { create: true });
    return { handle, stream: await handle.createWritable(), written: 0 };
  }

  /** Completes the last file. */
  async close(): Promise<void> {
    await this.#checked(async () => {
      await this.#last?.stream.close();
      if (this.#last) this.#files.push(await this.#last.handle.getFile());
      this.#last = undefined;
    });
  }

  /** Ends a failed download. The stored part is kept, so that the next download continues it. */
  async abandon(): Promise<void> {
    try {
      await this.close();
      if (this.length === 0) await this.delete();
    } catch {
      // The download has failed already, and that error is the one to report.
    }
  }

  /** Converts errors of the file system to the package's errors. If the storage is full, the partial file is deleted. */
  async #checked(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (cause) {
      await this.#last?.stream.abort().catch(() => {});
      this.#last = undefined;
      const isFull = (cause as Error).name === "QuotaExceededError";
      if (isFull) await this.delete().catch(() => {});
      const remedy = isFull ? "; delete models that are not needed, or load without keep" : "";
      const message = `${this.#op}: ${this.facts.name} must be writable to be kept, got: ${String(cause)}${remedy}`;
      throw new WarpweftError(isFull ? "Memory" : "Unsupported", message, { cause });
    }
  }

  async delete(): Promise<void> {
    await this.#home.removeEntry(this.#key, { recursive: true });
    this.#files.length = 0;
  }
}

/** Lists the model files that the browser keeps for this site. */
export async function keptModels(): Promise<KeptModel[]> {
  const all = await KeptFile.all("keptModels");
  return all.map(({ facts }) => facts).sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Deletes a kept model file. */
export async function deleteModel(model: unknown): Promise<boolean> {
  const op = "deleteModel";
  if (typeof model !== "string" && !(model instanceof URL)) throw refused(op, "the model", "a name or an address", model);
  const given = String(model);
  const all = await KeptFile.all(op);
  const byUrl = all.filter(({ facts: { url } }) => url === (webAddress(given) ?? given));
  const found = byUrl.length > 0 ? byUrl : all.filter(({ facts: { name } }) => name === given);
  if (found.length > 1) {
    const must = `the name must be that of one model, got ${describe(given)}, which ${found.length} have`;
    throw argumentError(`${op}: ${must}; give the url`);
  }
  const [file] = found;
  if (!file) return false;
  const lock = `${FOLDER}/${file.facts.url}`;
  return navigator.locks.request(lock, { ifAvailable: true }, async (held) => {
    if (!held) throw stateError(`${op}: the model must not be loading, got ${describe(given)}, which is being downloaded`);
    await file.delete();
    return true;
  }) as Promise<boolean>;
}
