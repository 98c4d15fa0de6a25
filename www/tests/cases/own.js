// Tests that results are separate objects. Any function from tensor to tensor returns a new object, even if the values are the
// same. Disposing of the result leaves the argument valid, and the other way round.

import { check, refuses, rejects, same, test } from "./harness.js";

const VALUES = [1, 2, 3, 4];
const all = async (tensor) => [...(await tensor.read())];

/** Operations that may change nothing. */
const operations = {
  reshape: (x) => x.reshape([2, 2]),
  expand: (x) => x.expand([2, 2]),
  cast: (x) => x.cast("f32"),
  detach: (x) => x.detach(),
  permute: (x) => x.permute([0, 1]),
  squeeze: (x) => x.squeeze(),
  flatten: (x) => x.flatten(1, 1),
  slice: (x) => x.slice(0),
  flip: (x) => x.flip([]),
  pad: (x) => x.pad([[0, 0], [0, 0]]),
  tile: (x) => x.tile([1, 1]),
  clamp: (x) => x.clamp(),
  add: (x) => x.add(0),
  concat: (x, { Tensor }) => Tensor.concat([x], 0),
  einsum: (x, { Tensor }) => Tensor.einsum("ij->ij", [x]),
  meshgrid: (x, { Tensor }) => Tensor.meshgrid([x.flatten()])[0].reshape([2, 2]),
  seed: (x) => x.add(0).grad([x], x)[0],
  to: (x, { device }) => x.to(device),
};

/** Functions that call a user's function. */
const calls = {
  checkpoint: (x) => x.checkpoint((h) => h),
  "checkpoint of a checkpoint": (x) => x.checkpoint((h) => h.checkpoint((h) => h)),
  program: (x, { device }) => device.compile([{ shape: [2, 2] }], (x) => x).run(x)[0],
  "program with named axes": (x, { device }) => device.compile([{ shape: ["n", 2] }], (x) => x).run(x)[0],
  "program that uses it": (x, { device }) => device.compile([], () => x).run()[0],
  "element function": async (x, { device }) => {
    const source = "fn itself(x: f32) -> f32 { return x; }";
    return (await device.elementFunction(source, { fallback: (x) => x })).call(x);
  },
};

/** Layers and modules that return their input. */
const layers = {
  "Sequential of nothing": (x, { Sequential }) => new Sequential().forward(x),
  "Sequential of a function": (x, { Sequential }) => new Sequential((x) => x).forward(x),
  "Sequential of a Sequential": (x, { Sequential }) => new Sequential(new Sequential(), (x) => x).forward(x),
  "Sequential of a module": (x, { Module, Sequential }) => {
    class Itself extends Module {
      forward(x) {
        return x;
      }
    }
    return new Sequential(new Itself()).forward(x);
  },
  "Sequential that gives another tensor": (x, { device, Sequential }) => new Sequential(() => x).forward(device.ones([1])),
  dropout: (x, { device, Generator, Layer }) => Layer.dropout(new Generator(device, 1), 0).forward(x),
  "dropout that evaluates": (x, { device, Generator, Layer }) => Layer.dropout(new Generator(device, 1)).eval().forward(x),
  scaleLoss: (x, { device, Optimizer, Variable }) => {
    const loss = x.sum();
    const scaled = Optimizer.sgd([new Variable(device.ones([1]))]).scaleLoss(loss);
    loss.dispose();
    return scaled.add(x.sub(10));
  },
};

for (const [name, make] of Object.entries({ ...operations, ...calls, ...layers })) {
  test(`a result is an object of its own: ${name}`, async (context) => {
    const { device } = context;
    const fresh = () => device.tensor(VALUES, [2, 2]);
    const [x, y] = [fresh(), fresh()];
    const wanted = name === "seed" || name === "scaleLoss" ? await all(await make(fresh(), context)) : VALUES;
    const result = await make(x, context);
    check(result !== x, "it is the argument itself");
    result.dispose();
    check(!x.disposed, "the argument is disposed of with the result");
    same(await all(x), VALUES, "the argument, after the result was disposed of");
    const other = await make(y, context);
    y.dispose();
    check(!other.disposed, "the result is disposed of with the argument");
    same(await all(other), wanted, "the result, after the argument was disposed of");
  });
}

test("gradients pass a result that is its argument", async ({ device, Sequential }) => {
  const x = device.tensor(VALUES);
  for (const make of [(x) => x.checkpoint((h) => h), (x) => new Sequential().forward(x)]) {
    const y = make(x);
    same(await all(y.square().sum().grad([x])[0]), [2, 4, 6, 8], "by the argument");
  }
});

test("a checkpoint that gives what it did not make leaves that to its owner", async ({ device, Variable }) => {
  const [x, w] = [device.tensor([1, 2]), device.tensor([3, 4])];
  const y = x.checkpoint(() => w);
  y.dispose();
  same(await all(w), [3, 4], "the other tensor");
  const v = new Variable(device.tensor([5, 6]));
  x.checkpoint(() => v.value).dispose();
  check(!v.value.disposed, "the variable's value is disposed of");
  let kept;
  const z = x.checkpoint((x) => (kept = x.add(1)));
  check(kept.disposed, "what is made on the way is disposed of");
  same(await all(z), [2, 3]);
});

test("two variables that were given one object", async ({ device, Optimizer, Variable }) => {
  const shared = device.tensor(VALUES);
  const [a, b] = [new Variable(shared), new Variable(shared)];
  const c = new Variable(device.tensor(VALUES));
  c.assign(a.value);
  const values = [b.value, c.value];
  a.assign(device.ones([4]));
  check(shared.disposed, "the object is the first variable's");
  check(values.every(({ disposed }) => !disposed), "what the others have given out is disposed of");
  same(await all(values[0].add(values[1])), [2, 4, 6, 8], "the values of the others");
  c.assign(b.value);
  const { value } = c;
  Optimizer.sgd([b], { lr: 1 }).minimize(b.value.sum());
  same(await all(b.value), [0, 1, 2, 3], "after a step of one");
  check(!value.disposed, "what the other has given out is disposed of");
  same(await all(c.value), VALUES, "the value of the other");
  c.assign(c.value);
  same(await all(c.value), VALUES, "a variable that is assigned its own value");
});

test("a trainer whose function gives its inputs as predictions", async ({ device, Generator, Layer, Optimizer, Trainer }) => {
  const model = Layer.linear(new Generator(device, 1), 2, 1);
  const [x, y] = [device.tensor(VALUES, [2, 2]), device.ones([2, 1])];
  const forward = (x, y) => [model.forward(x).sub(y).square().mean(), y];
  const options = { metrics: ["meanSquaredError"], validation: [[x, y]], epochs: 2 };
  const trainer = new Trainer(model, Optimizer.sgd(model, { lr: 0.01 }), [[x, y]], forward, options);
  await trainer.fit();
  same(trainer.history.map(({ validation }) => validation.metrics.meanSquaredError), [0, 0], "the error of the targets");
  const { metrics } = await trainer.evaluate([x, y]);
  same(metrics.meanSquaredError, 0);
  trainer.dispose();
  check(!x.disposed && !y.disposed, "the data are disposed of");
  same(await all(x), VALUES);
});

test("what a function gives is what a scope and a profile give", async ({ device }) => {
  const x = device.tensor(VALUES);
  // These return any value unchanged, also one that is not a tensor. A tensor from outside is the same object.
  check(device.scope(() => x) === x && !x.disposed, "a scope");
  const { value } = await device.profile(() => x);
  check(value === x && !x.disposed, "a profile");
  same(device.scope(() => 3), 3);
});

test("functions that must not be asynchronous", async ({ device, Generator, Layer, Optimizer, Sequential, Trainer }) => {
  const x = device.tensor(VALUES, [2, 2]);
  // A rejected promise without a handler ends a Node process.
  const unhandled = [];
  const onUnhandled = (event) => unhandled.push(String(event?.reason ?? event));
  if (globalThis.process?.on) process.on("unhandledRejection", onUnhandled);
  else addEventListener("unhandledrejection", onUnhandled);
  const late = async () => {
    await undefined;
    throw new RangeError("after the scope");
  };
  const thenable = () => ({ then: (_, reject) => reject(new RangeError("of a thenable")) });
  for (const work of [late, thenable]) {
    refuses("InvalidArgument", "scope: the function must not be async, got a promise", () => device.scope(work));
    refuses("InvalidArgument", "checkpoint: the function must not be async, got a promise", () => x.checkpoint(work));
    refuses("InvalidArgument", "compile: the function must not be async, got a promise", () => device.compile([], work));
    refuses("InvalidArgument", "forward: part 0 must not be async, got a promise", () => new Sequential(work).forward(x));
    const model = Layer.linear(new Generator(device, 1), 2, 1);
    const trainer = new Trainer(model, Optimizer.sgd(model), [x, x], work);
    await rejects("InvalidArgument", "train: the function must not be async, got a promise", () => trainer.fit());
    if (device.info.backend !== "cpu") continue;
    const itself = await device.elementFunction("fn itself(x: f32) -> f32 { return x; }", { fallback: work });
    refuses("InvalidArgument", "elementFunction: the function must not be async, got a promise", () => itself.call(x));
  }
  await new Promise((resolve) => setTimeout(resolve, 20));
  if (globalThis.process?.off) process.off("unhandledRejection", onUnhandled);
  else removeEventListener("unhandledrejection", onUnhandled);
  same(unhandled, [], "rejections that nobody handles");
});

test("a drawing of what gradients do not pass", async ({ device }) => {
  // A shader without a gradient, because no gradient is taken here.
  const shader = await device.shader(
    `@group(0) @binding(1) var<storage, read> x: array<f32>;
     @group(0) @binding(2) var<storage, read_write> y: array<f32>;
     @compute @workgroup_size(1) fn main() { y[0] = 2.0 * x[0]; }`,
    { fallback: ({ x }) => ({ y: device.compile([{ shape: [1] }], (x) => x.mul(2)).run(x)[0] }) },
  );
  const [a, b] = [device.tensor([3]), device.tensor([4])];
  const { y } = shader.run({ inputs: { x: a }, outputs: { y: [1] }, workgroups: [1] });
  const loss = y.mul(b);
  const { dot } = await loss.graph({ a, b });
  check(/b\\nf32 \[1\]\\nvalue 4\\ngradient 6/.test(dot), `the gradient by b: ${dot}`);
  check(dot.includes("value 24\\ngradient 1"), `the tensor itself: ${dot}`);
});

test("a drawing leaves gradients as they are", async ({ device, Variable }) => {
  const w = new Variable(device.tensor([1, 2, 3]));
  const loss = w.value.square().mean().mul(3);
  for (let n = 0; n < 3; n++) await loss.graph();
  same(await all(loss.grad([w.value])[0]), [2, 4, 6], "the gradient after three drawings");
});

test("a function in place of another has its shape and its type", async ({ device }) => {
  if (device.info.backend !== "cpu") return;
  const x = device.tensor(VALUES, [2, 2]);
  const source = "fn itself(x: f32) -> f32 { return x; }";
  const wrong = {
    Shape: ["itself: the fallback must return shape [2, 2], got [4]", (x) => x.flatten()],
    DType: ["itself: the fallback must return f32, got i32", (x) => x.cast("i32")],
  };
  for (const [code, [message, fallback]] of Object.entries(wrong)) {
    const itself = await device.elementFunction(source, { fallback });
    refuses(code, message, () => itself.call(x));
  }
  const whole = await device.elementFunction("fn whole(x: f32, y: f32) -> i32 { return i32(x + y); }", {
    fallback: (x, y) => x.add(y).cast("i32"),
  });
  const sum = whole.call(x, device.tensor([[10], [20]]));
  same([sum.dtype, sum.shape, await all(sum)], ["i32", [2, 2], [11, 12, 23, 24]]);
});
