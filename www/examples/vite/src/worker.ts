// Runs the network in a worker, away from the page's thread.

import { runNetwork } from "./network";

self.onmessage = async ({ data: prefer }: MessageEvent) => {
  try {
    self.postMessage({ answer: await runNetwork(prefer) });
  } catch (error) {
    self.postMessage({ error: String(error) });
  }
};
