// The encoder and the vectors of the search page, in a worker, so that the page stays responsive while it computes.

import { Device, Embedder, Tensor } from "../dist/models.js";

/**
 * Vectors `[pieces, dimensions]`, and the piece of text of each row.
 * @typedef {{ vectors: Tensor, pieces: string[] }} Part
 */

/** The initial and the largest number of pieces in a batch. */
const [FIRST_BATCH, MAX_BATCH] = [4, 32];
/**
 * The target time of a batch in milliseconds. Faster batches make the next one larger, and slower batches make it smaller. A
 * search waits for one batch.
 */
const [SHORT, LONG] = [100, 300];
/** The milliseconds between progress reports. */
const REPORT = 100;

/** The vectors of a text, on a device. */
class Index {
  /** The parts. While vectors are computed there are several, each at least twice as large as the next one. @type {Part[]} */
  #parts = [];

  /** @param {Embedder} embedder */
  constructor(embedder) {
    this.embedder = embedder;
  }

  get pieces() {
    return this.#parts.flatMap(({ pieces }) => pieces);
  }

  /**
   * Computes the vectors of more pieces.
   * @param {string[]} pieces
   */
  async add(pieces) {
    const vectors = this.embedder.embed(pieces);
    try {
      await vectors.device.synchronize();
    } catch (error) {
      vectors.dispose();
      throw error;
    }
    this.#parts = [...this.#parts, { vectors, pieces }];
    for (let last; (last = this.#parts.slice(-2)).length === 2; ) {
      if (2 * last[1].pieces.length <= last[0].pieces.length) break;
      this.#merge(2);
    }
  }

  /**
   * Merges all parts into one tensor, without rows of unwanted pieces.
   * @param {Set<string>} [wanted]
   */
  compact(wanted) {
    if (this.#parts.length > 1) this.#merge(this.#parts.length);
    const [part] = this.#parts;
    if (!part || !wanted) return;
    const rows = [...part.pieces.keys()].filter((row) => wanted.has(part.pieces[row]));
    if (rows.length === part.pieces.length) return;
    const pieces = rows.map((row) => part.pieces[row]);
    const { vectors } = part;
    const select = () => vectors.indexSelect(0, vectors.device.tensor(new Int32Array(rows)));
    this.#parts = rows.length ? [{ vectors: vectors.device.scope(select), pieces }] : [];
    vectors.device.submit();
    vectors.dispose();
  }

  /**
   * Merges the last parts into one.
   * @param {number} count
   */
  #merge(count) {
    const last = this.#parts.slice(-count);
    const vectors = Tensor.concat(last.map(({ vectors }) => vectors), 0);
    vectors.device.submit();
    this.#parts = [...this.#parts.slice(0, -count), { vectors, pieces: last.flatMap(({ pieces }) => pieces) }];
    for (const part of last) part.vectors.dispose();
  }

  /**
   * Finds the pieces with the largest cosine similarity to a query. All vectors have length 1, so a matrix product gives the
   * cosines.
   * @param {string} query
   * @param {number} limit
   * @returns {Promise<[piece: string, cosine: number][]>}
   */
  async search(query, limit) {
    const [parts, pieces] = [this.#parts, this.pieces];
    if (!pieces.length) return [];
    const scores = this.embedder.device.scope(() => {
      const direction = this.embedder.embed(query).transpose(0, 1);
      return Tensor.concat(parts.map(({ vectors }) => vectors.matmul(direction)), 0);
    });
    try {
      const cosines = await scores.read();
      const best = [...pieces.keys()].sort((a, b) => cosines[b] - cosines[a]).slice(0, limit);
      return best.map((row) => [pieces[row], cosines[row]]);
    } finally {
      scores.dispose();
    }
  }

  /** Loads the encoder on a new device after a loss, and computes all vectors again. */
  async restore() {
    const { pieces } = this;
    const lost = this.embedder.device;
    this.#clear();
    await this.embedder.ready();
    lost.dispose();
    for (let at = 0; at < pieces.length; at += MAX_BATCH) await this.add(pieces.slice(at, at + MAX_BATCH));
  }

  dispose() {
    this.#clear();
    this.embedder.dispose();
  }

  #clear() {
    for (const { vectors } of this.#parts) vectors.dispose();
    this.#parts = [];
  }
}

/** @type {Index | undefined} */
let index;
/** Aborts the loading in progress. */
let stop = new AbortController();
/** The number of the newest text. */
let newest = 0;
/** The work for the previous text. @type {Promise<unknown>} */
let preparing = Promise.resolve();

const post = (/** @type {object} */ message) => self.postMessage(message);

/** Lets the page's messages be handled. */
const pause = () => new Promise((resolve) => setTimeout(resolve));

/** Makes a function that posts a message at most once per `REPORT` milliseconds, unless the message is needed. */
function reporter() {
  let last = 0;
  return (/** @type {object} */ message, /** @type {boolean} */ isNeeded) => {
    if (!isNeeded && performance.now() - last < REPORT) return;
    last = performance.now();
    post(message);
  };
}

const methods = {
  /**
   * Loads a model, and returns facts about it.
   * @param {string | Record<string, File>} source
   * @param {string} prefer
   */
  async load(source, prefer) {
    await this.close();
    stop = new AbortController();
    const device = await Device.new({ prefer: /^\d+$/.test(prefer) ? Number(prefer) : prefer });
    const report = reporter();
    try {
      const onProgress = (/** @type {{ done: number, total: number, seconds: number | undefined }} */ progress) =>
        report({ progress }, progress.done === progress.total);
      index = new Index(await Embedder.load(source, { device, onProgress, signal: stop.signal }));
    } catch (error) {
      device.dispose();
      throw error;
    }
    const { backend, name } = device.info;
    const { dimensions, maxTokens } = index.embedder;
    return { device: { backend, name }, fallback: device.fallback, dimensions, maxTokens, memory: memory() };
  },
  async close() {
    newest += 1;
    await preparing.catch(() => {});
    const device = index?.embedder.device;
    index?.dispose();
    index = undefined;
    device?.dispose();
  },
  /**
   * Computes the missing vectors of a text, and drops unused ones. Returns undefined if a newer text came meanwhile.
   * @param {string[]} pieces
   */
  prepare(pieces) {
    const own = ++newest;
    const before = preparing.catch(() => {});
    preparing = before.then(() => (own === newest ? surviving(() => fill(pieces, own)) : undefined));
    return preparing;
  },
  /**
   * @param {string} query
   * @param {number} limit
   */
  async search(query, limit) {
    return surviving(async () => {
      const used = need();
      const ready = used.pieces.length;
      return { found: await used.search(query, limit), ready };
    });
  },
};

function need() {
  if (!index) throw new Error("There is no model.");
  return index;
}

/** The work of restoring the index in progress. @type {Promise<void> | undefined} */
let restoring;

/**
 * Does work with the index. If the device is lost, the index is restored on a new device, and the work done again.
 * @template T
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
async function surviving(work) {
  try {
    return await work();
  } catch (error) {
    if (/** @type {{ code?: string }} */ (error).code !== "DeviceLost") throw error;
    // A search and the vectors of a text may notice the same loss.
    restoring ??= need().restore().finally(() => (restoring = undefined));
    await restoring;
    return work();
  }
}

const memory = () => need().embedder.device.memory().allocated;

/** Estimates the relative time that a piece takes. @param {string} piece */
const effort = (piece) => 20 + Math.min(piece.length, 1500);

/**
 * Computes vectors in batches, until a newer text comes.
 * @param {string[]} pieces
 * @param {number} own the number of the text
 */
async function fill(pieces, own) {
  const used = need();
  const wanted = new Set(pieces);
  used.compact(wanted);
  const have = new Set(used.pieces);
  // Batches have pieces of similar length, which need little padding.
  const missing = [...wanted].filter((piece) => !have.has(piece)).sort((a, b) => a.length - b.length);
  const all = missing.reduce((sum, piece) => sum + effort(piece), 0);
  const report = reporter();
  const begun = performance.now();
  let [done, size] = [0, FIRST_BATCH];
  for (let at = 0; at < missing.length; ) {
    const passed = performance.now() - begun;
    const seconds = passed > 1000 ? ((all - done) / done) * (passed / 1000) : undefined;
    report({ prepared: { done: have.size + at, total: wanted.size, seconds } }, at === 0);
    await pause();
    if (own !== newest) return undefined;
    const batch = missing.slice(at, at + size);
    const start = performance.now();
    await used.add(batch);
    const took = performance.now() - start;
    if (took < SHORT) size = Math.min(2 * size, MAX_BATCH);
    else if (took > LONG) size = Math.max(size / 2, 1);
    at += batch.length;
    done += batch.reduce((sum, piece) => sum + effort(piece), 0);
  }
  used.compact();
  return { memory: memory() };
}

self.addEventListener("message", async ({ data }) => {
  if (data.stop) return stop.abort(new Error("Loading was cancelled."));
  const { id, method, args } = data;
  try {
    post({ id, answer: await /** @type {any} */ (methods)[method](...args) });
  } catch (error) {
    const { message, code } = /** @type {Error & { code?: string }} */ (error);
    post({ id, error: message ?? String(error), code });
  }
});
