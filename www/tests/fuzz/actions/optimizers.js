// Actions on optimizers: creation after values were computed, several for one model, groups, accumulation, clipping, rates,
// states, mixed precision, and weight averages.

import { choices } from "../rules.js";
import { Refused, Skip } from "../tape.js";

/** Returns the options of a rule in JavaScript. */
const options = (all) => `{ ${Object.entries(all).map(([key, value]) => `${key}: ${JSON.stringify(value)}`).join(", ")} }`;

/** Returns an optimizer that still owns all its parameters, or sometimes any optimizer. */
function optimizerOf(gen, fits = () => true) {
  const isOwn = (one, name) => gen.world.parameters(one).every((id) => gen.world.state.variables.get(id)?.owner === name);
  const own = gen.name("optimizers", (one, name) => isOwn(one, name) && fits(one, name));
  return own && !gen.random.once(12) ? own : gen.name("optimizers", fits);
}

/** Returns an action on a number that depends on parameters of an optimizer, and the actions that create the number. */
function withLoss(gen, kind, optimizer) {
  if (!optimizer) return undefined;
  const one = gen.world.get("optimizers", optimizer);
  const { ref, actions } = gen.loss(gen.world.parameters(one), one.device);
  return ref && [...actions, { do: kind, optimizer, loss: ref }];
}

export const optimizers = {
  optimizer: {
    weight: 4,
    isSync: true,
    make(gen) {
      const rule = gen.random.one(Object.keys(choices));
      const made = { as: gen.fresh("o"), rule, options: choices[rule](gen.random) };
      // Another optimizer of its parameters ends a training, so this happens rarely.
      const trained = gen.random.once(8) ? [] : [...gen.world.state.trainers.values()].map(({ optimizer }) => optimizer);
      const isFree = (id) => !trained.includes(gen.world.get("variables", id).owner);
      const model = gen.random.once(2) ? gen.name("models", ({ ids }) => ids.every(isFree)) : undefined;
      if (model) return { ...made, model };
      const device = gen.device();
      const all = gen.names("variables", (one, id) => one.device === device && isFree(id));
      if (!all.length) return undefined;
      const some = Array.from({ length: 1 + gen.random.below(3) }, () => gen.random.one(all));
      return { ...made, of: [...new Set(some)] };
    },
    write({ as, rule, options: all, model, of }) {
      return `${as} = Optimizer.${rule}(${model ?? `[${of.join(", ")}]`}, ${options(all)});`;
    },
    run(world, { as, rule, options: all, model, of }) {
      world.optimizer(as, rule, all, model ? world.get("models", model).ids : of);
    },
  },

  minimize: {
    weight: 7,
    isSync: true,
    make: (gen) => withLoss(gen, "minimize", optimizerOf(gen)),
    write: ({ optimizer, loss }) => `${optimizer}.minimize(${loss});`,
    result: ({ optimizer }) => `${optimizer}.steps`,
    run(world, { optimizer, loss }) {
      world.minimize(optimizer, world.tensor(loss));
      return world.get("optimizers", optimizer).groups[0].steps;
    },
  },

  accumulate: {
    weight: 4,
    isSync: true,
    make(gen) {
      const isOwn = (one, name) => gen.world.parameters(one).every((id) => gen.world.state.variables.get(id)?.owner === name);
      return withLoss(gen, "accumulate", gen.name("optimizers", isOwn));
    },
    write: ({ optimizer, loss }) => `${optimizer}.accumulate(${loss});`,
    run: (world, { optimizer, loss }) => world.accumulate(optimizer, world.tensor(loss)),
  },

  step: {
    weight: 5,
    isSync: true,
    make(gen) {
      const isLeft = (id) => gen.world.state.variables.get(id)?.gradient;
      const isReady = (one) => one.pending.size || gen.world.parameters(one).some(isLeft);
      const optimizer = optimizerOf(gen, isReady) ?? (gen.random.once(6) ? optimizerOf(gen) : undefined);
      return optimizer && { optimizer };
    },
    write: ({ optimizer }) => `${optimizer}.step();`,
    result: ({ optimizer }) => `${optimizer}.steps`,
    run(world, { optimizer }) {
      world.step(optimizer);
      return world.get("optimizers", optimizer).groups[0].steps;
    },
  },

  rate: {
    weight: 1,
    isSync: true,
    make(gen) {
      const optimizer = gen.name("optimizers");
      if (!optimizer) return undefined;
      const { groups } = gen.world.get("optimizers", optimizer);
      const group = groups.length > 1 && gen.random.once(2) ? gen.random.below(groups.length) : undefined;
      return { optimizer, lr: gen.random.one([0.03, 0.2]), ...(group !== undefined && { group }) };
    },
    write({ optimizer, lr, group }) {
      return group === undefined ? `${optimizer}.lr = ${lr};` : `${optimizer}.setGroupLr(${group}, ${lr});`;
    },
    run(world, { optimizer, lr, group }) {
      const { groups } = world.get("optimizers", optimizer);
      if (group >= groups.length) throw new Refused("there is no such group");
      for (const [n, one] of groups.entries()) if (group === undefined || n === group) Object.assign(one, { lr, base: lr });
    },
  },

  clip: {
    weight: 1,
    isSync: true,
    make(gen) {
      const optimizer = gen.name("optimizers");
      return optimizer && { optimizer, by: gen.random.one(["norm", "value"]), max: gen.random.one([0.5, 2]) };
    },
    write: ({ optimizer, by, max }) => `${optimizer}.clip${by === "norm" ? "Norm" : "Value"}(${max});`,
    run: (world, { optimizer, by, max }) => void (world.get("optimizers", optimizer).clip = { by, max }),
  },

  addGroup: {
    weight: 1,
    isSync: true,
    make(gen) {
      const of = optimizerOf(gen);
      const isNew = ({ groups, pending, clip, scale }) => !groups[0].steps && !pending.size && !clip && !scale;
      const device = of && gen.world.get("optimizers", of).device;
      const other = of && gen.name("optimizers", (one, name) => name !== of && isNew(one) && one.device === device);
      const isTrained = [...gen.world.state.trainers.values()].some(({ optimizer }) => optimizer === other);
      return other && !isTrained ? { optimizer: of, other } : undefined;
    },
    write: ({ optimizer, other }) => `${optimizer}.addGroup(${other});`,
    run(world, { optimizer, other }) {
      // The contract does not define this for an optimizer that has lost a parameter.
      const [own, taken] = [world.needOwnOrSkip(optimizer), world.needOwnOrSkip(other)];
      const [{ groups, pending, clip, scale }] = [taken];
      if (optimizer === other || groups[0].steps || pending.size || clip || scale || own.device !== taken.device) {
        throw new Refused("the other one has begun");
      }
      own.groups.push(...groups);
      for (const id of world.parameters(taken)) world.get("variables", id).owner = optimizer;
      world.state.optimizers.delete(other);
      for (const [name, average] of world.state.averages) if (average.optimizer === other) world.state.averages.delete(name);
    },
  },

  /** Disposes of an optimizer. A parameter belongs to its last optimizer, even after that one is disposed of. */
  disposeOptimizer: {
    weight: 1,
    isSync: true,
    make(gen) {
      const { trainers, averages } = gen.world.state;
      const used = [...trainers.values(), ...averages.values()].map(({ optimizer }) => optimizer);
      const optimizer = gen.name("optimizers", (_, name) => !used.includes(name));
      return optimizer && { optimizer };
    },
    write: ({ optimizer }) => `${optimizer}.dispose();`,
    run(world, { optimizer }) {
      world.get("optimizers", optimizer);
      const { trainers, averages } = world.state;
      const users = [...trainers.values(), ...averages.values()];
      if (users.some((one) => one.optimizer === optimizer)) throw new Skip("it is in use");
      world.state.optimizers.delete(optimizer);
    },
  },

  mixedPrecision: {
    weight: 1,
    isSync: true,
    make(gen) {
      if (!gen.world.hasHalf) return undefined;
      const isNew = ({ groups, pending, scale }) => !scale && !pending.size && !groups[0].steps;
      const optimizer = gen.name("optimizers", isNew);
      return optimizer && { optimizer, initial: 8, growth: 2, interval: 2 };
    },
    write({ optimizer, initial, growth, interval }) {
      const scale = { initScale: initial, growthFactor: growth, growthInterval: interval };
      return `${optimizer}.mixedPrecision(${options(scale)});`;
    },
    run(world, { optimizer, initial, growth, interval }) {
      world.get("optimizers", optimizer).scale = { now: initial, growth, interval, good: 0 };
    },
  },

  lossScale: {
    weight: 2,
    make(gen) {
      const optimizer = gen.name("optimizers", ({ scale }) => scale);
      return optimizer && { optimizer };
    },
    result: ({ optimizer }) => `await ${optimizer}.lossScale()?.item()`,
    run: (world, { optimizer }) => world.get("optimizers", optimizer).scale?.now,
  },

  state: {
    weight: 1,
    isSync: true,
    make(gen) {
      const optimizer = optimizerOf(gen);
      return optimizer && { as: gen.fresh("s"), optimizer };
    },
    write: ({ as, optimizer }) => `${as} = ${optimizer}.stateDict();`,
    run(world, { as, optimizer }) {
      const one = world.needOwnOrSkip(optimizer);
      needNoAverages(world, optimizer);
      world.state.states.set(as, { kind: signature(world, one), from: world.parameters(one), state: world.remembered(one) });
    },
  },

  loadState: {
    weight: 3,
    make(gen) {
      const optimizer = optimizerOf(gen);
      const kind = optimizer && signature(gen.world, gen.world.get("optimizers", optimizer));
      const state = kind && gen.name("states", (one) => one.kind === kind);
      return state && { optimizer, state };
    },
    write: ({ optimizer, state }) => `await ${optimizer}.loadStateDict(${state});`,
    run(world, { optimizer, state }) {
      const one = world.needOwnOrSkip(optimizer);
      const saved = world.get("states", state);
      if (saved.kind !== signature(world, one)) throw new Refused("a state of another optimizer");
      needNoAverages(world, optimizer);
      world.remember(one, saved.state, saved.from);
    },
  },

  average: {
    weight: 2,
    isSync: true,
    make(gen) {
      const optimizer = optimizerOf(gen);
      return optimizer && { as: gen.fresh("a"), optimizer, decay: gen.random.one([0.5, 0.9]) };
    },
    write: ({ as, optimizer, decay }) => `${as} = ${optimizer}.average(${decay});`,
    run: (world, { as, optimizer, decay }) => world.average(as, optimizer, decay),
  },

  updateAverage: {
    weight: 3,
    isSync: true,
    make(gen) {
      const average = gen.name("averages");
      return average && { average };
    },
    write: ({ average }) => `${average}.update();`,
    run: (world, { average }) => world.updateAverage(average),
  },

  swap: {
    weight: 3,
    isSync: true,
    make(gen) {
      const average = gen.name("averages");
      return average && { average };
    },
    write: ({ average }) => `${average}.swap();`,
    run: (world, { average }) => world.swap(average),
  },
};

/** Returns the signature of an optimizer. Optimizers with the same signature accept each other's states. */
export function signature(world, { groups, scale, device }) {
  const shapes = (ids) => ids.map((id) => world.get("variables", id).value.shape);
  const kinds = groups.map(({ rule, options: { lr: _, ...rest }, ids }) => [rule, rest, shapes(ids)]);
  return JSON.stringify([kinds, Boolean(scale), device]);
}

/**
 * Skips an action on the state of an optimizer with averages. The state has their values by number, but the world has them by
 * name. The fuzz test in Rust covers them.
 */
export function needNoAverages(world, name) {
  if ([...world.state.averages.values()].some(({ optimizer }) => optimizer === name)) throw new Skip("averages");
}
