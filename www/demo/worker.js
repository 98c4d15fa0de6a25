// The CPU's engine of the demo in a worker, so that the page stays responsive while it computes.

import { Engine } from "./engine.js";

/** @type {Promise<Engine> | undefined} */
let engine;

self.addEventListener("message", async ({ data: { id, method, args } }) => {
  try {
    engine ??= Engine.open("cpu");
    const answer = await /** @type {any} */ (await engine)[method](...args);
    self.postMessage({ id, answer });
  } catch (error) {
    self.postMessage({ id, error: error instanceof Error ? error.message : String(error) });
  }
});
