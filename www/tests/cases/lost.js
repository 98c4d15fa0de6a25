// Tests a core that traps. Cleanup afterwards throws nothing, so the first error stays visible, and each later call throws
// `DeviceLost` with the first cause. The test ends the core, so it runs alone in a page or process.

import { check, same } from "./harness.js";

/** Returns the error that a call throws or with which it rejects, or undefined. */
async function thrown(work) {
  try {
    await work();
  } catch (error) {
    return error;
  }
  return undefined;
}

/** Ends the core like a trap. */
function trap(device) {
  const { random } = Math;
  Math.random = () => {
    throw new WebAssembly.RuntimeError("the first cause");
  };
  try {
    device.uniform([2]);
  } finally {
    Math.random = random;
  }
}

/** Ends the core of a device, and checks everything afterwards. */
export async function lose({ Device, Generator, Layer, Optimizer, Sequential, Trainer, Variable }, prefer) {
  const device = await Device.new({ prefer });
  const x = device.tensor([1, 2]);
  const variable = new Variable(device.tensor([3, 4]));
  const program = device.compile([{ shape: [2] }], (x) => x.add(1));
  const model = new Sequential(Layer.linear(new Generator(device, 1), 2, 1));
  const optimizer = Optimizer.sgd(model);
  const [features, targets] = [device.ones([2, 2]), device.ones([2, 1])];
  const trainer = new Trainer(model, optimizer, [features, targets], (x, y) => model.forward(x).mseLoss(y));
  await trainer.nextStep();
  const gone = device.tensor([5]);
  gone.dispose();

  const own = new Error("of the page");
  let first;
  const seen = await thrown(() => device.scope(() => {
    device.tensor([1]);
    try {
      trap(device);
    } catch (error) {
      first = error;
    }
    throw own;
  }));
  check(seen === own, `a scope hides what its function threw: ${seen}`);
  same([first?.code, first?.name], ["DeviceLost", "WarpweftError"], "the first error");
  check(first.message.includes("the first cause"), first.message);

  const objects = { gone, x, variable, program, optimizer, trainer, device };
  for (const [name, object] of Object.entries(objects)) {
    for (let times = 0; times < 2; times++) {
      const error = await thrown(() => object.dispose());
      check(error === undefined, `disposing of the ${name}, ${times + 1}: ${error}`);
    }
    check(object.disposed === true, `the ${name} does not say that it is disposed`);
    check(typeof String(object) === "string", `the ${name} as text`);
  }
  check(typeof String(features) === "string" && features.disposed === false, "a tensor that was not disposed of");
  const inspect = Symbol.for("nodejs.util.inspect.custom");
  check(typeof features[inspect]() === "string", "a tensor on a console");

  const calls = {
    "a tensor of the device": () => device.tensor([1]),
    "a tensor": () => features.add(1),
    "a tensor that is read": () => features.read(),
    "a tensor that was disposed of": () => x.add(1),
    "a variable": () => variable.value,
    "a program": () => program.run(features),
    "a trainer": () => trainer.nextStep(),
    "another device": () => Device.new({ prefer }),
  };
  for (const [name, work] of Object.entries(calls)) {
    const error = await thrown(work);
    check(error?.code === "DeviceLost", `${name}: ${error}`);
    check(error.message.includes("the first cause"), `${name}: ${error.message}`);
  }
}
