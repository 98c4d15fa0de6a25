// Makes random actions for the current world. The same seed makes the same actions, as long as the library gives the same
// answers.

import { actions } from "./actions.js";
import { makeStep, mean, weights } from "./forms.js";
import { chance, count } from "./random.js";
import { history, Refused, Skip } from "./tape.js";

/** Returns the result of `work`, or undefined if it is skipped or an error. */
export function attempt(work) {
  try {
    return work();
  } catch (error) {
    if (error instanceof Refused || error instanceof Skip) return undefined;
    throw error;
  }
}

/** Makes actions for a world that they change. */
export class Generator {
  /** `without` lists kinds of actions that are not made. */
  constructor(world, seed, { hasElements = false, without = [] } = {}) {
    this.world = world;
    this.hasElements = hasElements;
    this.without = without;
    this.random = chance(seed);
    this.seed = seed;
    this.made = 0;
    /** Whether a function that records operations is being made. */
    this.isInside = false;
  }

  /** Returns an unused name. */
  fresh(kind) {
    return `${kind}${++this.made}`;
  }

  /** Returns a seed for values. */
  number() {
    return this.random.below(1e6);
  }

  device() {
    // Most of a program is on one device.
    return this.random.once(5) ? this.random.one(this.world.devices) : this.world.devices[0];
  }

  shape() {
    return this.random.one([[], [2], [3], [2, 3], [3, 2], [2, 2], [3, 3], [2, 3]]);
  }

  /** Returns all names of one kind whose objects fit. */
  names(kind, fits = () => true) {
    return [...this.world.state[kind]].filter(([name, thing]) => fits(thing, name)).map(([name]) => name);
  }

  /** Returns one of these names, or undefined. */
  name(kind, fits) {
    const all = this.names(kind, fits);
    return all.length ? this.random.one(all) : undefined;
  }

  /** Returns all tensors that can be operands, `{ ref, value, device }` each. Newer ones occur more often. */
  operands(fits = () => true) {
    const { tensors, variables } = this.world.state;
    const named = [...tensors].map(([ref, { value, device }]) => ({ ref, value, device }));
    const read = [...variables].map(([id, { value, device }]) => ({ ref: `${id}.value`, value, device }));
    return [...named, ...named.slice(-4), ...read].filter(fits);
  }

  operand(fits) {
    const all = this.operands(fits);
    return all.length ? this.random.one(all) : undefined;
  }

  /** Returns an action or a few related ones, of a kind that fits. Returns none if the chosen kind cannot be made. */
  action(fits = () => true) {
    const kinds = Object.entries(actions).filter(([name, kind]) => !this.without.includes(name) && fits(kind, name));
    const name = this.random.weighted(Object.fromEntries(kinds.map(([key, { weight }]) => [key, weight])));
    const made = actions[name].make(this) ?? [];
    return [made].flat().map((one) => ({ do: name, ...one }));
  }

  /**
   * Returns a number that depends on one of these variables, `{ ref, actions }`: an existing one, or one that further actions
   * create. Sometimes returns any number.
   */
  loss(ids, device) {
    const { random } = this;
    const isNumber = (one) => one.device === device && count(one.value.shape) === 1;
    if (random.once(12)) return { ref: this.operand(isNumber)?.ref, actions: [] };
    const values = ids.map((id) => this.world.get("variables", id).value);
    const there = this.operands((one) => isNumber(one) && [...history(one.value)].some((value) => values.includes(value)));
    if (there.length && !random.once(3)) return { ref: random.one(there).ref, actions: [] };
    const [a, b, c] = ["t", "t", "t"].map((kind) => this.fresh(kind));
    const id = random.one(ids);
    const { value } = this.world.get("variables", id);
    const first = { do: "operation", as: [a], op: random.one(["tanh", "square"]), of: [`${id}.value`] };
    const others = this.operands((one) => one.device === device && `${one.value.shape}` === `${value.shape}`);
    const second = { do: "operation", as: [b], op: random.one(["mul", "sub"]), of: [a, random.one(others).ref] };
    const last = { do: "operation", as: [c], op: random.one(["sum", "mean"]), of: [random.once(2) ? a : b], with: [null] };
    return { ref: c, actions: [first, ...(last.of[0] === b ? [second] : []), last] };
  }

  /** Returns a shape that does not broadcast with an operand's shape. */
  misfit({ value: { shape } }) {
    return shape.length ? shape.map((extent) => extent + 4) : [7, 5];
  }

  /**
   * Returns a function of a few operations on `inputs`, whose names begin with `kind`, and on tensors from outside. The last
   * result is that of the last operation.
   */
  body(inputs, others, kind, most, chosen = { ...weights, checkpoint: kind === "h" ? 0 : 1 }) {
    const isInside = this.isInside;
    this.isInside = true;
    const made = this.#body(inputs, others, kind, most, chosen);
    this.isInside = isInside;
    return made;
  }

  #body(inputs, others, kind, most, chosen) {
    const locals = inputs.map(({ value, device }) => ({ ref: this.fresh(kind), value, device }));
    const names = locals.map(({ ref }) => ref);
    const steps = [];
    const wanted = this.random.once(8) ? 0 : 1 + this.random.below(most);
    for (let tries = 0; steps.length < wanted && tries < 3 * most; tries++) {
      const all = [...locals, ...locals, ...locals.slice(-1), ...others];
      const step = makeStep(this, all, chosen);
      if (!step) continue;
      const operands = step.of.map((ref) => all.find((one) => one.ref === ref));
      const made = attempt(() => mean(this.world, step, operands));
      if (!made) continue;
      const as = made.map(() => this.fresh("b"));
      steps.push({ as, ...step });
      made.forEach(({ value, device }, n) => locals.push({ ref: as[n], value, device }));
    }
    const last = locals.at(-1).ref;
    const more = this.random.once(2) ? [this.random.one(locals).ref] : [];
    return { inputs: names, steps, results: [...more, last] };
  }
}
