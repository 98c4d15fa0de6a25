// Tests freeing by hand, at the end of a block, and by the garbage collector. Needs --js-flags=--expose-gc.

import { check, refuses, rejects, same, test } from "./harness.js";

test("disposing frees at once", async ({ device }) => {
  device.trim();
  const before = device.stats();
  const x = device.tensor(new Float32Array(1 << 16));
  check(device.stats().usedBytes >= before.usedBytes + (1 << 18), "no memory is counted");
  x.dispose();
  x.dispose();
  x[Symbol.dispose]();
  same(device.stats().usedBytes, before.usedBytes, "used bytes");
  same(x.disposed, true);
  refuses("InvalidState", "add", () => x.add(1));
  refuses("InvalidState", "shape", () => x.shape);
  refuses("InvalidState", "add", () => device.ones([1]).add(x));
  refuses("InvalidState", "run", () => x.run());
  await rejects("InvalidState", "read", () => x.read());
  device.trim();
  check(device.stats().pooledBytes === 0, "trim left something");
});

test("a read survives disposing", async ({ device }) => {
  const x = device.tensor([1, 2]).mul(2);
  const read = x.read();
  x.dispose();
  same([...(await read)], [2, 4]);
});

test("forgotten tensors are freed", async ({ device }) => {
  const gc = globalThis.gc;
  check(typeof gc === "function", "start the browser with --js-flags=--expose-gc");
  const before = device.stats();
  (() => {
    for (let i = 0; i < 50; i++) device.tensor(new Float32Array(1 << 14)).add(i).run();
  })();
  check(device.stats().usedBytes > before.usedBytes, "no memory was taken");
  for (let tries = 0; tries < 50 && device.stats().nodes > before.nodes; tries++) {
    gc();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  const after = device.stats();
  check(after.nodes <= before.nodes, `${after.nodes} nodes stayed of ${before.nodes}`);
  check(after.usedBytes <= before.usedBytes, `${after.usedBytes} bytes stayed of ${before.usedBytes}`);
});

test("a disposed device takes all with it", async ({ Device, device }) => {
  const other = await Device.new({ prefer: device.info.kind === "cpu" ? "cpu" : device.info.name });
  const [x, program] = [other.ones([2]), other.compile([{ shape: [2] }], (t) => t.relu())];
  other.dispose();
  other.dispose();
  same([other.disposed, x.disposed, program.disposed], [true, true, true]);
  refuses("InvalidState", "zeros", () => other.zeros([1]));
  refuses("InvalidState", "relu", () => x.relu());
  refuses("InvalidState", "program", () => program.run(x));
  x.dispose();
  same([...(await device.ones([2]).add(1).read())], [2, 2], "the other device goes on");
});

test("operands of two devices", async ({ Device, device }) => {
  const other = await Device.new({ prefer: "cpu" });
  const [here, there] = [device.ones([2]), other.ones([2])];
  refuses("InvalidArgument", "add", () => here.add(there));
  refuses("InvalidArgument", "batch", () => device.batch().add(there));
  same([...(await here.add(await there.to(device)).read())], [2, 2]);
  same([...(await there.add(await here.mul(3).to(other)).read())], [4, 4]);
  other.dispose();
});
