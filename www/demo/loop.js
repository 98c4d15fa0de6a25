// A training loop that keeps the page responsive: a few steps, then their results, then the browser's turn.

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

/** The time for steps before the browser gets its turn, in milliseconds. */
const budget = 12;

/**
 * Connects the buttons `#start`, `#once` and `#reset`, and the list `#speed` of steps per second. All work on the device runs
 * in turns, one at a time. The net therefore cannot change in the middle of a step.
 */
export class Loop {
  /** Whether the training runs. */
  running = false;
  /** The number of steps since the last reset. */
  steps = 0;
  #work;
  /** @type {Promise<unknown>} */
  #last = Promise.resolve();
  /** The functions that may still request turns. @type {ReturnType<typeof latest>[]} */
  #latest = [];
  /** The number of steps that are due, and the time when it was computed. */
  #due = 0;
  #before = 0;
  #rounds = false;
  /** For the recent speed: the steps at the start of the measurement, and its start time. */
  #counted = { steps: 0, since: 0 };
  #start = byId("start", HTMLButtonElement);
  #speed = byId("speed", HTMLSelectElement);

  /**
   * @param {Work} work `step` records a step and returns its loss, or undefined without data. `show` shows the results, at once
   * if `now`. `reset` makes a new net. `failed` receives errors.
   */
  constructor(work) {
    this.#work = work;
    this.#start.addEventListener("click", () => void (this.running ? this.pause() : this.start()));
    byId("once", HTMLButtonElement).addEventListener("click", () => void this.once());
    byId("reset", HTMLButtonElement).addEventListener("click", () => void this.reset());
  }

  /**
   * Runs `work` after all earlier turns. Resolves when it is done. Errors are reported.
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
   * Wraps work like `latest` of `dom.js`. `idle` waits for this work, too.
   * @param {() => Promise<unknown>} work
   */
  latest(work) {
    const ask = latest(work);
    this.#latest.push(ask);
    return ask;
  }

  /** Resolves when all requested work is done. */
  async idle() {
    await Promise.all(this.#latest.map((ask) => ask.idle()));
    await this.turn(() => undefined);
  }

  start() {
    if (this.running) return;
    this.#mark(true);
    [this.#due, this.#before] = [0, performance.now()];
    this.#counted = { steps: this.steps, since: performance.now() };
    // After a quick pause and restart, the rounds are still running.
    if (this.#rounds) return;
    this.#rounds = true;
    const round = async () => {
      await this.turn(() => this.#round());
      this.#rounds = this.running;
      if (this.running) requestAnimationFrame(round);
    };
    requestAnimationFrame(round);
  }

  /** Pauses the training. Resolves when the last step is shown. */
  pause() {
    this.#mark(false);
    return this.turn(() => this.#work.show(undefined, true));
  }

  /** Takes one step. */
  once() {
    this.#mark(false);
    return this.turn(() => this.#take(1, true));
  }

  /** Makes a new net. */
  reset() {
    return this.turn(async () => {
      this.steps = 0;
      this.#counted = { steps: 0, since: performance.now() };
      await this.#work.reset();
      await this.#work.show(undefined, true);
    });
  }

  /** Takes the steps that are due, as far as the time allows. The remaining steps are dropped. */
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
   * Takes at most `most` steps. Only the last loss is read, and waiting for it lets the device catch up.
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
