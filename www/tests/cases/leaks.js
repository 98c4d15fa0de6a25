// Tests that ten thousand short-lived tensors leave nothing behind. They are freed at the end of a block, or by the garbage
// collector, which needs --js-flags=--expose-gc.

import { check, same, test } from "./harness.js";

const COUNT = 10_000;

/** The counters of created objects, which must stay constant in a loop after its first steps. */
const made = ({ plans, pipelines, buffers, bindGroups, bytes }) => ({ plans, pipelines, buffers, bindGroups, bytes });

/**
 * Checks that there are no more nodes and used bytes than before. There may be fewer, because tensors of other tests may be
 * collected meanwhile.
 */
function notMore(now, before, when) {
  check(now.nodes <= before.nodes, `${now.nodes} nodes ${when}, ${before.nodes} before`);
  check(now.usedBytes <= before.usedBytes, `${now.usedBytes} bytes in use ${when}, ${before.usedBytes} before`);
}

/** Runs a step with tensors that are freed at the end of the block: one uploaded, one recorded, one computed. */
function step(device, data, n) {
  using x = device.tensor(data);
  using y = x.mul(n);
  using z = y.add(x);
  z.run();
}

test("ten thousand tensors freed at the end of a block", async ({ device }) => {
  const data = new Float32Array(256).fill(1);
  let settled;
  for (let n = 0; n < COUNT; n++) {
    step(device, data, n);
    if (n % 500 === 499) await device.synchronize();
    if (n === 499) settled = device.stats();
  }
  await device.synchronize();
  same(made(device.stats()), made(settled), "what was made after ten thousand steps and after five hundred");
  notMore(device.stats(), settled, "at the end");
});

/** Returns the statistics after the garbage collector has found everything, or once they are at most `most`. */
async function collected(device, most) {
  const gc = globalThis.gc;
  check(typeof gc === "function", "start the browser with --js-flags=--expose-gc");
  const there = () => device.stats().nodes + device.stats().usedBytes;
  for (let tries = 0; tries < 100 && there() > most; tries++) {
    gc();
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  return device.stats();
}

test("ten thousand tensors that are let go", async ({ device }) => {
  const data = new Float32Array(256).fill(1);
  // Collects the tensors of other tests first, so that they do not count. Tries a hundred times.
  const before = await collected(device, 0);
  const most = before.nodes + before.usedBytes;
  let settled;
  for (let n = 0; n < COUNT / 2; n++) {
    device.tensor(data).add(n).run();
    if (n % 500 !== 499) continue;
    if (n === 499) check(device.stats().nodes > before.nodes, "nothing was there to collect");
    const now = await collected(device, most);
    settled ??= now;
    notMore(now, before, `after step ${n}`);
    same([now.plans, now.pipelines], [settled.plans, settled.pipelines], `plans and pipelines after step ${n}`);
    // The peak depends on when the browser collects. It is at most one round's memory.
    check(now.bytes <= before.bytes + 2 * 500 * 1024, `${now.bytes} bytes after step ${n}, ${before.bytes} before`);
  }
});

/** Trains with a loss function that holds the trainer, as in real pages. */
async function trainOnce({ device, Generator, Layer, Optimizer, Trainer }) {
  const model = Layer.linear(new Generator(device, 1), 8, 8);
  const x = device.ones([32, 8]);
  const forward = (x, y) => model.forward(x).mseLoss(y).add(0 * trainer.steps);
  const trainer = new Trainer(model, Optimizer.adam(model), [x, x], forward, { batchSize: 8, validation: [[x, x]] });
  for await (const { step } of trainer) if (step === 2) break;
}

test("trainers that are let go", async (context) => {
  const { device } = context;
  await trainOnce(context);
  const before = await collected(device, 0);
  for (let n = 0; n < 20; n++) await trainOnce(context);
  await device.synchronize();
  check(device.stats().nodes > before.nodes, "nothing was there to collect");
  notMore(await collected(device, before.nodes + before.usedBytes), before, "after twenty trainings");
});

test("a parameter that was looked at once keeps no old value", async ({ device, Optimizer, Variable }) => {
  const w = new Variable(device.zeros([1 << 16]));
  const optimizer = Optimizer.sgd([w], { lr: 0.5 });
  const step = async () => {
    device.scope(() => optimizer.minimize(w.value.sum()));
    await device.synchronize();
  };
  await step();
  const before = await collected(device, 0);
  (() => check(w.value.shape[0] === 1 << 16))();
  await step();
  check(device.stats().usedBytes >= before.usedBytes + (1 << 18), "the value before was not there");
  const after = await collected(device, before.nodes + before.usedBytes);
  notMore(after, before, "after a collection");
  same([...(await w.value.slice(0, 0, 2).read())], [-1, -1], "the value of now");
});
