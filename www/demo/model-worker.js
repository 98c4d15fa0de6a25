// A worker that computes with a model, as a page calls it: methods that answer with promises, and news in between.

/** An error of the worker. */
export class WorkerError extends Error {
  /**
   * @param {string} message
   * @param {string | undefined} [code]
   */
  constructor(message, code) {
    super(message);
    this.code = code;
  }
}

export class ModelWorker {
  #worker;
  /** @type {Map<number, { resolve: (answer: any) => void, reject: (error: Error) => void }>} */
  #waiting = new Map();
  #next = 0;
  #isStarted = false;
  /** Why the worker answers no more. @type {WorkerError | undefined} */
  #ended;

  /**
   * @param {Worker} worker
   * @param {(news: any) => void} hear is called with messages that answer no call
   */
  constructor(worker, hear) {
    this.#worker = worker;
    worker.addEventListener("message", ({ data }) => {
      this.#isStarted = true;
      if (data.id === undefined) return hear(data);
      const waiting = this.#waiting.get(data.id);
      this.#waiting.delete(data.id);
      if (data.error === undefined) waiting?.resolve(data.answer);
      else waiting?.reject(new WorkerError(data.error, data.code));
    });
    worker.addEventListener("error", ({ message }) => {
      const why = message ?? "it could not be started; run `npm run build` once";
      this.#reject(new WorkerError(`The model's worker: ${why}`, this.#isStarted ? "DeviceLost" : undefined));
    });
  }

  /** @param {WorkerError} error */
  #reject(error) {
    this.#ended = error;
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }

  /**
   * Calls a method of the worker.
   * @param {string} method
   * @param {...unknown} args
   * @returns {Promise<any>}
   */
  ask(method, ...args) {
    if (this.#ended) return Promise.reject(this.#ended);
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#worker.postMessage({ id, method, args });
    });
  }

  /** Ends the work that is under way. */
  stop() {
    this.#worker.postMessage({ stop: true });
  }

  /** Ends the worker, with all that it holds. */
  end() {
    this.#worker.terminate();
    this.#reject(new WorkerError("The model's worker was ended."));
  }
}
