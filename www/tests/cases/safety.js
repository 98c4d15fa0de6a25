// Tests objects that do not belong to the core: foreign, forged, or tampered with. None of them may make WebAssembly read other
// memory.

import { check, refuses, same, test } from "./harness.js";

/** The name of the property that holds an object's address in its core's memory. */
const pointerOf = (device) => (device.info.backend === "cpu" ? "__cpu_ptr" : "__gpu_ptr");

test("operands that are no tensors of this core", async ({ device, Device, Tensor, Variable }) => {
  const x = device.ones([2]);
  const pointer = pointerOf(device);
  const class_ = Object.getPrototypeOf(x);
  class Mine extends Tensor {
    constructor() {
      return Object.create(new.target.prototype);
    }
  }
  const gone = device.ones([2]);
  gone.dispose();
  const forged = [
    Object.create(Tensor.prototype),
    Object.create(class_),
    Object.create(x),
    { __proto__: null, [pointer]: x[pointer] },
    Object.defineProperty(Object.create(Tensor.prototype), pointer, { value: x[pointer] }),
    new Proxy(x, {}),
    new Mine(),
    { shape: [2], dtype: "f32", device },
    device,
    gone,
  ];
  for (const operand of forged) {
    const code = operand === gone ? "InvalidState" : "InvalidArgument";
    refuses(code, "add", () => x.add(operand));
    refuses(code, "matmul", () => x.matmul(operand));
    refuses(code, "concat", () => Tensor.concat([x, operand]));
    refuses(code, "layerNorm", () => x.layerNorm({ weight: operand }));
    refuses(code, "batch", () => device.batch().add(operand));
    refuses(code, "variable", () => new Variable(operand));
  }
  // The type of an object does not depend on its prototype.
  const bare = Object.setPrototypeOf(device.tensor([5, 6]), null);
  same([...(await x.add(bare).read())], [6, 7], "a tensor without its prototype");
  const other = await Device.new({ prefer: "cpu" });
  refuses("InvalidArgument", "add", () => x.add(other.ones([2])));
  refuses("InvalidArgument", "add", () => other.ones([2]).add(x));
  other.dispose();
});

test("objects that are tampered with", async ({ device, Tensor, Variable }) => {
  const x = device.tensor([1, 2]);
  const pointer = pointerOf(device);
  const { relu } = x;
  refuses("InvalidArgument", "Tensor", () => (x[pointer] = 8));
  refuses("InvalidArgument", "Tensor", () => (Object.create(Object.getPrototypeOf(x))[pointer] = x[pointer]));
  refuses("InvalidArgument", "Tensor", () => Object.create(Object.getPrototypeOf(x)).relu());
  for (const receiver of [{}, device, new Variable(device.ones([1])), { [pointer]: 0 }]) {
    let code;
    try {
      relu.call(receiver);
    } catch (error) {
      ({ code } = error);
    }
    same(code, "InvalidArgument", "a method on something else");
  }
  refuses("InvalidArgument", "Tensor", () => new Tensor());
  refuses("InvalidArgument", "Tensor", () => new (Object.getPrototypeOf(x).constructor)());
  same([...(await x.relu().read())], [1, 2], "the tensor is as it was");
  check(x.free === undefined, "freeing is not to be done by hand");
});

test("what is handed out twice is the same", ({ device, Variable }) => {
  const x = device.ones([2, 3]);
  check(x.device === device && x.add(1).device === device && x.device === x.device, "the device");
  check(x.shape === x.shape && Object.isFrozen(x.shape), "the shape");
  const w = new Variable(x);
  check(w.value === w.value, "the value");
  const next = x.add(1);
  w.assign(next);
  check(w.value === w.value && x.disposed, "the next value");
});

test("what things say they are", async ({ device, Variable }) => {
  const x = device.tensor([[1, 2.5, -3]]);
  const { backend, name } = device.info;
  same(String(x), `Tensor(f32 [1, 3] on ${backend})`);
  same(String(device), `Device(${backend}: ${name})`);
  same(String(new Variable(x.detach())), `Variable(Tensor(f32 [1, 3] on ${backend}))`);
  check(String(device.compile([{ shape: [2] }], (y) => y.mul(2))).startsWith("Program: "), "a program");
  check(String(device.batch().add(x)).startsWith("Batch"), "a batch");
  same(x.constructor.name, "Tensor");
  const shown = globalThis.devtoolsFormatters?.map((formatter) => formatter.header(x)).find(Boolean);
  if (typeof window === "object") same(shown?.at(-1), String(x), "in the developer tools");
  same(await x.text(), "[[ 1.   2.5 -3. ]]");
  x.dispose();
  same(String(x), "Tensor(disposed)");
});

test("a loop of reads lets the page have its turns", async ({ device }) => {
  const x = device.uniform([256, 256], { seed: 1 });
  let ticks = 0;
  const timer = setInterval(() => (ticks += 1), 10);
  const start = performance.now();
  while (performance.now() - start < 400) await x.matmul(x).sum().item();
  clearInterval(timer);
  // A busy machine gives few ticks. If the page had no turns, there would be none.
  check(ticks >= 2, `${ticks} ticks of 10 ms in ${Math.round(performance.now() - start)} ms`);
});
