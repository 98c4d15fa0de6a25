// Ten thousand tensors that come and go leave nothing behind: freed at the end of a block, and found by the garbage
// collector, which needs --js-flags=--expose-gc.

import { check, same, test } from "./harness.js";

const COUNT = 10_000;

/** What must not grow once a loop has settled. */
const lasting = ({ plans, pipelines, buffers, bindGroups, bytes, usedBytes, nodes }) =>
  ({ plans, pipelines, buffers, bindGroups, bytes, usedBytes, nodes });

/** A step of tensors that are freed at the end of the block: one uploaded, one recorded, one computed. */
function step(device, data, n) {
  using x = device.tensor(data);
  using y = x.mul(n);
  using z = y.add(x);
  z.run();
}

test("ten thousand tensors freed at the end of a block", async ({ device }) => {
  const data = new Float32Array(256).fill(1);
  let settled;
  for (let n = 0; n < COUNT / 2; n++) {
    step(device, data, n);
    if (n % 500 === 499) await device.sync();
    if (n === 499) settled = lasting(device.stats());
  }
  await device.sync();
  same(lasting(device.stats()), settled, "what is there after ten thousand tensors and after a thousand");
});

test("ten thousand tensors that are let go", async ({ device }) => {
  const gc = globalThis.gc;
  check(typeof gc === "function", "start the browser with --js-flags=--expose-gc");
  const data = new Float32Array(256).fill(1);
  const before = device.stats();
  const collected = async () => {
    for (let tries = 0; tries < 100 && device.stats().nodes > before.nodes; tries++) {
      gc();
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    return lasting(device.stats());
  };
  let settled;
  for (let n = 0; n < COUNT / 2; n++) {
    device.tensor(data).add(n).run();
    if (n % 500 !== 499) continue;
    if (n === 499) check(device.stats().nodes > before.nodes, "nothing was there to collect");
    const now = await collected();
    settled ??= now;
    same([now.nodes, now.usedBytes], [before.nodes, before.usedBytes], `nodes and bytes in use after step ${n}`);
    same([now.plans, now.pipelines], [settled.plans, settled.pipelines], `plans and pipelines after step ${n}`);
    // How many are there at once depends on when the collector comes by itself: no more than one round's.
    check(now.bytes <= before.bytes + 2 * 500 * 1024, `${now.bytes} bytes after step ${n}, ${before.bytes} before`);
  }
});
