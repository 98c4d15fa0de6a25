// Making actions at random, each of what the world has by then. The same seed makes the same actions, as long as the library
// gives the same answers.

import { actions } from "./actions.js";
import { makeStep, mean, weights } from "./forms.js";
import { chance, count } from "./random.js";
import { history, Refused, Skip } from "./tape.js";

/** What `work` gives; undefined where it means nothing, or an error. */
export function attempt(work) {
  try {
    return work();
  } catch (error) {
    if (error instanceof Refused || error instanceof Skip) return undefined;
    throw error;
  }
}

/** Makes actions for a world that changes by them. */
export class Generator {
  /** `without` are kinds of actions that are not made. */
  constructor(world, seed, { hasElements = false, without = [] } = {}) {
    this.world = world;
    this.hasElements = hasElements;
    this.without = without;
    this.random = chance(seed);
    this.seed = seed;
    this.made = 0;
    /** Whether a function is being made that records operations. */
    this.isInside = false;
  }

  /** A name that nothing has yet. */
  fresh(kind) {
    return `${kind}${++this.made}`;
  }

  /** A seed for values. */
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

  /** All names of one kind whose things fit. */
  names(kind, fits = () => true) {
    return [...this.world.state[kind]].filter(([name, thing]) => fits(thing, name)).map(([name]) => name);
  }

  /** One of them; undefined where there is none. */
  name(kind, fits) {
    const all = this.names(kind, fits);
    return all.length ? this.random.one(all) : undefined;
  }

  /** All tensors that operations can be made of, `{ ref, value, device }` each: the newer ones are there more often. */
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

  /** One action, or a few that go together, of a kind that fits; none where what was chosen can not be made. */
  action(fits = () => true) {
    const kinds = Object.entries(actions).filter(([name, kind]) => !this.without.includes(name) && fits(kind, name));
    const name = this.random.weighted(Object.fromEntries(kinds.map(([key, { weight }]) => [key, weight])));
    const made = actions[name].make(this) ?? [];
    return [made].flat().map((one) => ({ do: name, ...one }));
  }

  /**
   * A number that depends on one of these variables, `{ ref, actions }`: one that is there, or one that further actions make.
   * Once in a while it is any number.
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

  /** Another shape than an operand's, which does not broadcast with it. */
  misfit({ value: { shape } }) {
    return shape.length ? shape.map((extent) => extent + 4) : [7, 5];
  }

  /**
   * A function of a few operations, of `inputs`, whose names begin with `kind`, and of tensors from outside. The last result is
   * that of the last operation.
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
