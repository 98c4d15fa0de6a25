// Tests batches, programs, plans, and the counters.

import { check, refuses, same, test } from "./harness.js";

test("a batch is one submission", async ({ device }) => {
  const x = device.tensor([1, 2, 3]);
  const [sum, top] = [x.exp().sum(), x.max()];
  const batch = device.batch().add(sum).add(top);
  const plan = batch.plan();
  check(plan.operations >= 3 && plan.kernels === plan.labels.length && plan.bytes > 0, plan.text);
  check(plan.text.includes("kernels") && String(plan) === plan.text, plan.text);
  const sources = plan.sources();
  same(sources.length, plan.kernels);
  if (device.info.backend === "webgpu") check(sources.every((s) => s.includes("@compute")), sources.join());
  else check(sources.every((s) => s === undefined), "the CPU has no sources");
  const before = device.stats();
  batch.run();
  same(device.stats().submits - before.submits, 1, "submits");
  same(await top.item(), 3);
  check(Math.abs((await sum.item()) - (Math.exp(1) + Math.exp(2) + Math.exp(3))) < 1e-4, "the sum");
  check(device.lastPlan().text.length > 0, "there is a last plan");
});

test("several tensors are read at once", async ({ device }) => {
  const x = device.tensor([[1, -2], [3, 4]]);
  const [whole, truths] = [x.cast("i32"), x.gt(0)];
  const before = device.stats();
  const all = await device.read([x.mul(2), truths, whole, x, whole, x.sum()]);
  same(device.stats().submits - before.submits, 1, "submits");
  const kinds = all.map((array) => array.constructor.name);
  same(kinds, ["Float32Array", "Uint8Array", "Int32Array", "Float32Array", "Int32Array", "Float32Array"]);
  same(all.map((array) => [...array]), [[2, -4, 6, 8], [1, 0, 1, 1], [1, -2, 3, 4], [1, -2, 3, 4], [1, -2, 3, 4], [6]]);
  same(await device.read([]), []);
  const [none] = await device.read([device.zeros([0])]);
  same(none.length, 0);
  refuses("InvalidArgument", "read", () => device.read([x, 1]));
  refuses("InvalidArgument", "read", () => device.read(x));
});

test("caches keep what was used lately", async ({ Device, device }) => {
  const own = await Device.new({ prefer: device.info.kind === "cpu" ? "cpu" : device.info.name });
  same(own.cacheLimits().plans, 1024);
  own.setCacheLimits({ plans: 8, pipelines: 8, bindGroups: 8, pooledBytes: 4096 });
  same(own.cacheLimits().bindGroups, 8);
  same(own.cacheLimits().planBytes, 1 << 26);
  for (let n = 1; n <= 40; n++) {
    const x = own.ones([n]);
    const sum = x.mul(2).sum();
    same(await sum.item(), 2 * n);
    for (const tensor of [x, sum]) tensor.dispose();
  }
  const stats = own.stats();
  same([stats.plansHeld, stats.plans - stats.plansEvicted], [8, 8], "plans");
  same([stats.pipelinesHeld, stats.pipelines - stats.pipelinesEvicted], [8, 8], "pipelines");
  check(stats.bindGroupsHeld <= 8 && stats.pooledBytes <= 4096, JSON.stringify(stats));
  refuses("InvalidArgument", "setCacheLimits", () => own.setCacheLimits({ plan: 1 }));
  refuses("Shape", "setCacheLimits", () => own.setCacheLimits({ plans: -1 }));
  own.dispose();
});

test("a loop that holds more and more ends at the memory limit, and the device goes on", async ({ Device, device }) => {
  const own = await Device.new({ prefer: device.info.kind === "cpu" ? "cpu" : device.info.name });
  own.setMemoryLimit(1 << 20);
  same(own.memoryLimit(), 1 << 20);
  const held = [own.ones([1 << 14])];
  const refused = () => {
    for (;;) {
      const next = held.at(-1).add(1);
      own.submit();
      held.push(next);
      check(held.length < 100, JSON.stringify(own.stats()));
    }
  };
  refuses("Memory", "submit", refused);
  check(held.length > 8 && own.stats().bytes <= 1 << 20, JSON.stringify(own.stats()));
  for (const tensor of held.splice(1)) tensor.dispose();
  const sum = held[0].add(1).sum();
  same(await sum.item(), 2 ** 15);
  own.setMemoryLimit();
  const large = own.ones([1 << 20]).sum();
  same(await large.item(), 2 ** 20);
  own.dispose();
});

test("a program runs again with nothing new", async ({ device }) => {
  const weight = device.tensor([[1, 2], [3, 4]]);
  const program = device.compile([{ shape: [2, 2] }, { shape: [] }], (x, scale) => [
    x.matmul(weight).mul(scale).relu(),
    x.sum(),
  ]);
  check(program.plan.operations >= 3, program.plan.text);
  const step = async (value) => {
    const inputs = [device.full([2, 2], value), device.tensor(0.5)];
    const [y, sum] = program.run(...inputs);
    const results = [[...(await y.read())], await sum.item()];
    for (const tensor of [...inputs, y, sum]) tensor.dispose();
    return results;
  };
  same(await step(1), [[2, 3, 2, 3], 4]);
  same(await step(2), [[4, 6, 4, 6], 8]);
  const before = device.stats();
  same(await step(1), [[2, 3, 2, 3], 4]);
  const after = device.stats();
  const fresh = ["plans", "pipelines", "buffers"].map((name) => after[name] - before[name]);
  same(fresh, [0, 0, 0], "new plans, pipelines and buffers");
  program.dispose();
  same(program.disposed, true);
});

test("each run of a program draws new numbers", async ({ device }) => {
  const build = (x) => [x.dropout(0.5), device.normal([64]), device.uniform([64], { seed: 3 }), x.dropout(0.5, 3)];
  const program = device.compile([{ shape: [64] }], build);
  const x = device.ones([64]);
  const read = (results) => Promise.all(results.map(async (result) => String(await result.read())));
  const [first, second] = [await read(program.run(x)), await read(program.run(x))];
  check(first[0] !== second[0] && first[1] !== second[1], "the runs drew the same numbers");
  same(first.slice(2), second.slice(2), "with a seed");
  const [dropped] = program.run(x);
  const [slope] = dropped.sum().grad([x]);
  same(String(await slope.read()), String(await dropped.read()), "the gradient uses the numbers of its run");
  program.dispose();
});

test("a listener hears of the kernels that are compiled", async ({ Device, device }) => {
  const own = await Device.new({ prefer: device.info.kind === "cpu" ? "cpu" : device.info.name });
  const program = own.compile([{ shape: [7, 5] }], (x) => [x.matmul(x.transpose()).softmax(), x.cumsum(0), x.exp().sum()]);
  const reports = [];
  own.onCompile((progress) => reports.push(progress));
  await program.ready();
  const { pipelines } = own.stats();
  const total = own.info.backend === "webgpu" ? pipelines : 0;
  same(reports, Array.from({ length: total }, (_, n) => ({ done: n + 1, total })));
  if (own.info.backend === "webgpu") check(total > 2, `${total} kernels`);
  own.onCompile();
  const [, , sum] = program.run(own.tensor(new Float32Array(35), [7, 5]));
  same(await sum.item(), 35);
  same(own.stats().pipelines, pipelines, "pipelines");
  await own.zeros([3, 3]).cos().sum().item();
  same(reports.length, total, "reports after the end");
  refuses("InvalidArgument", "onCompile", () => own.onCompile(1));
  own.dispose();
});

test("the same operations again plan nothing", async ({ device }) => {
  const step = async (rate) => {
    const y = device.scope(() => device.tensor(new Float32Array(100).fill(1)).mul(rate).add(1).tanh());
    const [value] = await y.read();
    y.dispose();
    return value;
  };
  await step(0.1);
  await step(0.2);
  const before = device.stats();
  check(Math.abs((await step(0.3)) - Math.tanh(1.3)) < 1e-5, "the value");
  const after = device.stats();
  same([after.plans - before.plans, after.pipelines - before.pipelines, after.buffers - before.buffers], [0, 0, 0]);
});

test("a scope frees what it does not return", ({ device }) => {
  const before = device.stats().nodes;
  const x = device.ones([4]);
  const [y, inner] = device.scope(() => [x.add(1).mul(2), device.scope(() => x.neg().exp())]);
  same([x.disposed, y.disposed, inner.disposed], [false, false, false]);
  let lost;
  const own = new Error("mine");
  try {
    device.scope(() => {
      lost = x.exp();
      throw own;
    });
  } catch (error) {
    same(error === own && lost.disposed, true, "an error frees everything");
  }
  for (const tensor of [x, y, inner]) tensor.dispose();
  same(device.stats().nodes, before, "nodes");
});

test("what is left of building a program does not disturb", async ({ device }) => {
  let inside;
  const program = device.compile([{ shape: [2] }], (x) => (inside = x.add(1)).relu());
  same(inside.disposed, true, "tensors of the function are the program's");
  device.submit();
  same([...(await program.run(device.tensor([1, -3]))[0].read())], [2, 0]);
});

test("submit and synchronize", async ({ device }) => {
  const x = device.ones([4]).add(2);
  const before = device.stats().submits;
  device.submit();
  check(device.stats().submits > before, "nothing was submitted");
  await device.synchronize();
  same([...(await x.read())], [3, 3, 3, 3]);
  x.add(1).run();
});

test("programs with named axes take every length", async ({ device }) => {
  const w = device.tensor([[1, 2], [3, 4]]);
  let built = 0;
  const program = device.compile([{ shape: ["n", 2] }, { shape: [2, "n"] }], (x, y) => {
    built++;
    return [x.matmul(w).add(y.transpose()).sum(), y];
  });
  refuses("InvalidState", "program", () => program.plan);
  for (const n of [3, 5, 3, 8, 5, 1]) {
    const count = (size, first) => Float32Array.from({ length: size }, (_, i) => first + i);
    const [x, y] = [device.tensor(count(2 * n, 1), [n, 2]), device.tensor(count(2 * n, 7), [2, n])];
    const [sum, same_] = program.run(x, y);
    let want = 0;
    for (let i = 0; i < n; i++) want += 3 * (2 * i + 1) + 7 * (2 * i + 2) + 7 + 2 * i + 8 + 2 * i;
    same(await sum.item(), want, `of ${n}`);
    same(same_.shape, [2, n]);
  }
  same(built, 4, "calls of its function");
  check(program.plan.kernels > 0 && String(program).startsWith("Program: "), String(program));
  const [x, y] = [device.zeros([4, 2]), device.zeros([2, 5])];
  refuses("Shape", "program", () => program.run(x, y));
  refuses("Shape", "program", () => program.run(y, y));
  const throwing = device.compile([{ shape: ["n"] }], (x) => {
    if (x.shape[0] === 2) throw new RangeError("two");
    return x.add(1);
  });
  let error;
  try {
    throwing.run(device.zeros([2]));
  } catch (caught) {
    error = caught;
  }
  check(error instanceof RangeError && error.message === "two", `it throws what its function throws: ${error}`);
  same([...(await throwing.run(device.zeros([3]))[0].read())], [1, 1, 1]);
  refuses("InvalidArgument", "compile", () => device.compile([{ shape: ["n"] }], () => 1).run(x.reshape([8])));
});
