// The engine in the worker. It has the methods of `Engine`, and each returns a promise.

/**
 * @import { Engine, Picture, Frame, Filtered, Attended } from "./engine.js"
 * @import { Filter } from "./image.js"
 */

export class Remote {
  #worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module", name: "cpu" });
  /** @type {Map<number, { resolve: (answer: any) => void, reject: (error: Error) => void }>} */
  #waiting = new Map();
  #next = 0;

  constructor() {
    this.#worker.addEventListener("message", ({ data: { id, answer, error } }) => {
      const { resolve, reject } = this.#take(id);
      if (error === undefined) resolve(answer);
      else reject(new Error(error));
    });
    this.#worker.addEventListener("error", (event) => {
      const failed = new Error(`the CPU's worker: ${event.message ?? "it could not be started"}`);
      for (const id of [...this.#waiting.keys()]) this.#take(id).reject(failed);
    });
  }

  /** @returns {Promise<ReturnType<Engine["about"]>>} */
  about = () => this.#ask("about");
  /** @type {(picture: Picture, chain: Filter[]) => Promise<Frame>} */
  frame = (picture, chain) => this.#ask("frame", picture, chain);
  /** @type {(picture: Picture, chain: Filter[]) => Promise<Filtered>} */
  image = (picture, chain) => this.#ask("image", picture, chain);
  /** @type {(words: Uint32Array, causal: boolean) => Promise<Attended>} */
  attention = (words, causal) => this.#ask("attention", words, causal);
  /** @type {(kind: "image" | "attention") => Promise<number | undefined>} */
  time = (kind) => this.#ask("time", kind);

  /**
   * @param {string} method
   * @param {...unknown} args
   * @returns {Promise<any>}
   */
  #ask(method, ...args) {
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#worker.postMessage({ id, method, args });
    });
  }

  /** @param {number} id */
  #take(id) {
    const waiting = this.#waiting.get(id);
    if (!waiting) throw new Error(`no call ${id} is waiting`);
    this.#waiting.delete(id);
    return waiting;
  }
}
