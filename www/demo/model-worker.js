// A worker with a model, as a page calls it. Methods return promises, and other messages are passed to a listener.

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
  /** The error that ended the worker. @type {WorkerError | undefined} */
  #ended;

  /**
   * @param {Worker} worker
   * @param {(news: any) => void} onMessage is called with messages that are not answers
   */
  constructor(worker, onMessage) {
    this.#worker = worker;
    worker.addEventListener("message", ({ data }) => {
      this.#isStarted = true;
      if (data.id === undefined) return onMessage(data);
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

  /** Aborts the work in progress. */
  stop() {
    this.#worker.postMessage({ stop: true });
  }

  /** Terminates the worker, and frees everything that it holds. */
  end() {
    this.#worker.terminate();
    this.#reject(new WorkerError("The model's worker was ended."));
  }
}
