// Actions on models, which are classes that extend `Module`, with layers, variables and inner modules: their states, and
// training steps.

import { first, forward, makeModel, parametersOf, randomSpec, tensorOf, writeModel } from "../models.js";
import { count, numbers } from "../random.js";
import { constant, Refused, Skip } from "../tape.js";

/** Returns the path of a parameter in a state: `stage0.weight` for `m1.stage0.parameter("weight")`. */
function pathOf(name, id) {
  const path = id.slice(name.length).replace(/\[(\d+)\]/g, ".$1");
  return path.replace(/\.parameter\("(\w+)"\)/g, ".$1").slice(1);
}

/** Returns a batch of examples for a model, as plain data. */
export const batchOf = (gen, { width, outputs }, rows) => ({ rows, width, outputs, seed: gen.number() });

const features = ({ rows, width, seed }) => [numbers(seed, rows * width), [rows, width]];
const targets = ({ rows, outputs, seed }) => [numbers(seed + 1, rows * outputs, 0.5), [rows, outputs]];

/** Returns the JavaScript and the values of a batch. */
export const writeBatch = (device, batch) => [tensorOf(device, ...features(batch)), tensorOf(device, ...targets(batch))];
export const meanBatch = (batch) => [features(batch), targets(batch)].map(([data, shape]) => constant(shape, data));

/** Returns the mean squared error of a model. */
export function lossOf(world, model, [x, y]) {
  const { device } = world.get("models", model);
  const { ops } = world;
  return { value: ops.mean(ops.square(ops.sub(forward(world, model, x, device), y))), device };
}

export const models = {
  model: {
    weight: 3,
    isSync: true,
    make(gen) {
      const by = gen.random.one(["assign", "state"]);
      return { as: gen.fresh("m"), device: gen.device(), spec: randomSpec(gen.random), seed: gen.number(), by };
    },
    write({ as, device, spec, seed, by }) {
      const parameters = parametersOf(as, spec).map((one, n) => [one.id, tensorOf(device, first(seed, n, one), one.shape)]);
      const made = `${as} = ${writeModel(spec, device)};`;
      if (by === "assign") return [made, ...parameters.map(([id, value]) => `${id}.assign(${value});`)].join("\n");
      const state = parameters.map(([id, value]) => `  ${JSON.stringify(pathOf(as, id))}: ${value},`);
      return [made, `${as}.loadStateDict({`, ...state, "});"].join("\n");
    },
    run: (world, { as, ...rest }) => makeModel(world, as, rest),
  },

  train: {
    weight: 5,
    isSync: true,
    make(gen) {
      const optimizer = gen.name("optimizers");
      const { device } = optimizer ? gen.world.get("optimizers", optimizer) : {};
      const ids = optimizer ? gen.world.parameters(gen.world.get("optimizers", optimizer)) : [];
      const isOf = (one) => one.device === device && one.ids.some((id) => ids.includes(id));
      const model = gen.name("models", isOf);
      if (!model) return undefined;
      const batch = batchOf(gen, gen.world.get("models", model), 1 + gen.random.below(4));
      return { optimizer, model, device, batch };
    },
    write({ optimizer, model, device, batch }) {
      const [x, y] = writeBatch(device, batch);
      return `${device}.scope(() => ${optimizer}.minimize(${model}.forward(${x}).sub(${y}).square().mean()));`;
    },
    result: ({ optimizer }) => `${optimizer}.steps`,
    run(world, { optimizer, model, batch }) {
      const loss = lossOf(world, model, meanBatch(batch));
      const buffers = world.get("models", model).buffers.map((id) => [id, world.get("variables", id).value]);
      // The model has run, even if the step fails.
      world.stays = () => buffers.forEach(([id, value]) => world.change(id, value));
      world.minimize(optimizer, loss);
      return world.get("optimizers", optimizer).groups[0].steps;
    },
  },

  predict: {
    weight: 3,
    make(gen) {
      const model = gen.name("models");
      if (!model) return undefined;
      const one = gen.world.get("models", model);
      return { model, device: one.device, batch: batchOf(gen, one, 1 + gen.random.below(4)) };
    },
    result({ model, device, batch }) {
      return `[...(await ${device}.scope(() => ${model}.forward(${writeBatch(device, batch)[0]})).read())]`;
    },
    run: (world, { model, device, batch }) => forward(world, model, meanBatch(batch)[0], device).data,
  },

  modelState: {
    weight: 1,
    isSync: true,
    make(gen) {
      const model = gen.name("models");
      return model && { as: gen.fresh("s"), model };
    },
    write: ({ as, model }) => `${as} = ${model}.stateDict();`,
    result: ({ as }) => `Object.keys(${as}).sort().join()`,
    run(world, { as, model }) {
      const { spec, ids, buffers, device } = world.get("models", model);
      const all = [...ids, ...buffers];
      const values = all.map((id) => world.get("variables", id).value);
      // The contract does not define whether gradients pass through a state to an assigned tensor.
      if (values.some(({ operands: [taken] }) => taken?.operands.length)) throw new Skip("values with a past");
      world.state.states.set(as, { kind: JSON.stringify([spec, device]), values });
      return all.map((id) => pathOf(model, id)).sort().join();
    },
  },

  loadModelState: {
    weight: 3,
    isSync: true,
    make(gen) {
      const model = gen.name("models");
      if (!model) return undefined;
      const { spec, device } = gen.world.get("models", model);
      const state = gen.name("states", ({ kind, values }) => values && kind === JSON.stringify([spec, device]));
      return state && { model, state };
    },
    write: ({ model, state }) => `${model}.loadStateDict(${state});`,
    run(world, { model, state }) {
      const { spec, ids, buffers, device } = world.get("models", model);
      const { kind, values } = world.get("states", state);
      if (kind !== JSON.stringify([spec, device])) throw new Refused("a state of another model");
      [...ids, ...buffers].forEach((id, n) => world.change(id, constant(values[n].shape, values[n].data)));
    },
  },

  mode: {
    weight: 1,
    isSync: true,
    make(gen) {
      const model = gen.name("models");
      return model && { model, on: gen.random.once(2) };
    },
    write: ({ model, on }) => `${model}.${on ? "train" : "eval"}();`,
    result: ({ model }) => `${model}.training`,
    run(world, { model, on }) {
      const one = world.get("models", model);
      // The contract does not define when a trainer changes the mode back.
      const isTrained = [...world.state.trainers.values()].some((trainer) => trainer.model === model);
      if (one.buffers.length && isTrained) throw new Skip("it trains");
      one.training = on;
      return on;
    },
  },

  parameters: {
    weight: 1,
    isSync: true,
    make(gen) {
      const model = gen.name("models");
      return model && { model };
    },
    result: ({ model }) => `[${model}.parameterCount, ${model}.namedParameters().map(([path]) => path).join()]`,
    run(world, { model }) {
      const { ids } = world.get("models", model);
      const sizes = ids.map((id) => count(world.get("variables", id).value.shape));
      return [sizes.reduce((a, b) => a + b), ids.map((id) => pathOf(model, id)).join()];
    },
  },
};
