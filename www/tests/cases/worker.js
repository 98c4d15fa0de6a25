// A worker that computes a product and reports its device.

import { Device } from "/dist/nn.js";

self.onmessage = async ({ data: prefer }) => {
  try {
    const device = await Device.new({ prefer });
    const x = device.tensor([[1, 2], [3, 4]]);
    const values = [...(await x.matmul(x).add(1).read())];
    device.dispose();
    postMessage({ values, kind: device.info.kind });
  } catch (error) {
    postMessage({ error: String(error?.stack ?? error) });
  }
};
