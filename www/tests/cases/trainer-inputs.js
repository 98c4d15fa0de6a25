// Tests models and data that a trainer takes: models that are plain objects, options for batches, and sources that are closed.

import { check, randoms, refuses, rejects, same, test } from "./harness.js";

/** Returns a trainer of a linear model on eight examples, or on `data`. */
function line({ device, Generator, Layer, Optimizer, Trainer }, options, data) {
  const model = Layer.linear(new Generator(device, 1), 2, 1);
  data ??= [device.tensor(randoms(16), [8, 2]), device.tensor(randoms(8), [8, 1])];
  return new Trainer(model, Optimizer.sgd(model), data, (x, y) => model.forward(x).mseLoss(y), options);
}

test("a trainer switches the parts of plain objects, lists and maps", async (context) => {
  const { device, Generator, Layer, Module, Optimizer, Trainer } = context;
  class Noise extends Module {
    seen = [];
    forward(x) {
      this.seen.push(this.training);
      return x;
    }
  }
  const data = [device.tensor(randoms(16), [8, 2]), device.tensor(randoms(8), [8, 1])];
  const groups = {
    "a plain object": (parts) => parts,
    "a list": (parts) => Object.values(parts),
    "a map": (parts) => new Map(Object.entries(parts)),
    "an object of lists": (parts) => ({ all: Object.values(parts) }),
  };
  for (const [name, group] of Object.entries(groups)) {
    const g = new Generator(device, 1);
    const parts = { noise: new Noise(), norm: Layer.batchNorm(g, 2), line: Layer.linear(g, 2, 1) };
    const forward = (x, y) => parts.line.forward(parts.norm.forward(parts.noise.forward(x))).mseLoss(y);
    const optimizer = Optimizer.sgd(Object.values(parts).flatMap((part) => (part === parts.noise ? [] : part.parameters())));
    const trainer = new Trainer(group(parts), optimizer, data, forward, { validation: data });
    await trainer.fit();
    same(parts.noise.seen, [true, false], `${name}: the modes of a step and of the validation`);
    const statistics = async () => [...(await parts.norm.stateDict().running_mean.read())];
    const before = await statistics();
    check(before.some((mean) => mean !== 0), `${name}: a step updates the statistics`);
    await trainer.evaluate(data);
    same(await statistics(), before, `${name}: the statistics after an evaluation`);
    same(parts.noise.training, true, `${name}: the mode after an evaluation`);
  }
});

test("options of tensors with all examples are refused for batches", async (context) => {
  const { device } = context;
  const batches = [[device.ones([2, 2]), device.ones([2, 1])]];
  const message = (option) => `train: the data must be [x, y] for the option ${option}, got batches`;
  for (const data of [batches, () => batches]) {
    refuses("InvalidArgument", message("shuffle"), () => line(context, { shuffle: 1 }, data));
    refuses("InvalidArgument", message("dropLast"), () => line(context, { dropLast: true }, data));
    refuses("InvalidArgument", "train: dropLast must be true or false", () => line(context, { dropLast: 1 }, data));
  }
  await line(context, { dropLast: false, shuffle: undefined }, batches).fit();
  await line(context, { dropLast: true, shuffle: 1, batchSize: 3 }).fit();
});

test("a source of batches is closed after an error", async (context) => {
  const { device } = context;
  let closed = 0;
  const good = [device.ones([2, 2]), device.ones([2, 1])];
  function* batches() {
    try {
      yield good;
      yield 1;
    } finally {
      closed += 1;
    }
  }
  async function* later() {
    yield* batches();
  }
  for (const source of [batches, later]) {
    closed = 0;
    await rejects("InvalidArgument", "train: a batch must be [x, y], got 1", () => line(context).evaluate(source));
    same(closed, 1, "sources that an evaluation closed");
    const trainer = line(context, { validation: source });
    await rejects("InvalidArgument", "train: a batch must be [x, y], got 1", () => trainer.fit());
    same(closed, 2, "sources that a validation closed");
  }
  // An error of the source itself is passed on.
  const mine = new Error("mine");
  const thrown = await line(context).evaluate(function* () { throw mine; }).catch((error) => error);
  check(thrown === mine, `the error of the source: ${thrown}`);
});

test("a model keeps no note that is reserved for trainers", async (context) => {
  const { device, Generator, Layer, Sequential } = context;
  const model = new Sequential(Layer.linear(new Generator(device, 1), 2, 1));
  const message = "save: names of notes must not be reserved for the trainer, got `trainer`";
  await rejects("InvalidArgument", message, () => model.save({ trainer: "a" }));
  same(await model.load(await model.save({ trained: "b" })), { trained: "b" }, "another note");
});
