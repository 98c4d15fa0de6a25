// Actions on trainers: steps on their data in order, steps on other batches in between, evaluation, functions that throw, and
// checkpoints that are loaded midway, into the same training or into a similar one.

import { batchOf, lossOf, meanBatch, writeBatch } from "./models.js";
import { needNoAverages, signature } from "./optimizers.js";
import { copied } from "../reference.js";
import { randomSpec, tensorOf } from "../models.js";
import { numbers } from "../random.js";
import { choices } from "../rules.js";
import { constant, history, Refused, Skip } from "../tape.js";

/**
 * Returns the batches of an epoch, as plain data: all examples in order, or a list that starts at another batch in each epoch.
 */
function epochOf({ kind, rows, size, dropLast, batches }, epoch) {
  if (kind !== "tensors") return batches.map((_, n) => batches[kind === "list" ? n : (n + epoch) % batches.length]);
  const starts = Array.from({ length: Math.ceil(rows / size) }, (_, n) => n * size);
  const all = starts.map((start) => ({ start, rows: Math.min(size, rows - start) }));
  return dropLast ? all.filter((one) => one.rows === size) : all;
}

/** Returns the values of a batch. */
function meanOf({ kind, rows, width, outputs, seed }, batch) {
  if (kind !== "tensors") return meanBatch(batch);
  const part = (data, columns) => {
    const start = batch.start * columns;
    return constant([batch.rows, columns], data.slice(start, start + batch.rows * columns));
  };
  return [part(numbers(seed, rows * width), width), part(numbers(seed + 1, rows * outputs, 0.5), outputs)];
}

function writeData(device, data) {
  const { kind, rows, width, outputs, seed, batches } = data;
  if (kind === "tensors") {
    const [x, y] = [numbers(seed, rows * width), numbers(seed + 1, rows * outputs, 0.5)];
    return `[${tensorOf(device, x, [rows, width])}, ${tensorOf(device, y, [rows, outputs])}]`;
  }
  const list = `[\n${batches.map((batch) => `  [${writeBatch(device, batch).join(", ")}],\n`).join("")}]`;
  if (kind === "list") return list;
  const all = `  const all = ${list.replace(/\n/g, "\n  ")};\n`;
  if (kind === "function") return `(epoch) => {\n${all}  return all.map((_, n) => all[(n + epoch) % all.length]);\n}`;
  const yielded = "    await undefined;\n    yield all[(n + epoch) % all.length];\n";
  return `async function* (epoch) {\n${all}  for (const [n] of all.entries()) {\n${yielded}  }\n}`;
}

/** Returns the mean loss over batches, with equal weight for all examples. */
function scored(world, trainer, batches, data = trainer.spec.data) {
  const model = world.get("models", trainer.model);
  model.training = false;
  const losses = batches.map((batch) => {
    called(world, trainer);
    return [lossOf(world, trainer.model, meanOf(data, batch)).value.data[0], batch.rows];
  });
  model.training = true;
  return losses.reduce((sum, [loss, rows]) => sum + loss * rows, 0) / losses.reduce((sum, [, rows]) => sum + rows, 0);
}

/** Calls the user's function. It may throw, and the library passes the error on. */
function called(world, trainer) {
  const { name, spec } = trainer;
  trainer.calls += 1;
  if (trainer.calls !== spec.throwsAt) return;
  // Only the number of calls changes.
  world.stays = () => (world.get("trainers", name).calls = spec.throwsAt);
  throw new Refused("the function throws", /^mine$/);
}

/**
 * Takes a step of a trainer. If the step is rejected, the contract does not define whether the user's function was called
 * before.
 */
function counted(world, trainer, work) {
  try {
    return work();
  } catch (error) {
    const { name, calls, spec } = trainer;
    if (error instanceof Refused && calls < spec.throwsAt) world.stays = () => world.state.trainers.delete(name);
    throw error;
  }
}

const kindOf = (world, { model, optimizer, spec }) => {
  const { spec: stages } = world.get("models", model);
  const { kind, seed } = spec.data;
  return JSON.stringify([stages, signature(world, world.get("optimizers", optimizer)), kind, seed, spec.epochs]);
};

/** Returns the settings and the data of a training. */
function specOf(gen, { device, width, outputs }) {
  const kind = gen.random.one(["tensors", "list", "function", "async"]);
  const data = { kind, rows: 5, size: 2, dropLast: gen.random.once(3), width, outputs, seed: gen.number() };
  if (kind !== "tensors") data.batches = [2, 1, 2].map((rows) => batchOf(gen, { width, outputs }, rows));
  const spec = { data, epochs: 1 + gen.random.below(3), predicts: gen.random.once(2) };
  const way = gen.random.below(6);
  // The contract does not define the state after a step whose validation throws.
  if (way === 0) spec.throwsAt = 1 + gen.random.below(5);
  if (way === 1) spec.detectAnomaly = true;
  if (way > 1 && gen.random.once(2)) spec.validates = true;
  if (gen.random.once(4)) spec.schedule = { lr: 0.1, gamma: 0.5 };
  return { device, spec };
}

/** Returns actions that create a model, its optimizer, and a trainer of both. */
function trained(gen) {
  const [m, o, r] = ["m", "o", "r"].map((kind) => gen.fresh(kind));
  const device = gen.device();
  const spec = randomSpec(gen.random);
  const rule = gen.random.one(Object.keys(choices));
  return [
    { do: "model", as: m, device, spec, seed: gen.number(), by: "assign" },
    { do: "optimizer", as: o, rule, options: choices[rule](gen.random), model: m },
    { do: "trainer", as: r, model: m, optimizer: o, ...specOf(gen, { device, ...spec }) },
  ];
}

/** An epoch of a history, in JavaScript. */
const EPOCH = "({ epoch, loss, validation }) => [epoch, loss, validation?.loss]";

/** Sets the learning rate of a step from its schedule. Further groups keep their ratios to it. */
function scheduled(world, { optimizer, spec: { schedule }, place }) {
  if (!schedule) return;
  const { groups } = world.get("optimizers", optimizer);
  const lr = schedule.lr * schedule.gamma ** place.steps;
  groups.forEach((group, n) => (group.lr = n === 0 ? lr : (group.base / groups[0].base) * lr));
}

/**
 * Takes the next step of a trainer. Returns its results, or nothing. With `hasToWork`, skips the action if the step would fail.
 */
function nextOf(world, trainer, hasToWork = false) {
  const { spec, place, optimizer } = trainer;
  if (place.epoch >= spec.epochs) return undefined;
  const batches = epochOf(spec.data, place.epoch);
  const batch = batches[place.batch];
  called(world, trainer);
  const loss = counted(world, trainer, () => {
    try {
      scheduled(world, trainer);
      const made = lossOf(world, trainer.model, meanOf(spec.data, batch));
      world.minimize(optimizer, made);
      return made;
    } catch (error) {
      throw hasToWork && error instanceof Refused ? new Skip(error.message) : error;
    }
  });
  const { lr } = world.get("optimizers", optimizer).groups[0];
  const values = [place.steps, place.epoch, place.batch, loss.value.data[0], lr];
  place.sum += loss.value.data[0] * batch.rows;
  place.rows += batch.rows;
  place.steps += 1;
  place.batch += 1;
  if (place.batch < batches.length) return [...values, undefined, undefined, undefined];
  const mean = place.isMixed ? ANY : place.sum / place.rows;
  const ended = [place.epoch, mean, spec.validates ? scored(world, trainer, validation(spec.data)) : undefined];
  const history = [...place.history, ended];
  Object.assign(place, { epoch: place.epoch + 1, batch: 0, sum: 0, rows: 0, isMixed: false, history });
  return [...values, ...ended];
}

/** Returns the contents of a trainer's checkpoint. */
function savedOf(world, trainer) {
  const optimizer = world.needOwnOrSkip(trainer.optimizer);
  const { ids, buffers } = world.get("models", trainer.model);
  const of = (all) => all.map((id) => world.get("variables", id));
  if (world.parameters(optimizer).join() !== ids.join()) throw new Skip("an optimizer of more than the model");
  needNoAverages(world, trainer.optimizer);
  return copied({
    kind: kindOf(world, trainer),
    ids,
    values: of([...ids, ...buffers]).map(({ value }) => value),
    gradients: of(ids).map(({ gradient }) => gradient),
    rates: optimizer.groups.map(({ lr, base }) => ({ lr, base })),
    state: world.remembered(optimizer),
    place: trainer.place,
  });
}

/** Loads the contents of a checkpoint into a training. */
function loadInto(world, trainer, saved) {
  const optimizer = world.needOwnOrSkip(trainer.optimizer);
  if (saved.kind !== kindOf(world, trainer)) throw new Skip("a checkpoint of another training");
  needNoAverages(world, trainer.optimizer);
  const { ids, buffers } = world.get("models", trainer.model);
  [...ids, ...buffers].forEach((id, n) => world.change(id, constant(saved.values[n].shape, saved.values[n].data)));
  ids.forEach((id, n) => {
    const gradient = saved.gradients[n];
    world.get("variables", id).gradient = gradient && constant(gradient.shape, gradient.data);
  });
  for (const id of buffers) world.get("variables", id).gradient = undefined;
  optimizer.groups.forEach((group, n) => Object.assign(group, saved.rates[n]));
  world.remember(optimizer, saved.state, saved.ids);
  trainer.place = copied(saved.place);
}

export const trainers = {
  trainer: {
    weight: 3,
    isSync: false,
    make(gen) {
      const { models, optimizers } = gen.world.state;
      const isOwn = (ids, name) => ids.every((id) => gen.world.get("variables", id).owner === name);
      const isWhole = (one, name) => {
        const ids = gen.world.parameters(one);
        return isOwn(ids, name) && [...models.values()].some((model) => model.ids.join() === ids.join());
      };
      const optimizer = gen.random.once(3) ? undefined : gen.name("optimizers", isWhole);
      if (!optimizer) return gen.random.once(2) ? undefined : trained(gen);
      const ids = gen.world.parameters(optimizers.get(optimizer)).join();
      const model = gen.name("models", (one) => one.ids.join() === ids);
      return { as: gen.fresh("r"), model, optimizer, ...specOf(gen, models.get(model)) };
    },
    write({ as, model, optimizer, device, spec }) {
      const { data, epochs, predicts, validates, throwsAt, detectAnomaly, schedule } = spec;
      const calls = `k${as.slice(1)}`;
      const throwing = throwsAt ? `  if (++${calls} === ${throwsAt}) throw new Error("mine");\n` : "";
      const returned = predicts ? "[loss, guess]" : "loss";
      const loss = `  const guess = ${model}.forward(x), loss = guess.sub(y).square().mean();`;
      const forward = `(x, y) => {\n${throwing}${loss}\n  return ${returned};\n}`;
      const options = { epochs, ...(data.kind === "tensors" && { batchSize: data.size, dropLast: data.dropLast }) };
      const entries = Object.entries(options).map(([key, value]) => `${key}: ${value}`);
      const validated = { ...data, kind: data.kind === "tensors" ? "tensors" : "list" };
      if (predicts) entries.push('metrics: ["meanSquaredError"]');
      if (detectAnomaly) entries.push("detectAnomaly: true");
      if (schedule) entries.push(`schedule: Schedule.exponential(${schedule.lr}, ${schedule.gamma})`);
      if (validates) entries.push(`validation: ${writeData(device, validated)}`);
      const given = [model, optimizer, writeData(device, data), forward, `{ ${entries.join(", ")} }`];
      const made = `${as} = new Trainer(${given.join(", ")});`;
      return throwsAt ? `${calls} = 0;\n${made}` : made;
    },
    run(world, { as, model, optimizer, device, spec }) {
      world.get("models", model).training = true;
      world.get("optimizers", optimizer);
      const place = { epoch: 0, batch: 0, steps: 0, sum: 0, rows: 0, isMixed: false, history: [] };
      world.state.trainers.set(as, { name: as, model, optimizer, device, spec: Object.freeze(spec), place, calls: 0 });
    },
  },

  next: {
    weight: 9,
    make(gen) {
      const trainer = gen.name("trainers");
      return trainer && { trainer };
    },
    result: ({ trainer }) =>
      `await ${trainer}.nextStep().then(async (step) => step && [step.step, step.epoch, step.batch, await step.loss.item(), ` +
      "step.lr, step.ended?.epoch, step.ended?.loss, step.ended?.validation?.loss])",
    run: (world, { trainer }) => nextOf(world, world.get("trainers", trainer)),
  },

  fit: {
    weight: 2,
    make(gen) {
      const trainer = gen.name("trainers", ({ spec }) => !spec.throwsAt);
      return trainer && { trainer };
    },
    result: ({ trainer }) => `(await ${trainer}.fit()).map(${EPOCH})`,
    run(world, { trainer: name }) {
      const trainer = world.get("trainers", name);
      for (let n = 0; nextOf(world, trainer, n > 0); n++);
      return trainer.place.history;
    },
  },

  history: {
    weight: 1,
    make(gen) {
      const trainer = gen.name("trainers");
      return trainer && { trainer };
    },
    result: ({ trainer }) => `[${trainer}.steps, ${trainer}.isOver, ${trainer}.history.map(${EPOCH})]`,
    run(world, { trainer }) {
      const { place, spec } = world.get("trainers", trainer);
      return [place.steps, place.epoch >= spec.epochs, place.history];
    },
  },

  /** Takes steps, loads the earlier checkpoint, and takes the same steps again, which must give the same bits. */
  replay: {
    weight: 2,
    make(gen) {
      const trainer = gen.name("trainers", ({ spec }) => !spec.throwsAt);
      return trainer && { trainer, model: gen.world.get("trainers", trainer).model, steps: 1 + gen.random.below(3) };
    },
    result({ trainer, model, steps }) {
      const lines = [
        `await (async (file, seen) => {`,
        `  for (const isSecond of [false, true]) {`,
        `    if (isSecond) await ${trainer}.load(file);`,
        `    const all = [];`,
        `    for (let n = 0; n < ${steps}; n++) all.push(await (await ${trainer}.nextStep())?.loss.item());`,
        `    for (const variable of ${model}.parameters()) all.push(...(await variable.value.read()));`,
        `    seen.push(all.join());`,
        `  }`,
        `  return seen[0] === seen[1] || seen;`,
        `})(await ${trainer}.save(), [])`,
      ];
      return lines.join("\n");
    },
    run(world, { trainer: name, steps }) {
      const trainer = world.get("trainers", name);
      const file = savedOf(world, trainer);
      // A file has no history. A parameter that was assigned a result of another one trains differently after `load`.
      const isMade = (value) => [...history(value)].some((one) => one !== value && one.variable !== undefined);
      if (file.values.some(isMade)) throw new Skip("a parameter that was computed from a parameter");
      for (let n = 0; n < steps; n++) nextOf(world, trainer, true);
      loadInto(world, trainer, file);
      for (let n = 0; n < steps; n++) nextOf(world, trainer, true);
      return true;
    },
  },

  own: {
    weight: 3,
    make(gen) {
      const trainer = gen.name("trainers");
      if (!trainer) return undefined;
      const { model, device } = gen.world.get("trainers", trainer);
      return { trainer, device, batch: batchOf(gen, gen.world.get("models", model), 1 + gen.random.below(3)) };
    },
    result({ trainer, device, batch }) {
      const step = `${trainer}.step(${writeBatch(device, batch).join(", ")})`;
      return `await ${step}.then(async ({ step, loss }) => [step, await loss.item()])`;
    },
    run(world, { trainer: name, batch }) {
      const trainer = world.get("trainers", name);
      world.get("optimizers", trainer.optimizer);
      called(world, trainer);
      const loss = counted(world, trainer, () => {
        scheduled(world, trainer);
        const made = lossOf(world, trainer.model, meanBatch(batch));
        world.minimize(trainer.optimizer, made);
        return made;
      });
      const { place } = trainer;
      place.isMixed = true;
      return [place.steps++, loss.value.data[0]];
    },
  },

  evaluate: {
    weight: 2,
    make(gen) {
      const trainer = gen.name("trainers");
      if (!trainer) return undefined;
      const { model, device } = gen.world.get("trainers", trainer);
      const one = gen.world.get("models", model);
      return { trainer, device, batches: [batchOf(gen, one, 2), batchOf(gen, one, 1)] };
    },
    result({ trainer, device, batches }) {
      const list = batches.map((batch) => `[${writeBatch(device, batch).join(", ")}]`).join(", ");
      return `await ${trainer}.evaluate([${list}]).then(({ loss, metrics }) => [loss, metrics.meanSquaredError])`;
    },
    run(world, { trainer: name, batches }) {
      const trainer = world.get("trainers", name);
      const loss = scored(world, trainer, batches, { kind: "list" });
      return [loss, trainer.spec.predicts ? loss : undefined];
    },
  },

  save: {
    weight: 3,
    make(gen) {
      const trainer = gen.name("trainers");
      return trainer && { as: gen.fresh("c"), trainer };
    },
    write: ({ as, trainer }) => `${as} = await ${trainer}.save();`,
    run(world, { as, trainer: name }) {
      world.state.files.set(as, savedOf(world, world.get("trainers", name)));
    },
  },

  load: {
    weight: 3,
    make(gen) {
      const trainer = gen.name("trainers");
      const kind = trainer && kindOf(gen.world, gen.world.get("trainers", trainer));
      const file = kind && gen.name("files", (one) => one.kind === kind);
      return file && { trainer, file };
    },
    write: ({ trainer, file }) => `await ${trainer}.load(${file});`,
    run(world, { trainer: name, file }) {
      loadInto(world, world.get("trainers", name), world.get("files", file));
    },
  },

  /** Creates a model, an optimizer and a trainer like existing ones, so that checkpoints fit. */
  twin: {
    weight: 1,
    make(gen) {
      const trainer = gen.name("trainers");
      if (!trainer) return undefined;
      const { model, optimizer, spec, device } = gen.world.get("trainers", trainer);
      const one = gen.world.get("optimizers", optimizer);
      const [own] = one.groups;
      const isWhole = gen.world.parameters(one).join() === gen.world.get("models", model).ids.join();
      if (one.groups.length > 1 || one.scale || !isWhole) return undefined;
      const [m, o, r] = ["m", "o", "r"].map((kind) => gen.fresh(kind));
      const { throwsAt, ...rest } = spec;
      return [
        { do: "model", as: m, device, spec: gen.world.get("models", model).spec, seed: gen.number(), by: "assign" },
        { do: "optimizer", as: o, rule: own.rule, options: own.options, model: m },
        { do: "trainer", as: r, model: m, optimizer: o, device, spec: rest },
      ];
    },
  },

  disposeTrainer: {
    weight: 1,
    isSync: true,
    make(gen) {
      const trainer = gen.random.once(4) ? gen.name("trainers") : undefined;
      return trainer && { trainer };
    },
    write: ({ trainer }) => `${trainer}.dispose();`,
    run(world, { trainer }) {
      world.get("trainers", trainer);
      world.state.trainers.delete(trainer);
    },
  },
};

/** Marks values that are not compared. */
export const ANY = Symbol("any");

/** Returns the batches of a validation, which are the same in one order. */
const validation = (data) => epochOf({ ...data, kind: data.kind === "tensors" ? "tensors" : "list", dropLast: false }, 0);
