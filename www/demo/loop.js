// Training that leaves the page awake: a few steps, then a look at what came of them, then the browser's turn.

import { byId, latest } from "./dom.js";

/**
 * @import { Tensor } from "../dist/nn.js"
 * @typedef {{
 *   step: () => Tensor | undefined,
 *   show: (loss: number | undefined, now: boolean) => Promise<void>,
 *   reset: () => void | Promise<void>,
 *   failed: (error: unknown) => void,
 * }} Work
 */

/** How long steps are recorded before the browser has its turn, in milliseconds. */
const budget = 12;

/**
 * Connects the buttons `#start`, `#once` and `#reset`, and the list `#speed` of steps per second. All work on the device is
 * done in turns, one at a time: nothing changes the net in the middle of a step.
 */
export class Loop {
  /** Whether it trains. */
  running = false;
  /** Steps since the last reset. */
  steps = 0;
  #work;
  /** @type {Promise<unknown>} */
  #last = Promise.resolve();
  /** What may ask for turns yet. @type {ReturnType<typeof latest>[]} */
  #latest = [];
  /** Steps that are due, and when that was found. */
  #due = 0;
  #before = 0;
  #rounds = false;
  /** The speed of late: steps, and since when they are counted. */
  #counted = { steps: 0, since: 0 };
  #start = byId("start", HTMLButtonElement);
  #speed = byId("speed", HTMLSelectElement);

  /**
   * @param {Work} work records a step and returns its loss, if there is something to learn; shows what was learnt, `now` or
   * when it is time; makes a new net; hears of errors.
   */
  constructor(work) {
    this.#work = work;
    this.#start.addEventListener("click", () => void (this.running ? this.pause() : this.start()));
    byId("once", HTMLButtonElement).addEventListener("click", () => void this.once());
    byId("reset", HTMLButtonElement).addEventListener("click", () => void this.reset());
  }

  /**
   * Does something when what was begun before has ended. Resolves when it is done; errors are told.
   * @param {() => unknown} work
   */
  turn(work) {
    const failed = (/** @type {unknown} */ error) => {
      this.#mark(false);
      this.#work.failed(error);
    };
    return (this.#last = this.#last.then(work).catch(failed));
  }

  /**
   * The same as `latest`, which `idle` waits for, too.
   * @param {() => Promise<unknown>} work
   */
  latest(work) {
    const ask = latest(work);
    this.#latest.push(ask);
    return ask;
  }

  /** Resolves when all that was asked for is done. */
  async idle() {
    await Promise.all(this.#latest.map((ask) => ask.idle()));
    await this.turn(() => undefined);
  }

  start() {
    if (this.running) return;
    this.#mark(true);
    [this.#due, this.#before] = [0, performance.now()];
    this.#counted = { steps: this.steps, since: performance.now() };
    // Whoever pauses and starts again at once finds the rounds still going.
    if (this.#rounds) return;
    this.#rounds = true;
    const round = async () => {
      await this.turn(() => this.#round());
      this.#rounds = this.running;
      if (this.running) requestAnimationFrame(round);
    };
    requestAnimationFrame(round);
  }

  /** Resolves when the last step that was begun is shown. */
  pause() {
    this.#mark(false);
    return this.turn(() => this.#work.show(undefined, true));
  }

  /** One step. */
  once() {
    this.#mark(false);
    return this.turn(() => this.#take(1, true));
  }

  /** A new net. */
  reset() {
    return this.turn(async () => {
      this.steps = 0;
      this.#counted = { steps: 0, since: performance.now() };
      await this.#work.reset();
      await this.#work.show(undefined, true);
    });
  }

  /** As many steps as are due since the last round, or as there is time for: what is left then is let go. */
  async #round() {
    const now = performance.now();
    this.#due += (Number(this.#speed.value) * (now - this.#before)) / 1000;
    this.#before = now;
    if (!this.running || this.#due < 1) return;
    await this.#take(this.#due, false);
    this.#due %= 1;
    const seconds = (performance.now() - this.#counted.since) / 1000;
    if (seconds < 1 || !this.running) return;
    const rate = (this.steps - this.#counted.steps) / seconds;
    byId("rate", HTMLElement).textContent = `${rate < 10 ? rate.toFixed(1) : Math.round(rate)} per second`;
    this.#counted = { steps: this.steps, since: performance.now() };
  }

  /**
   * Takes at most so many steps. Only the last loss is read; waiting for it lets the device catch up.
   * @param {number} most
   * @param {boolean} now
   */
  async #take(most, now) {
    const end = performance.now() + budget;
    /** @type {Tensor | undefined} */
    let loss;
    for (let n = 0; n + 1 <= most && (n === 0 || performance.now() < end); n++) {
      loss?.dispose();
      loss = this.#work.step();
      if (!loss) break;
      this.steps += 1;
    }
    const value = await loss?.item();
    loss?.dispose();
    byId("steps", HTMLElement).textContent = this.steps.toLocaleString("en");
    await this.#work.show(value, now);
  }

  /** @param {boolean} running */
  #mark(running) {
    this.running = running;
    this.#start.textContent = running ? "Pause" : "Start";
    this.#start.setAttribute("aria-pressed", `${running}`);
    if (!running) byId("rate", HTMLElement).textContent = "";
  }
}
