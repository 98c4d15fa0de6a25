// Tests the trainer against the same steps in JavaScript numbers, and against itself with options that must make no difference.

import { check, close, randoms, refuses, rejects, same, test } from "./harness.js";

const rows = (flat, width) => Array.from({ length: flat.length / width }, (_, at) => flat.slice(at * width, (at + 1) * width));
const mean = (list) => list.reduce((sum, value) => sum + value, 0) / list.length;
const bits = async (model) => Promise.all(Object.values(model.stateDict()).map(async (x) => [...(await x.read())]));

/** Ten examples of two numbers, and their targets of one number. */
const [features, targets] = [rows(randoms(20, 3), 2), rows(randoms(10, 4), 1)];

/** Returns a trainer of a linear model without a bias, with plain steps. */
function line({ device, Generator, Layer, Optimizer, Trainer }, options, data) {
  const model = Layer.linear(new Generator(device, 1), 2, 1, { bias: false });
  const optimizer = Optimizer.sgd(model, { lr: 0.2 });
  const forward = (x, y) => {
    const guess = model.forward(x);
    return [guess.sub(y).square().mean(), guess];
  };
  data ??= [device.tensor(features), device.tensor(targets)];
  return { model, optimizer, data, trainer: new Trainer(model, optimizer, data, forward, options) };
}

/**
 * Computes the same in 64-bit numbers: the loss of each step and each epoch, and the weights. `lr` returns the rate of a step.
 */
function plain([...w], { batchSize, epochs, lr = () => 0.2 }) {
  const off = ([a, b], [y]) => a * w[0] + b * w[1] - y;
  const [losses, ends, validation] = [[], [], []];
  for (let epoch = 0; epoch < epochs; epoch++) {
    let sum = 0;
    for (let at = 0; at < features.length; at += batchSize) {
      const batch = features.slice(at, at + batchSize).map((x, n) => [x, off(x, targets[at + n])]);
      const loss = mean(batch.map(([, d]) => d * d));
      sum += loss * batch.length;
      const rate = lr(losses.length);
      const slope = [0, 1].map((k) => mean(batch.map(([x, d]) => 2 * d * x[k])));
      slope.forEach((value, k) => (w[k] -= rate * value));
      losses.push(loss);
    }
    ends.push(sum / features.length);
    validation.push(mean(features.map((x, n) => off(x, targets[n]) ** 2)));
  }
  return { losses, ends, validation, w };
}

test("a trainer takes the steps of its optimizer", async (context) => {
  const { model, trainer, optimizer, data } = line(context, { batchSize: 4, epochs: 3 });
  const wanted = plain(await model.parameter("weight").value.read(), { batchSize: 4, epochs: 3 });
  const [losses, seen] = [[], []];
  for await (const step of trainer) {
    losses.push(await step.loss.item());
    seen.push([step.step, step.epoch, step.batch, step.ended?.epoch]);
  }
  close(losses, wanted.losses);
  close(await model.parameter("weight").value.read(), wanted.w);
  same(seen.slice(0, 4), [[0, 0, 0, undefined], [1, 0, 1, undefined], [2, 0, 2, 0], [3, 1, 0, undefined]]);
  close(trainer.history.map(({ loss }) => loss), wanted.ends);
  same(trainer.history.map(({ epoch, steps, validation, lr }) => [epoch, steps, validation, lr]), [[0, 3, undefined, 0.2], [1, 6, undefined, 0.2], [2, 9, undefined, 0.2]]);
  same([trainer.steps, trainer.epochs, trainer.isOver, optimizer.steps], [9, 3, true, 9]);
  check(trainer.history === trainer.history && Object.isFrozen(trainer.history), "the same list each time");
  same(await trainer.nextStep(), undefined);
  const scores = await trainer.evaluate(data);
  close([scores.loss], [wanted.validation.at(-1)]);
  same(scores.metrics, {});
  trainer.epochs = 4;
  same([(await trainer.fit()).length, trainer.steps], [4, 12]);
});

test("steps on batches of one's own", async (context) => {
  const { device } = context;
  const { model, trainer } = line(context, { validation: [device.tensor(features), device.tensor(targets)] });
  const wanted = plain(await model.parameter("weight").value.read(), { batchSize: 5, epochs: 2 });
  const losses = [];
  for (let n = 0; n < 4; n++) {
    const at = (n % 2) * 5;
    const batch = [device.tensor(features.slice(at, at + 5)), device.tensor(targets.slice(at, at + 5))];
    losses.push(await (await trainer.step(...batch)).loss.item());
    if (at === 0) continue;
    const { epoch, loss, validation } = await trainer.endEpoch();
    close([loss, validation.loss], [wanted.ends[epoch], wanted.validation[epoch]]);
  }
  close(losses, wanted.losses);
  same(trainer.history.map(({ steps }) => steps), [2, 4]);
});

test("all forms of data are the same batches", async (context) => {
  const { device } = context;
  const batch = (at) => [device.tensor(features.slice(at, at + 4)), device.tensor(targets.slice(at, at + 4))];
  const places = [0, 4, 8];
  const epochs = [];
  function* generated(epoch) {
    epochs.push(epoch);
    for (const [x, y] of places.map(batch)) {
      yield [x, y];
      // The trainer holds the batch until the step is taken.
      x.dispose();
      y.dispose();
    }
  }
  async function* fetched() {
    for (const [x, y] of places.map(batch)) {
      await new Promise((resolve) => setTimeout(resolve));
      yield [x, y];
      x.dispose();
      y.dispose();
    }
  }
  const list = places.map(batch);
  const forms = { list, generated, fetched, promised: async () => list, tensors: undefined };
  const results = {};
  for (const [name, data] of Object.entries(forms)) {
    const { model, trainer } = line(context, { batchSize: 4, epochs: 3, validation: name === "tensors" ? batch(0) : [batch(0)] }, data);
    const history = await trainer.fit();
    results[name] = [await bits(model), history.map(({ loss, validation }) => [loss, validation.loss])];
    same(results[name], results.list, name);
  }
  same(epochs, [0, 1, 2]);
  const { trainer } = line(context, {}, list);
  close([(await trainer.evaluate(fetched)).loss], [(await trainer.evaluate(list)).loss]);
});

test("a training that is left goes on as if it was not", async (context) => {
  const { device } = context;
  const batches = () => [0, 4, 8].map((at) => [device.tensor(features.slice(at, at + 4)), device.tensor(targets.slice(at, at + 4))]);
  for (const data of [undefined, batches(), async function* () { yield* batches(); }]) {
    const whole = line(context, { batchSize: 4, epochs: 4 }, data);
    await whole.trainer.fit();
    const wanted = await bits(whole.model);
    const { model, trainer } = line(context, { batchSize: 4, epochs: 4 }, data);
    for await (const { step } of trainer) if (step === 1) break;
    same(trainer.steps, 2);
    for await (const { step } of trainer) if (step === 3) break;
    same(trainer.steps, 4);
    const stop = new AbortController();
    const reason = new Error("enough");
    const ended = await trainer.fit(({ step }) => step === 5 && stop.abort(reason), { signal: stop.signal }).catch((error) => error);
    check(ended === reason, `the signal's reason: ${ended}`);
    same(trainer.steps, 6);
    const thrown = await trainer.fit(() => { throw reason; }).catch((error) => error);
    check(thrown === reason, `what onStep threw: ${thrown}`);
    same(trainer.steps, 7);
    await trainer.fit();
    same(await bits(model), wanted, "weights");
    same(trainer.history.map(({ loss }) => loss), whole.trainer.history.map(({ loss }) => loss), "losses");
  }
});

test("what the user's functions throw comes through, and loses nothing", async (context) => {
  const { device, Generator, Layer, Optimizer, Trainer } = context;
  const whole = line(context, { batchSize: 4, epochs: 3 });
  await whole.trainer.fit();
  const wanted = await bits(whole.model);
  const cause = new Error("why");
  const mine = new TypeError("mine", { cause });
  let [calls, pulls] = [0, 0];
  function* data() {
    for (const at of [0, 4, 8]) {
      pulls += 1;
      if (pulls === 5 || pulls === 9) throw mine;
      yield [device.tensor(features.slice(at, at + 4)), device.tensor(targets.slice(at, at + 4))];
    }
  }
  const model = Layer.linear(new Generator(device, 1), 2, 1, { bias: false });
  const forward = (x, y) => {
    calls += 1;
    if ([1, 3, 6, 9, 10, 20].includes(calls)) throw mine;
    return model.forward(x).sub(y).square().mean();
  };
  const trainer = new Trainer(model, Optimizer.sgd(model, { lr: 0.2 }), data, forward, { epochs: 3, validation: data });
  let errors = 0;
  while (!trainer.isOver) {
    const thrown = await trainer.fit().catch((error) => error);
    if (thrown === trainer.history) break;
    check(thrown === mine && thrown.cause === cause, `another error: ${thrown?.stack}`);
    errors += 1;
    check(errors < 40, "it does not end");
  }
  check(errors > 3, `${errors} errors`);
  same(await bits(model), wanted);
  same(trainer.steps, 9);
});

test("a trainer that is at work says so", async (context) => {
  const { device, Optimizer, Trainer } = context;
  const { trainer, model, data } = line(context, { batchSize: 4, epochs: 2 });
  const first = trainer.nextStep();
  const calls = {
    nextStep: () => trainer.nextStep(),
    save: () => trainer.save(),
    evaluate: () => trainer.evaluate(data),
    step: () => trainer.step(...data),
    endEpoch: () => trainer.endEpoch(),
    load: () => trainer.load(new Blob()),
  };
  // All calls while the first one is in flight.
  const all = Object.entries(calls).map(([op, call]) => rejects("InvalidState", `${op}: the trainer must be idle`, call));
  await Promise.all(all);
  same((await first).step, 0);
  const fitting = trainer.fit(() => new Promise((resolve) => setTimeout(resolve)));
  await rejects("InvalidState", "fit: the trainer must be idle", () => trainer.fit());
  await fitting;
  // Also from inside the loss function.
  const inner = [];
  const nested = new Trainer(model, Optimizer.sgd(model), data, (x, y) => {
    inner.push(nested.nextStep().catch(({ code }) => code));
    refuses("InvalidState", "epochs: the trainer must be idle", () => (nested.epochs = 3));
    return model.forward(x).sub(y).square().mean();
  }, { batchSize: 5 });
  await nested.fit();
  same(await Promise.all(inner), ["InvalidState", "InvalidState"]);
  trainer.dispose();
  await rejects("InvalidState", "", () => trainer.nextStep());
  refuses("InvalidState", "history: the object must not be disposed", () => trainer.history);
  check(String(trainer) === "Trainer(disposed)" && String(nested) === "Trainer", String(trainer));
  device.submit();
});

test("metrics by scikit-learn's formulas", async ({ device, Module, Optimizer, Trainer, Variable }) => {
  class Given extends Module {
    w = new Variable(device.zeros([1]));
  }
  const model = new Given();
  const scores = rows(randoms(60, 5), 3);
  const classes = randoms(20, 6).map((x) => Math.floor((x + 1) * 1.5));
  const forward = (x) => [model.w.value.square().sum(), x];
  const metrics = [
    ...["accuracy", { metric: "topKAccuracy", k: 2 }, { metric: "precision", classes: 3 }, { metric: "recall", classes: 3 }],
    ...[{ metric: "f1", classes: 3 }, { metric: "f1", classes: 3, average: "micro" }, { metric: "confusionMatrix", classes: 3 }],
  ];
  const data = [device.tensor(scores), device.tensor(classes, [20], "i32")];
  const trainer = new Trainer(model, Optimizer.sgd(model), data, forward, { metrics, batchSize: 7 });
  refuses("InvalidState", "confusionMatrix", () => trainer.confusionMatrix());
  const { metrics: evaluated } = await trainer.evaluate(data);
  const guesses = scores.map((row) => row.indexOf(Math.max(...row)));
  const counts = [0, 1, 2].map((a) => [0, 1, 2].map((b) => classes.filter((c, n) => c === a && guesses[n] === b).length));
  const column = (k) => counts.reduce((sum, row) => sum + row[k], 0);
  const row = (k) => counts[k].reduce((sum, count) => sum + count, 0);
  const ratio = (a, b) => (b ? a / b : 0);
  const each = (of) => mean([0, 1, 2].map((k) => of(counts[k][k], column(k), row(k))));
  const accuracy = mean(classes.map((c, n) => Number(c === guesses[n])));
  const top = mean(classes.map((c, n) => Number(scores[n].filter((score) => score > scores[n][c]).length < 2)));
  same(Object.keys(evaluated), ["accuracy", "top2Accuracy", "precisionMacro", "recallMacro", "f1Macro", "f1Micro"]);
  const f1 = each((right, taken, there) => ratio(2 * right, taken + there));
  const wanted = [accuracy, top, each((right, taken) => ratio(right, taken)), each((right, _, there) => ratio(right, there)), f1, accuracy];
  close(Object.values(evaluated), wanted);
  same([...(await trainer.confusionMatrix().read())], counts.flat());
  const [x, y] = [randoms(12, 7), randoms(12, 8)];
  const numbers = [device.tensor(x, [12, 1]), device.tensor(y, [12, 1])];
  const other = new Trainer(model, Optimizer.sgd(model), numbers, forward, { metrics: ["meanAbsoluteError", "meanSquaredError", "r2Score"], batchSize: 5, validation: numbers });
  const [epoch] = await other.fit();
  const off = x.map((value, n) => value - y[n]);
  const around = y.reduce((sum, value) => sum + (value - mean(y)) ** 2, 0);
  const square = off.reduce((sum, d) => sum + d * d, 0);
  close(Object.values(epoch.validation.metrics), [mean(off.map(Math.abs)), square / 12, 1 - square / around], 1e-4);
  same(Object.keys(epoch.validation.metrics), ["meanAbsoluteError", "meanSquaredError", "r2Score"]);
});

test("rates, reports and an early end", async (context) => {
  const { Schedule } = context;
  const schedule = Schedule.linear(0.2, { startFactor: 0.1, endFactor: 1, totalIters: 5 });
  const { model, trainer, optimizer } = line(context, { batchSize: 4, epochs: 2, schedule, reportEvery: 2 });
  const wanted = plain(await model.parameter("weight").value.read(), { batchSize: 4, epochs: 2, lr: (n) => 0.2 * Math.min(1, 0.1 + 0.18 * n) });
  const steps = [];
  await trainer.fit(({ lr, meanLoss }) => void steps.push([lr, meanLoss]));
  close(steps.map(([lr]) => lr), [0, 1, 2, 3, 4, 5].map((n) => schedule.lr(n)), 1e-12);
  same(steps.map(([, loss]) => loss !== undefined), [false, true, false, true, false, true]);
  close([steps[1][1], steps[5][1]], [mean(wanted.losses.slice(0, 2)), wanted.ends[1]]);
  close(await model.parameter("weight").value.read(), wanted.w);
  close([optimizer.lr], [0.2], 1e-12);
  const byEpoch = line(context, { batchSize: 4, epochs: 3, scheduleByEpoch: Schedule.exponential(0.2, 0.5) });
  close((await byEpoch.trainer.fit()).map(({ lr }) => lr), [0.2, 0.1, 0.05], 1e-12);
  // No loss is better than the best by a factor of ten, so the rate falls after each epoch.
  const rate = Schedule.reduceOnPlateau(0.2, { factor: 0.5, patience: 0, threshold: 10 });
  const plateau = line(context, { batchSize: 4, epochs: 3, reduceOnPlateau: rate });
  close((await plateau.trainer.fit()).map(({ lr }) => lr), [0.2, 0.1, 0.05], 1e-12);
  close([rate.lr(0)], [0.2], 1e-12, "the schedule of the user's");
  const stopping = { monitor: "validationLoss", patience: 2 };
  const still = line(context, { epochs: 20, scheduleByEpoch: Schedule.stepLr(1e-30, 1), earlyStopping: stopping, validation: [[...line(context).data]] });
  same((await still.trainer.fit()).length, 3);
  check(still.trainer.isOver, "it is over");
});

test("an anomaly is named before the step is taken", async (context) => {
  const { device, Generator, Layer, Optimizer, Trainer } = context;
  const model = Layer.linear(new Generator(device, 1), 2, 1, { bias: false });
  const before = [...(await model.parameter("weight").value.read())];
  const data = [device.tensor(features), device.tensor(targets)];
  const forward = (x, y) => model.forward(x).sub(model.forward(x)).log().sub(y).mean();
  for (const detectAnomaly of [true, false]) {
    const trainer = new Trainer(model, Optimizer.sgd(model, { lr: 0.2 }), data, forward, { batchSize: 4, detectAnomaly });
    if (detectAnomaly) await rejects("InvalidState", "train: the loss of step 0", () => trainer.nextStep());
    else await trainer.nextStep();
    const after = [...(await model.parameter("weight").value.read())];
    if (detectAnomaly) same(after, before, "the parameters");
    else check(after.every(Number.isNaN), `without it the weights are ${after}`);
  }
});

/** Returns a net with running statistics and dropout. */
function noisy({ device, Generator, Layer, Sequential }) {
  const g = new Generator(device, 1);
  const [first, last] = [Layer.linear(g, 2, 8), Layer.linear(g, 8, 1)];
  return { g, model: new Sequential(first, Layer.batchNorm(g, 8), (x) => x.tanh(), Layer.dropout(g, 0.3), last) };
}

test("a net with hidden layers is looked through, too", async (context) => {
  const { device, Optimizer, Trainer } = context;
  const { g, model } = noisy(context);
  const data = [device.tensor(features.map(([a, b], n) => [n === 8 ? NaN : a, b])), device.tensor(targets)];
  const forward = (x, y) => model.forward(x).mseLoss(y);
  const trainer = new Trainer(model, Optimizer.adam(model), data, forward, { batchSize: 4, detectAnomaly: true });
  for (let n = 0; n < 2; n++) await trainer.nextStep();
  const [before, drawn] = [await bits(model), g.drawn];
  for (let n = 0; n < 2; n++) {
    await rejects("InvalidState", "train: the loss of step 2 must be finite", () => trainer.nextStep());
    same([await bits(model), g.drawn, trainer.steps], [before, drawn, 2]);
  }
});

/** Returns a model whose steps need much more memory than their batches, with its trainer. */
function wide({ device, Module, Optimizer, Trainer, Variable }, isBrought) {
  class Wide extends Module {
    weight = new Variable(device.tensor(randoms(64 * 256, 1), [64, 256]));
  }
  const model = new Wide();
  const optimizer = Optimizer.sgd(model, { lr: 0.05 });
  const [x, y] = [device.tensor(randoms(384 * 64, 2), [384, 64]), device.zeros([384])];
  const part = (n) => [x, y].map((all) => all.slice(0, 96 * n, 96 * (n + 1)));
  const data = isBrought ? [0, 1, 2, 3].map(part) : [x, y];
  const forward = (x) => x.matmul(model.weight.value).tanh().square().sum(1).sqrt().mean();
  return { model, optimizer, trainer: new Trainer(model, optimizer, data, forward, { batchSize: 96, epochs: 2 }) };
}

test("a step that can not be submitted was not taken", async (context) => {
  const { device } = context;
  for (const isBrought of [false, true]) {
    const whole = wide(context, isBrought);
    await whole.trainer.fit();
    // The second step of an epoch, and the last one.
    for (const failing of [1, 3]) {
      const { model, optimizer, trainer } = wide(context, isBrought);
      for (let n = 0; n < failing; n++) await trainer.nextStep();
      await device.synchronize();
      device.setMemoryLimit(device.stats().usedBytes + 1000);
      const failed = await trainer.nextStep().catch((error) => error);
      device.setMemoryLimit();
      same([failed?.code, trainer.steps, optimizer.steps], ["Memory", failing, failing]);
      await trainer.fit();
      same([trainer.steps, optimizer.steps], [8, 8]);
      same(trainer.history.map(({ loss }) => loss), whole.trainer.history.map(({ loss }) => loss), `losses, step ${failing}`);
      same(await bits(model), await bits(whole.model), `weights, step ${failing}`);
    }
  }
});

test("a step whose function throws leaves statistics and draws as they were", async (context) => {
  const { device, Optimizer, Trainer } = context;
  const train = async (throws) => {
    const { g, model } = noisy(context);
    let calls = 0;
    const forward = (x, y) => {
      const loss = model.forward(x).mseLoss(y);
      calls += 1;
      if (throws && [2, 3, 7].includes(calls)) throw new Error("once");
      return loss;
    };
    const data = [device.tensor(features), device.tensor(targets)];
    const trainer = new Trainer(model, Optimizer.sgd(model, { lr: 0.1 }), data, forward, { batchSize: 5, epochs: 3 });
    for (let n = 0; n < 20 && !trainer.isOver; n++) await trainer.fit().catch(() => {});
    return [trainer.steps, trainer.history.map(({ loss }) => loss), await bits(model), g.drawn];
  };
  same(await train(true), await train(false));
});

test("data that throw ahead of the step give each batch once", async ({ device, Generator, Layer, Optimizer, Trainer }) => {
  for (const failing of [2, 3, 4, 5, 7]) {
    let pulls = 0;
    function* data() {
      for (let n = 0; n < 5; n++) {
        pulls += 1;
        if (pulls === failing) throw new Error("once");
        yield [device.full([2, 2], n), device.zeros([2, 1])];
      }
    }
    const model = Layer.linear(new Generator(device, 1), 2, 1);
    const optimizer = Optimizer.sgd(model, { lr: 0 });
    // The loss is the number of the batch.
    const forward = (x) => model.forward(x).mul(0).mean().add(x.mean());
    const trainer = new Trainer(model, optimizer, data, forward, { epochs: 2 });
    const seen = [];
    const look = async ({ loss }) => seen.push(await loss.item());
    for (let n = 0; n < 3 && !trainer.isOver; n++) await trainer.fit(look).catch(() => {});
    same(seen, [0, 1, 2, 3, 4, 0, 1, 2, 3, 4], `pull ${failing}`);
  }
});

test("a step that fails does not open the data again", async ({ device, Generator, Layer, Optimizer, Trainer }) => {
  let [calls, made] = [0, 0];
  // A stream that can be read only once.
  const stream = (async function* () {
    while (made < 5) yield [device.full([2, 2], (made += 1)), device.zeros([2, 1])];
  })();
  const model = Layer.linear(new Generator(device, 1), 2, 1);
  const forward = (x) => {
    calls += 1;
    if (calls % 3 === 0) throw new Error("once");
    return model.forward(x).mul(0).mean().add(x.mean());
  };
  const trainer = new Trainer(model, Optimizer.sgd(model), stream, forward);
  const seen = [];
  const look = async ({ loss }) => seen.push(await loss.item());
  for (let n = 0; n < 5 && !trainer.isOver; n++) await trainer.fit(look).catch(() => {});
  same([seen, made, calls], [[1, 2, 3, 4, 5], 5, 7]);
});

test("steps on batches of one's own do not move the position in the data", async (context) => {
  const { device, Generator, Layer, Optimizer, Trainer } = context;
  const [zeros, own] = [device.zeros([2, 1]), device.full([2, 2], 99)];
  const numbers = (epoch) => [0, 1, 2, 3, 4].map((n) => [device.full([2, 2], 10 * epoch + n), zeros]);
  async function* fetched(epoch) {
    yield* numbers(epoch);
  }
  for (const data of [numbers, fetched]) {
    const begin = () => {
      const model = Layer.linear(new Generator(device, 1), 2, 1);
      const forward = (x) => model.forward(x).mul(0).mean().add(x.mean());
      return new Trainer(model, Optimizer.sgd(model), data, forward, { epochs: 2 });
    };
    const whole = begin();
    const seen = [];
    let file;
    for (let n = 0; n < 10; n++) {
      if ([1, 2, 4].includes(n)) same(await (await whole.step(own, zeros)).loss.item(), 99);
      seen.push(await (await whole.nextStep()).loss.item());
      if (n === 2) file = await whole.save();
    }
    same(seen, [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]);
    same([whole.steps, whole.isOver], [13, true]);
    close([whole.history[0].loss], [(10 + 3 * 99) / 8]);
    for (const later of [begin(), whole]) {
      await later.load(file);
      const left = [];
      for await (const { loss } of later) left.push(await loss.item());
      same(left, seen.slice(3));
    }
  }
});

test("gradients that wait and averages are in checkpoints", async (context) => {
  const begin = () => {
    const all = line(context, { batchSize: 4, epochs: 4 });
    return { ...all, average: all.optimizer.average(0.9) };
  };
  const run = async ({ model, trainer, average }) => {
    for (let n = 0; n < 4; n++) {
      await trainer.nextStep();
      average.update();
    }
    average.swap();
    const seen = await bits(model);
    average.swap();
    return [seen, await bits(model)];
  };
  const wait = ({ model, optimizer, data: [x, y] }, scale) => {
    optimizer.accumulate(model.forward(x).sub(y).square().mean().mul(scale));
    model.forward(x).sum().backward(model.parameters());
  };
  const whole = begin();
  await run(whole);
  wait(whole, 2);
  const file = await whole.trainer.save();
  const wanted = await run(whole);
  wait(whole, 3);
  const later = begin();
  wait(later, 5);
  for (const each of [later, whole]) {
    await each.trainer.load(file);
    same(await run(each), wanted);
  }
});

test("an epoch without steps does not end", async (context) => {
  const { trainer } = line(context, { batchSize: 5 });
  await rejects("InvalidState", "train: an epoch must have a step before it ends, got none in epoch 0", () =>
    trainer.endEpoch(),
  );
  await trainer.fit();
  await rejects("InvalidState", "train: an epoch must have a step before it ends, got none in epoch 1", () =>
    trainer.endEpoch(),
  );
  same([trainer.history.length, trainer.steps], [1, 2]);
});

test("a history has the same objects until another is loaded", async (context) => {
  const { trainer } = line(context, { batchSize: 5, epochs: 3 });
  const seen = [];
  for await (const { ended } of trainer) if (ended) seen.push(trainer.history);
  same(seen.map((list) => list.length), [1, 2, 3]);
  check(seen.every((list) => list.every((epoch, n) => epoch === seen[2][n])), "the objects are others");
  check(seen[2] === trainer.history && Object.isFrozen(seen[0]), "the list is another");
  const file = await trainer.save();
  const other = line(context, { batchSize: 5, epochs: 3 }).trainer;
  await other.nextStep();
  await other.endEpoch();
  const [first] = other.history;
  await other.load(file);
  same(other.history.map(({ loss }) => loss), trainer.history.map(({ loss }) => loss));
  check(first !== other.history[0], "it is another history");
});

test("the last step's loss stays until another is there", async (context) => {
  const { trainer } = line(context, { batchSize: 5, epochs: 1 });
  const losses = [];
  await trainer.fit(({ loss }) => losses.push(loss));
  same(losses.map((loss) => loss.disposed), [true, false]);
  same(await trainer.nextStep(), undefined);
  check((await losses[1].item()) > 0, "it can be read");
  trainer.epochs = 2;
  const { loss } = await trainer.nextStep();
  same([losses[1].disposed, loss.disposed], [true, false]);
  await trainer.load(await trainer.save());
  check(loss.disposed, "a checkpoint ends it");
  const step = await trainer.nextStep();
  trainer.dispose();
  check(step.loss.disposed, "and so does the trainer");
});

test("a trainer that is left lets go of its data", async (context) => {
  const { device } = context;
  const batch = [device.tensor(features), device.tensor(targets)];
  for (const end of ["load", "dispose"]) {
    for (const isAsync of [false, true]) {
      let closed = 0;
      function* batches() {
        try {
          for (let n = 0; n < 9; n++) yield batch;
        } finally {
          closed += 1;
        }
      }
      async function* fetched() {
        yield* batches();
      }
      const { trainer } = line(context, {}, isAsync ? fetched : batches);
      await trainer.nextStep();
      same(closed, 0);
      if (end === "load") await trainer.load(await trainer.save());
      else trainer.dispose();
      await new Promise((resolve) => setTimeout(resolve));
      same(closed, 1, `${end}, ${isAsync}`);
    }
  }
});

test("a trainer changes modes as classes of users' do it", async (context) => {
  const { device, Generator, Layer, Module, Optimizer, Sequential, Trainer } = context;
  const g = new Generator(device, 1);
  class Noise extends Module {
    seen = [];
    forward(x) {
      this.seen.push(this.training);
      return x;
    }
  }
  class Frozen extends Module {
    norm = Layer.batchNorm(g, 2);
    train() {
      super.train();
      this.norm.eval();
      return this;
    }
    forward(x) {
      return this.norm.forward(x);
    }
  }
  const [noise, frozen] = [new Noise(), new Frozen()];
  const model = new Sequential(frozen, noise, Layer.linear(g, 2, 1));
  model.eval();
  const data = [device.tensor(features), device.tensor(targets)];
  const options = { batchSize: 5, epochs: 2, validation: data };
  const trainer = new Trainer(model, Optimizer.sgd(model), data, (x, y) => model.forward(x).mseLoss(y), options);
  same([model.training, noise.training, frozen.norm.training], [true, true, false]);
  await trainer.fit();
  same(noise.seen, [true, true, false, false, true, true, false, false]);
  same([...(await frozen.stateDict()["norm.running_mean"].read())], [0, 0], "statistics that are frozen");
  noise.seen = [];
  await trainer.evaluate(data);
  same([noise.seen, noise.training], [[false, false], true]);
  // An error from a class is passed on, and no step is taken in the other mode.
  const mine = new TypeError("mine");
  noise.eval = () => { throw mine; };
  check((await trainer.evaluate(data).catch((error) => error)) === mine, "what eval threw");
  delete noise.eval;
  noise.train = () => { throw mine; };
  trainer.epochs = 3;
  check((await trainer.nextStep().catch((error) => error)) === mine, "what train threw");
  same(trainer.steps, 4);
  delete noise.train;
  await trainer.fit();
  same(trainer.steps, 6);
});

test("a checkpoint goes on to the same bits", async (context) => {
  const { device, Generator, Layer, Optimizer, Sequential, Trainer } = context;
  const [x, y] = [device.tensor(features), device.tensor(targets)];
  async function* batches() {
    for (const at of [0, 4, 8]) yield [x.slice(0, at, Math.min(at + 4, 10)), y.slice(0, at, Math.min(at + 4, 10))];
  }
  const begin = (data, seed = 5) => {
    const g = new Generator(device, seed);
    const model = new Sequential(Layer.linear(g, 2, 8), Layer.dropout(g, 0.3), Layer.linear(g, 8, 1));
    const optimizer = Optimizer.adam(model, { lr: 0.01 });
    const forward = (x, y) => model.forward(x).mseLoss(y);
    const options = { epochs: 4, validation: [x, y], ...(data !== batches && { batchSize: 4, shuffle: 7 }) };
    return { model, trainer: new Trainer(model, optimizer, data, forward, options) };
  };
  for (const data of [[x, y], batches]) {
    // In the current epoch of the other trainer, in a later one, and at the end of one.
    for (const saved of [2, 4, 6]) {
      const whole = begin(data);
      while (whole.trainer.steps < saved) await whole.trainer.nextStep();
      const file = await whole.trainer.save({ by: "hand" });
      await whole.trainer.fit();
      const later = begin(data);
      for (let n = 0; n < 2; n++) await later.trainer.nextStep();
      same(await later.trainer.load(new Blob([file])), { by: "hand" });
      same([later.trainer.steps, later.trainer.history.length], [saved, Math.floor(saved / 3)]);
      await later.trainer.fit();
      same(await bits(later.model), await bits(whole.model), `from ${saved}`);
      const losses = ({ trainer }) => trainer.history.map(({ loss, validation }) => [loss, validation.loss]);
      same(losses(later), losses(whole));
      const { tensors, metadata } = await device.loadSafetensors(file);
      same([metadata.by, Object.keys(tensors).filter((name) => !name.startsWith("trainer/")).sort()], ["hand", Object.keys(whole.model.stateDict()).sort()]);
    }
  }
  const { trainer } = begin([x, y]);
  await rejects("Format", "load: the file must be a checkpoint", async () => trainer.load(await device.saveSafetensors({ x })));
  await rejects("InvalidArgument", "load", () => trainer.load(3));
  await rejects("Format", "load", () => trainer.load(new Uint8Array(3)));
  await rejects("InvalidArgument", "save", () => trainer.save({ note: 3 }));
  const reserved = "save: names of parameters and notes must not be reserved for the trainer, got `trainer/x`";
  await rejects("InvalidArgument", reserved, () => trainer.save({ "trainer/x": "" }));
  same((await trainer.nextStep()).step, 0);
});

test("files that a site keeps", async (context) => {
  const { trainer } = line(context, { batchSize: 4, epochs: 2 });
  same(await trainer.loadFrom("not there"), undefined);
  await trainer.nextStep();
  await trainer.saveTo("line", { n: "1" });
  await trainer.nextStep();
  await trainer.saveTo("line", { n: "2" });
  const other = line(context, { batchSize: 4, epochs: 2 });
  same(await other.trainer.loadFrom("line"), { n: "2" });
  same(other.trainer.steps, 2);
  // A model alone loads its values from the checkpoint.
  const { model } = line(context, { batchSize: 4, epochs: 2 });
  same(await model.loadFrom("line"), { n: "2" });
  await model.saveTo("line");
  same(await other.model.loadFrom("line"), {});
  same(await model.loadFrom("not there"), undefined);
  const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle("warpweft");
  const names = [];
  for await (const name of folder.keys()) names.push(name);
  same(names, ["line"], "files");
  for (const name of ["", "..", "a/b", 3]) await rejects("InvalidArgument", "saveTo", () => trainer.saveTo(name));
  await rejects("InvalidArgument", "loadFrom", () => trainer.loadFrom("a/b"));
  await folder.removeEntry("line");
});

test("what a trainer refuses", async (context) => {
  const { device, Optimizer, Schedule, Trainer } = context;
  const { model, data } = line(context);
  const optimizer = Optimizer.sgd(model);
  const loss = (x, y) => model.forward(x).sub(y).square().mean();
  const made = (options) => () => new Trainer(model, optimizer, data, loss, options);
  const other = Optimizer.sgd(line(context).model);
  refuses("InvalidArgument", "train: the optimizer must have parameters of the model", () =>
    new Trainer(model, other, data, loss),
  );
  refuses("InvalidArgument", "train", made({ epoch: 3 }));
  refuses("InvalidArgument", "train", made(3));
  refuses("Shape", "train: epochs", made({ epochs: -1 }));
  refuses("InvalidArgument", "loader", made({ batchSize: 0 }));
  refuses("InvalidArgument", "train: a metric must be one of", made({ metrics: ["f2"] }));
  refuses("InvalidArgument", "train: the metric f1 must have classes", made({ metrics: ["f1"] }));
  refuses("InvalidArgument", "train: the metric accuracy must not have k", made({ metrics: [{ metric: "accuracy", k: 3 }] }));
  const twice = { metrics: ["accuracy", "accuracy"] };
  refuses("InvalidArgument", "train: metrics must be distinct, got accuracy twice", made(twice));
  refuses("InvalidArgument", "train: metrics", made({ metrics: "accuracy" }));
  refuses("InvalidArgument", "train: monitor of earlyStopping must be one of", made({ earlyStopping: { monitor: "f1" } }));
  const none = "of earlyStopping must have a validation, got none; set `validation`";
  const without = (monitor) => `train: \`${monitor}\` ${none}`;
  refuses("InvalidArgument", without("validationLoss"), made({ earlyStopping: {} }));
  refuses("InvalidArgument", without("accuracy"), made({ metrics: ["accuracy"], earlyStopping: { monitor: "accuracy" } }));
  refuses("InvalidArgument", "train", made({ earlyStopping: { patiense: 1 } }));
  refuses("InvalidArgument", "train: schedule", made({ schedule: Schedule.reduceOnPlateau(1) }));
  refuses("InvalidArgument", "train: reduceOnPlateau", made({ reduceOnPlateau: Schedule.constant(1) }));
  refuses("InvalidArgument", "train: schedule", made({ schedule: 0.1 }));
  refuses("InvalidArgument", "train: at most one of schedule, scheduleByEpoch", made({ schedule: Schedule.constant(1), scheduleByEpoch: Schedule.constant(1) }));
  refuses("InvalidArgument", "train: generators", made({ generators: [3] }));
  refuses("InvalidArgument", "train: the optimizer", () => new Trainer(model, 3, data, loss));
  refuses("InvalidArgument", "train: forward", () => new Trainer(model, optimizer, data, 3));
  refuses("InvalidArgument", "train: the model must have layers", () => new Trainer(3, optimizer, data, loss));
  refuses("Shape", "dataset", () => new Trainer(model, optimizer, [data[0], device.ones([3])], loss));
  const failing = async (code, start, data, forward, options) => rejects(code, start, () => new Trainer(model, optimizer, data, forward, options).fit());
  await failing("InvalidArgument", "train: data must be [x, y] or batches, got 3", 3, loss);
  await failing("InvalidArgument", "train: a batch must be [x, y], got 1", [1, 2], loss);
  await failing("InvalidArgument", "train: a batch must be", [[1, 2]], loss);
  await failing("InvalidArgument", "train: an epoch must have a batch, got none in epoch 0", () => [], loss);
  await failing("InvalidArgument", "train: the loss must be a tensor, got 3", data, () => 3);
  await failing("InvalidArgument", "train: the function must not be async, got a promise", data, async (x, y) => loss(x, y));
  await failing("InvalidArgument", "train: the function must return a loss", data, () => []);
  await failing("Shape", "train: the loss must be one number, got shape", data, (x) => x);
  await failing("InvalidArgument", "train: the forward function must return a prediction", data, loss, { metrics: ["accuracy"], validation: data });
  await failing("InvalidState", "train: the loss of step 0", data, (x, y) => loss(x, y).mul(NaN));
  const trainer = made({})();
  await rejects("InvalidArgument", "fit", () => trainer.fit(3));
  await rejects("InvalidArgument", "fit: signal", () => trainer.fit(undefined, { signal: 3 }));
  await rejects("InvalidArgument", "fit", () => trainer.fit(undefined, { signla: 3 }));
  await rejects("InvalidArgument", "train: a batch", () => trainer.step(1, 2));
  await rejects("InvalidArgument", "train: data must be [x, y] or batches, got undefined", () => trainer.evaluate());
  refuses("InvalidArgument", "split", () => Trainer.split(3, 0.5, 1));
  refuses("InvalidArgument", "split: both parts must have examples, got a fraction of 2 of 10", () =>
    Trainer.split(data, 2, 1),
  );
  refuses("InvalidArgument", "split: seed", () => Trainer.split(data, 0.5));
  const [most, rest] = Trainer.split(data, 0.2, 1);
  same([most, rest].map(([x, y]) => [x.shape, y.shape]), [[[8, 2], [8, 1]], [[2, 2], [2, 1]]]);
  const all = [...(await most[1].read()), ...(await rest[1].read())].sort();
  close(all, targets.flat().map(Math.fround).sort(), 1e-7);
});

test("steps leave nothing behind, whatever is read", async (context) => {
  const { device } = context;
  for (const every of [1, 10, 0]) {
    const { trainer, data } = line(context, { batchSize: 4, epochs: 100, shuffle: 1 });
    const seen = [];
    for await (const { step, loss } of trainer) {
      if (every && step % every === 0) await loss.item();
      const { usedBytes, nodes, plans, pipelines } = device.stats();
      if (step % 3 === 1 && step > 60) seen.push([usedBytes, nodes, plans, pipelines]);
    }
    await device.synchronize();
    const most = (part) => seen.slice(part).reduce((a, b) => a.map((x, n) => Math.max(x, b[n])));
    const [early, late] = [most(0), most(-20)];
    check(late.every((x, n) => x <= early[n]) && seen.length > 60, `every ${every}: ${early} grew to ${late}`);
    check(new Set(seen.map(String)).size < 8, `every ${every}: ${[...new Set(seen.map(String))].join("; ")}`);
    for (const x of data) x.dispose();
    trainer.dispose();
  }
});

test("groups of parameters have rules and rates of their own", async ({ device, Generator, Layer, Optimizer, Sequential, Trainer, Variable }) => {
  const [a, b] = [1, 2].map((value) => new Variable(device.tensor([value])));
  const optimizer = Optimizer.sgd([a], { lr: 0.1 });
  const other = Optimizer.sgd([b], { lr: 0.5, momentum: 0.9 });
  optimizer.addGroup(other);
  check(other.disposed, "the other is gone");
  let [x, y, v] = [1, 2, 0];
  for (let n = 0; n < 5; n++) {
    if (n === 3) optimizer.setGroupLr(1, 0.01);
    optimizer.minimize(a.value.square().add(b.value.square()).sum());
    [x, v] = [x - 0.1 * 2 * x, 0.9 * v + 2 * y];
    y -= (n < 3 ? 0.5 : 0.01) * v;
  }
  close([await a.value.item(), await b.value.item()], [x, y]);
  same(Object.keys(optimizer.stateDict()).sort(), ["1.0.momentum_buffer", "steps"]);
  refuses("InvalidArgument", "setGroupLr", () => optimizer.setGroupLr(2, 1));
  refuses("InvalidArgument", "addGroup", () => optimizer.addGroup(optimizer));
  refuses("InvalidArgument", "addGroup: other", () => optimizer.addGroup([a]));
  refuses("InvalidState", "addGroup: the object must not be disposed", () => optimizer.addGroup(other));
  same([...(await optimizer.stateDict().steps.read())], [5, 5]);
  const clips = Optimizer.sgd([new Variable(device.ones([1]))]);
  clips.clipNorm(1);
  refuses("InvalidArgument", "addGroup: the other optimizer must not clip", () => optimizer.addGroup(clips));
  const late = new Variable(device.tensor([1]));
  optimizer.addGroup(Optimizer.adam([late], { lr: 0.1 }));
  optimizer.minimize(late.value.sum());
  close([await late.value.item(), await a.value.item()], [0.9, x]);
  same([...(await optimizer.stateDict().steps.read())], [6, 6, 1]);
  refuses("InvalidArgument", "", () => optimizer.addGroup(Optimizer.sgd([b])));
  const begun = Optimizer.sgd([new Variable(device.ones([1]))]);
  refuses("InvalidState", "step", () => begun.step());
  const model = new Sequential(Layer.linear(new Generator(device, 0), 2, 1));
  const used = Optimizer.sgd(model);
  const data = [device.tensor(features), device.tensor(targets)];
  const trainer = new Trainer(model, used, data, (x, y) => model.forward(x).mseLoss(y));
  refuses("InvalidState", "addGroup: the other optimizer must not be in use", () => optimizer.addGroup(used));
  await trainer.fit();
  same(used.steps, 1);
});

test("a schedule serves trainers on every core", async (context) => {
  const other = await context.Device.new({ prefer: "cpu" });
  const schedule = context.Schedule.exponential(0.4, 0.5);
  const plateau = () => context.Schedule.reduceOnPlateau(0.3);
  for (const device of [context.device, other]) {
    const data = [device.tensor(features), device.tensor(targets)];
    const { trainer } = line({ ...context, device }, { batchSize: 5, epochs: 1, schedule }, data);
    const rates = [];
    for await (const { lr } of trainer) rates.push(lr);
    same(rates, [0.4, 0.2], `on ${device.info.backend}`);
    const falling = line({ ...context, device }, { epochs: 1, reduceOnPlateau: plateau(), validation: data }, data);
    await falling.trainer.fit();
    same(falling.trainer.history[0].lr, 0.3, `of a plateau, on ${device.info.backend}`);
  }
  const gone = context.Schedule.constant(0.1);
  gone.dispose();
  const data = [context.device.tensor(features), context.device.tensor(targets)];
  refuses("InvalidState", "train", () => line(context, { schedule: gone }, data));
  other.dispose();
});
