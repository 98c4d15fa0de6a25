// The encoder and the vectors of the search page, in a worker: the page stays awake while it computes.

import { Device, Embedder, Tensor } from "../dist/models.js";

/**
 * Vectors `[pieces, dimensions]`, and the piece of text of each row.
 * @typedef {{ vectors: Tensor, pieces: string[] }} Part
 */

/** Pieces that are embedded together, at first and at most. */
const [FIRST_BATCH, MAX_BATCH] = [4, 32];
/** Milliseconds: batches that take less become larger, and batches that take more become smaller. A search waits for one. */
const [SHORT, LONG] = [100, 300];
/** Milliseconds between reports of progress. */
const REPORT = 100;

/** The vectors of a text, on a device. */
class Index {
  /** While vectors are being computed there are several parts, each at least twice as large as the next one. @type {Part[]} */
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
      await vectors.device.sync();
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
   * Makes one tensor of all parts, without the rows of pieces that are not wanted.
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
    vectors.device.flush();
    vectors.dispose();
  }

  /**
   * Makes one part of the last ones.
   * @param {number} count
   */
  #merge(count) {
    const last = this.#parts.slice(-count);
    const vectors = Tensor.concat(last.map(({ vectors }) => vectors), 0);
    vectors.device.flush();
    this.#parts = [...this.#parts.slice(0, -count), { vectors, pieces: last.flatMap(({ pieces }) => pieces) }];
    for (const part of last) part.vectors.dispose();
  }

  /**
   * Finds the pieces whose vectors have the largest cosines with a query's. All vectors have length 1, so a matrix product is
   * the cosines.
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

  dispose() {
    for (const { vectors } of this.#parts) vectors.dispose();
    this.#parts = [];
    this.embedder.dispose();
  }
}

/** @type {Index | undefined} */
let index;
/** Ends the loading that is under way. */
let stop = new AbortController();
/** The number of the newest text. */
let newest = 0;
/** The work for the text before it. @type {Promise<unknown>} */
let preparing = Promise.resolve();

const post = (/** @type {object} */ message) => self.postMessage(message);

/** Lets messages of the page be handled. */
const pause = () => new Promise((resolve) => setTimeout(resolve));

/** Calls a function at most once in this time, unless it must be called. */
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
   * Loads a model, and gives facts about it.
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
   * Computes the vectors that a text still needs, and drops the others. Gives undefined if a newer text came meanwhile.
   * @param {string[]} pieces
   */
  prepare(pieces) {
    const own = ++newest;
    const before = preparing.catch(() => {});
    preparing = before.then(() => (own === newest ? fill(pieces, own) : undefined));
    return preparing;
  },
  /**
   * @param {string} query
   * @param {number} limit
   */
  async search(query, limit) {
    const used = need();
    const ready = used.pieces.length;
    return { found: await used.search(query, limit), ready };
  },
};

function need() {
  if (!index) throw new Error("There is no model.");
  return index;
}

const memory = () => need().embedder.device.memory().allocated;

/** About how long a piece takes, without a unit. @param {string} piece */
const effort = (piece) => 20 + Math.min(piece.length, 1500);

/**
 * Computes vectors in batches, until a newer text comes.
 * @param {string[]} pieces
 * @param {number} own the text's number
 */
async function fill(pieces, own) {
  const used = need();
  const wanted = new Set(pieces);
  used.compact(wanted);
  const have = new Set(used.pieces);
  // Pieces of similar length are computed together, so that there is little padding.
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
