// Tests gradients, detached tensors, and a training step as a program.

import { check, close, refuses, same, test } from "./harness.js";

const all = async (tensor) => [...(await tensor.read())];

test("gradients of a number", async ({ device }) => {
  const w = device.tensor([1, -2, 3]);
  const b = device.tensor(0.5);
  const loss = w.square().sum().mul(b);
  const [byW, byB, byOther] = loss.grad([w, b, device.ones([2])]);
  device.batch().add(loss).add(byW).add(byB).run();
  same(await all(byW), [1, -2, 3]);
  same(await all(byB), [14]);
  same(await all(byOther), [0, 0]);
  same([...byW.shape, byW.dtype], [3, "f32"]);
  same(loss.grad([]), []);
});

test("gradients with a seed, after reading, and twice", async ({ device }) => {
  const x = device.tensor([1, 2]);
  const y = x.square().mul(x);
  same(await all(y), [1, 8]);
  const [first] = y.grad([x], device.tensor([10, 100]));
  same(await all(first), [30, 1200]);
  same(await all(first.sum().grad([x])[0]), [60, 1200]);
});

test("detached tensors are constants", async ({ device }) => {
  const x = device.tensor([2, 3]);
  const constant = x.exp().detach();
  close(await all(constant), [Math.exp(2), Math.exp(3)]);
  close(await all(x.mul(constant).sum().grad([x])[0]), [Math.exp(2), Math.exp(3)]);
});

test("checkpoints have the same gradients, and keep less until then", async ({ device, Device }) => {
  const x = device.tensor([0.5, -1, 2]);
  const w = device.tensor(3);
  const part = (x) => x.mul(w).sin().exp();
  const y = x.checkpoint((x) => part(x).checkpoint(part)).sum();
  const inner = [0.5, -1, 2].map((x) => Math.exp(Math.sin(3 * x)));
  close(await y.item(), inner.reduce((sum, z) => sum + Math.exp(Math.sin(3 * z)), 0));
  const slopes = [0.5, -1, 2].map((x, n) => {
    const z = inner[n];
    return 9 * Math.exp(Math.sin(3 * z)) * Math.cos(3 * z) * z * Math.cos(3 * x);
  });
  close(await all(y.grad([x])[0]), slopes);
  // A deep net, in parts or as a whole. Only the intermediate tensors of one part are in memory at a time.
  const weights = Array.from({ length: 24 }, (_, n) => device.uniform([64, 64], { low: -0.2, high: 0.2, seed: n }));
  const layer = (x, w) => x.matmul(w).tanh();
  const parts = [0, 6, 12, 18].map((at) => weights.slice(at, at + 6));
  const nets = [
    (x) => weights.reduce(layer, x),
    (x) => parts.reduce((x, some) => x.checkpoint((x) => some.reduce(layer, x)), x),
  ];
  await device.synchronize();
  const seen = [];
  for (const net of nets) {
    const input = device.uniform([512, 64], { seed: 9 });
    const [gradient] = device.scope(() => net(input).sum().grad([input]));
    const { bytes } = device.batch().add(gradient).plan();
    seen.push({ gradient: await all(gradient), bytes });
  }
  close(seen[1].gradient, seen[0].gradient);
  check(seen[1].bytes < 0.7 * seen[0].bytes, `${seen[1].bytes} bytes and ${seen[0].bytes}`);
  refuses("InvalidArgument", "checkpoint: the function must return one tensor, got 2", () => x.checkpoint((x) => [x.exp(), x]));
  refuses("InvalidArgument", "checkpoint", () => x.checkpoint());
  refuses("InvalidArgument", "checkpoint", () => x.checkpoint(() => 1));
  refuses("InvalidArgument", "checkpoint", () => x.checkpoint(async (x) => x.exp()));
  const other = await Device.new({ prefer: "cpu" });
  refuses("InvalidArgument", "checkpoint", () => x.checkpoint(() => other.ones([3])));
  other.dispose();
});

test("gradients that are refused", async ({ device }) => {
  const x = device.tensor([1, 2]);
  refuses("Shape", "grad", () => x.exp().grad([x]));
  refuses("DType", "grad", () => x.sum().grad([device.tensor([1], [1], "i32")]));
  refuses("Shape", "grad", () => x.grad([x], device.ones([3])));
  refuses("InvalidArgument", "grad", () => x.sum().grad(x));
  refuses("InvalidArgument", "grad", () => x.sum().grad([3]));
  refuses("InvalidArgument", "grad", () => x.sum().grad([x], 1));
  const gone = device.tensor([1]);
  gone.dispose();
  refuses("InvalidState", "grad", () => x.sum().grad([gone]));
  const middle = x.square();
  middle.run();
  const loss = middle.sum();
  loss.run();
  middle.dispose();
  same([...(await loss.grad([x])[0].read())], [2, 4], "a gradient through a tensor that was disposed of");
  device.trim(); // Ends the history of tensors that were dropped.
  refuses("InvalidState", "grad", () => loss.grad([x]));
});

test("a training step is compiled once", async ({ device }) => {
  const f32 = (...shape) => ({ shape });
  const program = device.compile([f32(2, 8), f32(8), f32(8, 1), f32(16, 2), f32(16, 1)], (w, b, v, x, y) => {
    const loss = x.matmul(w).add(b).tanh().matmul(v).sub(y).square().mean();
    const weights = [w, b, v];
    const steps = loss.grad(weights).map((gradient, i) => weights[i].sub(gradient.mul(0.2)));
    return [loss, ...steps];
  });
  const x = device.uniform([16, 2], { seed: 1 });
  const y = x.sum(1, { keepdim: true }).sin();
  let weights = [device.normal([2, 8], { seed: 2 }), device.zeros([8]), device.normal([8, 1], { seed: 3 })];
  const step = async () => {
    const [loss, ...next] = program.run(...weights, x, y);
    weights.forEach((weight) => weight.dispose());
    weights = next;
    const value = await loss.item();
    loss.dispose();
    return value;
  };
  const first = await step();
  for (let n = 0; n < 70; n++) await step(); // The history of the first weights is gone.
  const before = device.stats();
  for (let n = 0; n < 30; n++) await step();
  const last = await step();
  const after = device.stats();
  const more = ["plans", "pipelines", "buffers", "nodes"].map((name) => after[name] - before[name]);
  more[3] = Math.max(more[3], 0); // Tensors of earlier cases may be collected meanwhile.
  same(more, [0, 0, 0, 0], "new plans, pipelines, buffers and nodes");
  check(last < 0.3 * first, `the loss went from ${first} to ${last}`);
});

test("gradients add up until they are taken", async ({ device, Variable }) => {
  const w = new Variable(device.tensor([3, -1]));
  check(w.takeGradient() === undefined, "a gradient before there is one");
  for (let n = 0; n < 2; n++) device.scope(() => w.value.square().sum().backward([w]));
  const gradient = w.takeGradient();
  same([...(await gradient.read())], [12, -4], "the gradient, twice");
  check(w.takeGradient() === undefined, "it was not taken");
  const { value } = w;
  check(value === w.value, "the value is another object each time");
  value.sum().backward([w]);
  w.dispose();
  check(value.disposed && w.disposed, "it was not disposed");
  refuses("InvalidState", "value", () => w.value);
});

test("a cache is computed at each submission", async ({ device, Variable }) => {
  const cache = new Variable(device.zeros([4]));
  for (let n = 0; n < 6; n++) {
    const here = device.iota([4], 0).eq(device.tensor(new Int32Array([n % 4]), []));
    cache.assign(here.where(device.tensor([n]), cache.value));
    const sum = cache.value.sum();
    const before = device.stats().submits;
    device.submit();
    same(await sum.item(), [0, 1, 3, 6, 10, 14][n], `step ${n}`);
    check(device.stats().submits === before + 1, `submissions of step ${n}`);
  }
  same([...(await cache.value.read())], [4, 5, 2, 3], "the cache");
});

test("a cache is written in place", async ({ device, Variable }) => {
  const cache = new Variable(device.zeros([4]));
  let buffers;
  for (let n = 0; n < 12; n++) {
    device.scope(() => cache.assignSlice(0, n % 4, device.tensor([n])));
    device.submit();
    check(cache.value === cache.value, "the value is one object");
    if (n === 6) buffers = device.stats().buffers;
  }
  same(device.stats().buffers, buffers, "buffers");
  same([...(await cache.value.read())], [8, 9, 10, 11], "the cache");
  refuses("Shape", "assignSlice", () => cache.assignSlice(0, 4, device.tensor([1])));
  refuses("InvalidArgument", "assignSlice", () => cache.assignSlice(0, 0, 1));
});

test("variables learn, one submission a step", async ({ device, Variable }) => {
  const w = new Variable(device.tensor([3, -2]));
  const step = () => {
    const loss = w.value.sub(device.tensor([1, 1])).square().sum();
    const [gradient] = loss.grad([w.value]);
    w.assign(w.value.sub(gradient.mul(0.1)));
    device.submit();
  };
  step();
  step();
  const before = device.stats();
  for (let n = 0; n < 40; n++) device.scope(step);
  const after = device.stats();
  same([after.submits - before.submits, after.plans, after.pipelines], [40, before.plans, before.pipelines]);
  const [a, b] = await w.value.read();
  check(Math.abs(a - 1) < 1e-3 && Math.abs(b - 1) < 1e-3, `it learned ${a}, ${b}`);
  refuses("Shape", "assign", () => w.assign(device.zeros([3])));
  refuses("DType", "assign", () => w.assign(device.full([2], 1, { dtype: "i32" })));
  refuses("InvalidArgument", "assign", () => w.assign(1));
  refuses("InvalidArgument", "variable", () => new Variable([1]));
  refuses("InvalidArgument", "backward", () => device.tensor([1]).sum().backward(3));
  refuses("InvalidArgument", "backward", () => device.tensor([1]).sum().backward([device.tensor([1])]));
  refuses("Shape", "backward", () => device.tensor([1, 2]).backward([new Variable(device.tensor([1]))]));
  w.dispose();
});
