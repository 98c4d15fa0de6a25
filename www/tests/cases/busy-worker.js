// A worker with a separate device. It runs `count` steps of short-lived tensors, and reports their sum and any leftovers.

import { Device } from "/dist/nn.js";

self.onmessage = async ({ data: { prefer, scale, count } }) => {
  try {
    const device = await Device.new({ prefer });
    let sum = 0;
    let settled;
    let stats;
    for (let n = 0; n < count; n++) {
      const x = device.tensor(new Float32Array(64).fill(scale));
      const scaled = x.mul(n % 10);
      const y = scaled.sum();
      y.run();
      if (n % 100 === 99) sum += await y.item();
      for (const tensor of [x, scaled, y]) tensor.dispose();
      const { buffers, bindGroups, pipelines, plans, usedBytes, nodes } = device.stats();
      stats = { buffers, bindGroups, pipelines, plans, usedBytes, nodes };
      if (n === 199) settled = stats;
    }
    device.dispose();
    postMessage({ sum, settled, stats });
  } catch (error) {
    postMessage({ error: String(error?.stack ?? error) });
  }
};
