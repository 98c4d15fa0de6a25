// Tests arguments of absurd sizes, and objects at the wrong moment. Each must be rejected at once with the name of the
// operation, and the device must still work.

import { check, refuses, rejects, same, test } from "./harness.js";

const LONG = 2 ** 24;

/** Runs `work`, which must take less than two seconds: nothing may loop over a list of hundreds of millions. */
async function soon(what, work) {
  const begun = performance.now();
  await work();
  const took = performance.now() - begun;
  check(took < 2000, `${what}: ${Math.round(took)} ms`);
}

/** Returns the message of an error that is thrown, or with which a promise rejects. */
async function message(work) {
  try {
    await work();
  } catch (error) {
    return error.message;
  }
  throw new Error("was not refused");
}

test("absurd: more results than there is room for", async ({ device }) => {
  refuses("Limit", "split: ", () => device.zeros([2 ** 30]).split(1));
  refuses("Limit", "chunk: ", () => device.zeros([2 ** 30]).chunk(2 ** 30, 0));
  refuses("Limit", "unbind: ", () => device.zeros([2 ** 22]).unbind());
  refuses("Limit", "unbind: ", () => device.zeros([2 ** 30, 0]).unbind());
  refuses("Limit", "diff: ", () => device.zeros([2 ** 24]).diff(2 ** 23));
  same(await device.tensor([1, 2]).sum().item(), 3);
});

test("absurd: lists that are too long", async ({ device, Optimizer, Tensor, Variable }) => {
  const x = device.ones([2]);
  const w = new Variable(device.ones([2]));
  for (const [list, none] of [[new Array(LONG), true], [Array(LONG).fill(x), false], [Array(LONG).fill(w), false]]) {
    await rejects("Limit", `read: tensors must have at most 65536 items, got ${LONG}`, async () => device.read(list));
    refuses("Limit", "grad: ", () => x.sum().grad(list));
    refuses("Limit", "backward: ", () => x.sum().backward(list));
    refuses("Limit", "concat: ", () => Tensor.concat(list));
    refuses("Limit", "stack: ", () => Tensor.stack(list));
    refuses("Limit", "meshgrid: ", () => Tensor.meshgrid(list));
    refuses("Limit", "compile: ", () => device.compile(list, (y) => y));
    refuses("Limit", "compile: ", () => device.compile([{ shape: [2] }], () => list));
    refuses("Limit", "pad: ", () => x.pad(list));
    refuses("Limit", "adam: ", () => Optimizer.adam(list));
    if (none) refuses("Limit", "tensor: ", () => device.tensor([1], list));
  }
  same(await x.sum().item(), 2);
});

test("absurd: refused without a look at all of it", async ({ device, Schedule }) => {
  const x = device.ones([2]);
  const endless = new Array(2 ** 32 - 1);
  await soon("sum", () => refuses("Limit", "sum: axes must have at most", () => x.sum(endless)));
  await soon("options", () => refuses("InvalidArgument", "sum: ", () => x.sum(0, endless)));
  await soon("schedule", () => refuses("InvalidArgument", "exponential: ", () => Schedule.exponential(endless)));
  const must = "add: y must be a tensor or a number, got an array";
  await soon("add", () => refuses("InvalidArgument", must, () => x.add(endless)));
  const option = { ["x".repeat(2 ** 22)]: 1 };
  await soon("an option", () => refuses("InvalidArgument", "sum: options must be known, got", () => x.sum(0, option)));
});

test("absurd: what messages tell of long texts and lists", async ({ device, Tensor }) => {
  const x = device.ones([2, 3]);
  const calls = [
    () => x.split(Array(2 ** 15).fill(0)),
    () => x.reshape(Array(2 ** 15).fill(1)),
    () => x.tile(Array(2 ** 15).fill(1)),
    () => Tensor.einsum("i".repeat(2 ** 22), [x]),
    () => x.cast("f".repeat(2 ** 22)),
    () => x.sum(0, "f".repeat(2 ** 22)),
  ];
  for (const call of calls) {
    const shown = await message(call);
    check(shown.length < 400, `${shown.length} letters: ${shown.slice(0, 80)}`);
  }
});

test("absurd: what a program's function leaves outside", async ({ device, Optimizer, Variable }) => {
  const v = new Variable(device.tensor([1, 2]));
  const building = (work) => () => device.compile([{ shape: [2] }], (x) => (work(x), x));
  refuses("InvalidState", "backward: ", building((x) => v.value.mul(x).sum().backward([v])));
  refuses("InvalidState", "variable: ", building((x) => new Variable(x.add(1))));
  const optimizer = Optimizer.sgd([v], { lr: 0.1 });
  refuses("InvalidState", "minimize: the value", building((x) => optimizer.minimize(v.value.mul(x).sum())));
  same([...(await v.value.read())], [1, 2], "the value is as it was");
  same(v.takeGradient(), undefined, "and there is no gradient");
});

test("absurd: disposing of what is at work", async ({ Device, device }) => {
  const own = await Device.new({ prefer: device.info.kind === "cpu" ? "cpu" : device.info.name });
  const spec = [{ shape: ["n"] }];
  refuses("InvalidState", "dispose: the object must not be in use", () =>
    own.compile([{ shape: [2] }], (x) => (own.dispose(), x)),
  );
  same(await own.tensor([1, 2]).sum().item(), 3, "it is as it was");
  let program = own.compile(spec, (x) => (program.dispose(), x.mul(2)));
  refuses("InvalidState", "dispose: the object must not be in use", () => program.run(own.tensor([1])));
  program.dispose();
  same(program.disposed, true);
  own.dispose();
  same(own.disposed, true);
});

test("absurd: a device that is none", async ({ device, Variable }) => {
  const x = device.ones([2]);
  for (const odd of [x, new Variable(device.ones([1])), {}, null, undefined, "cpu"]) {
    await rejects("InvalidArgument", "to: ", () => x.to(odd));
  }
});

/** Detaches the buffer of an array, as if it had been transferred to another thread. */
function givenAway(array) {
  structuredClone(array.buffer, { transfer: [array.buffer] });
  return array;
}

test("absurd: data that are gone, and types that are none", async ({ device, Tensor }) => {
  const gone = [givenAway(new Uint8Array(8)), givenAway(new Float32Array(8)), givenAway(new Float32Array(8)).buffer];
  const types = [Object.create(null), Symbol("f32"), gone[0], Object.create(Tensor.prototype), { toString: null }];
  for (const dtype of types) refuses("InvalidArgument", "tensor: dtype must be one of ", () => device.tensor([1], [1], dtype));
  for (const bytes of gone) {
    refuses("InvalidArgument", "tensor: the buffer must not be detached", () => device.tensor(bytes, undefined, "f32"));
    await rejects("InvalidArgument", "loadNpy: the buffer must not be detached", () => device.loadNpy(bytes));
    await rejects("InvalidArgument", "loadNpz: the buffer must not be detached", () => device.loadNpz(bytes));
    await rejects("InvalidArgument", "loadSafetensors: the buffer must not be detached", () => device.loadSafetensors(bytes));
  }
  same(device.tensor(new Float32Array(0)).shape, [0], "an empty array is one");
  const answer = new Response(new Uint8Array(8));
  await answer.arrayBuffer();
  await rejects("InvalidArgument", "loadNpy: the response ", () => device.loadNpy(answer));
  await rejects("Format", "loadNpy: the response must load, got 404", () => device.loadNpy(new Response("", { status: 404 })));
});

test("absurd: errors have the names that JavaScript has", async ({ device }) => {
  const bytes = new Uint8Array(10);
  await rejects("Format", "loadNpy: ", () => device.loadNpy(bytes));
  await rejects("Format", "loadNpz: ", () => device.loadNpz(bytes));
  await rejects("Format", "loadSafetensors: ", () => device.loadSafetensors(bytes));
  const x = device.ones([2]);
  x.dispose();
  await rejects("InvalidState", "text: the object must not be disposed", () => x.text());
  await rejects("InvalidState", "print: the object must not be disposed", () => x.print());
  await rejects("InvalidState", "readNested: the object must not be disposed", () => x.readNested());
  await rejects("InvalidState", "to: the object must not be disposed", () => x.to(device));
});

test("absurd: saying what it is does not throw", ({ device, Device, Tensor, Variable }) => {
  const program = device.compile([{ shape: ["n"] }], (x) => x.mul(2));
  same(String(program), "Program: not planned yet");
  program.run(device.ones([3]));
  check(String(program).startsWith("Program: ") && !String(program).includes("not planned"), String(program));
  const { plan } = program;
  plan.dispose();
  program.dispose();
  same([String(program), String(plan)], ["Program(disposed)", "Plan(disposed)"]);
  for (const { prototype } of [Device, Tensor, Variable]) check(typeof String(Object.create(prototype)) === "string");
});

test("absurd: kernels are chosen in programs that do not say who they are", async ({ Device, device }) => {
  if (device.info.kind !== "cpu") return; // Measuring takes long on other devices.
  const own = await Device.new({ prefer: "cpu" });
  const known = Object.getOwnPropertyDescriptor(globalThis, "navigator");
  Object.defineProperty(globalThis, "navigator", { value: undefined, configurable: true });
  try {
    check((await own.tune()).kernelConfig.length > 0, "it says which");
  } finally {
    if (known) Object.defineProperty(globalThis, "navigator", known);
    else Reflect.deleteProperty(globalThis, "navigator");
  }
  own.dispose();
});
