// The reference: the meaning of a program of the fuzz, computed eagerly in float64, by the contract of docs/state.md. It shares
// no code with the library.
//
// A world has all objects of a program by name: tensors, variables, optimizers and so on. Each assignment gives a variable a
// new value. Gradients pass from it to the assigned tensor, and a loss of an earlier value differs from one of the current
// value.
//
// A world notes in `lenient` whether the library may reject an action that has a result here. "lifetime" means that a gradient
// passes a tensor that is no longer held, which may be an error. "any" means that the contract does not define the case, and
// "memory" means that memory may run out.

import { needed } from "./forms.js";
import { count } from "./random.js";
import { rules } from "./rules.js";
import { between, clock, constant, gradients, history, operations, Refused, Skip } from "./tape.js";

/** Copies the state of a world. Values and arrays never change, so they are shared. */
export function copied(state) {
  if (state === null || typeof state !== "object" || Object.isFrozen(state)) return state;
  if (state instanceof Map) return new Map([...state].map(([key, value]) => [key, copied(value)]));
  if (Array.isArray(state)) return state.map(copied);
  if (Object.getPrototypeOf(state) !== Object.prototype) return state;
  return Object.fromEntries(Object.entries(state).map(([key, value]) => [key, copied(value)]));
}

/**
 * Returns everything in a loss that a step consumes: the paths to values of parameters that it changed, up to values of other
 * variables.
 */
function usedUp(loss, changed) {
  const used = new Set();
  const near = history(loss, (one) => one.variable !== undefined);
  for (const one of [...near].sort((a, b) => a.born - b.born)) {
    if (one.variable === undefined && one.operands.some((operand) => changed.has(operand) || used.has(operand))) used.add(one);
  }
  return used;
}

const KINDS = ["tensors", "variables", "programs", "models", "optimizers", "averages", "trainers", "files", "states", "reads"];

export class World {
  /** With wrong operations, rules or methods, the fuzz has a difference to find. */
  constructor({ devices, wrong = {} }) {
    this.devices = devices;
    this.ops = { ...operations, ...wrong.operations };
    this.rules = { ...rules, ...wrong.rules };
    Object.assign(this, wrong.world);
    this.state = Object.fromEntries(KINDS.map((kind) => [kind, new Map()]));
    /** Consumed by steps: losses, their history, and the parameter values that the steps changed. */
    this.state.spent = [];
    /** Gradients that are the seed, or gradients by several tensors. In the library, they may be one tensor or several. */
    this.shared = new WeakSet();
    this.begin();
  }

  /** Begins an action. */
  begin() {
    this.mark = clock();
    this.lenient = undefined;
    /** Repeats the changes that an action makes even if it is rejected. */
    this.stays = undefined;
    /** In a program, the outside value of each variable that it reads, by the tensor that it reads. */
    this.outside = new Map();
  }

  snapshot() {
    return copied(this.state);
  }

  restore(state) {
    this.state = state;
  }

  /** Returns an object by its name. An action on an object that no longer exists after shrinking is skipped on both sides. */
  get(kind, name) {
    const found = this.state[kind].get(name);
    if (!found) throw new Skip(`there is no ${name}`);
    return found;
  }

  // Tensors.

  /** Returns the tensor of an expression: a name, or a variable's value, such as `v1.value`. */
  tensor(ref) {
    if (ref.endsWith(".value")) return this.get("variables", ref.slice(0, -".value".length));
    return this.get("tensors", ref);
  }

  bind(name, value, device, of = undefined) {
    this.state.tensors.set(name, { value, device, of });
  }

  /** Disposes of a tensor. Other names may refer to the same object, if it belongs to a variable. */
  drop(name) {
    const { of } = this.get("tensors", name);
    this.state.tensors.delete(name);
    if (of) this.remove(of);
  }

  /** Disposes of the objects of a variable's values when the variable gets another value. */
  remove(variable) {
    for (const [name, { of }] of this.state.tensors) if (of === variable) this.state.tensors.delete(name);
  }

  /** Lets a variable take over the assigned object, unless another variable has it. */
  take(ref, id) {
    const tensor = this.state.tensors.get(ref);
    if (tensor) tensor.of ??= id;
  }

  /** Returns all held values: by a name, a variable, or a program. */
  held() {
    const { tensors, variables, programs } = this.state;
    const held = new Set([...tensors.values(), ...variables.values()].map(({ value }) => value));
    for (const { body, captured } of programs.values()) {
      for (const ref of needed(body)) if (captured.has(ref)) held.add(captured.get(ref).value);
    }
    for (const { gradient } of variables.values()) if (gradient) held.add(gradient);
    for (const value of this.outside.values()) held.add(value);
    return held;
  }

  /**
   * In a program, rejects a gradient by a variable that is part of an outside tensor's history. That tensor is a constant
   * there.
   */
  needInside(value, wrt) {
    const ends = wrt.map((one) => this.outside.get(one)).filter(Boolean);
    if (between(value, ends).size === 0) return;
    throw new Refused("a gradient by a variable that went into what a program uses", /tensor from outside|was dropped|used up/);
  }

  /** Notes whether gradients of a value by others pass a value that is not held, or that a step has consumed. */
  passes(value, wrt) {
    const way = between(value, wrt);
    for (const { used, changed } of this.state.spent) {
      // A consumed value passes no gradients, and the history behind it is unknown.
      if ([...history(value)].some((one) => used.has(one))) this.lenient = "any";
      if (![...changed].some((parameter) => way.has(parameter))) continue;
      if (used.has(value)) throw new Refused("a step has used up this loss");
      // The contract does not define whether a gradient is the parameter's earlier value or a copy.
      if (changed.has(value)) this.lenient = "any";
      const ends = [...changed].filter((parameter) => way.has(parameter));
      if ([...between(value, ends)].some((one) => used.has(one))) this.lenient = "any";
    }
    const held = this.held();
    const isLost = (one) => !held.has(one) && !one.inside && one.born <= this.mark;
    const touched = [...way].flatMap((one) => (wrt.includes(one) ? [one] : [one, ...one.operands]));
    // The library need not keep the history behind a value that is not held. A gradient may pass it or not.
    if ([...touched, ...history(value)].some(isLost)) this.lenient ??= "lifetime";
  }

  /** Returns the gradients of tensors on one device. */
  gradients(of, seed, wrt) {
    if ([seed, ...wrt].some((other) => other && other.device !== of.device)) throw new Refused("tensors on two devices");
    const { shape } = of.value;
    if (!seed && count(shape) !== 1) throw new Refused(`a gradient of shape [${shape}]`);
    if (seed && `${seed.value.shape}` !== `${shape}`) throw new Refused("a seed of another shape");
    const values = wrt.map(({ value }) => value);
    this.passes(of.value, values);
    this.needInside(of.value, values);
    const shared = values.filter((value) => this.shared.has(value));
    if (between(of.value, shared).size) throw new Skip("by what may be a gradient of its own, or another one");
    const from = seed ? seed.value : constant(shape, [1]);
    const found = gradients(this.ops, of.value, from, values);
    found.forEach((one, n) => one && (one === from || found.indexOf(one) !== n) && this.shared.add(one));
    return found;
  }

  // Variables.

  /** Assigns a value to a variable. Gradients pass to the assigned tensor. */
  assign(id, value) {
    const taken = this.ops.itself(value);
    this.change(id, taken);
    return taken;
  }

  change(id, value) {
    value.variable = id;
    this.get("variables", id).value = value;
    this.remove(id);
  }

  variable(id, value, device) {
    this.state.variables.set(id, { device, value: undefined, gradient: undefined, owner: undefined });
    return this.assign(id, value);
  }

  /**
   * Rejects a loss that used an earlier value of one of these variables. A value of another variable belongs to that variable,
   * whatever was assigned to it.
   */
  needCurrent(loss, ids) {
    const { variables } = this.state;
    const isCurrent = (one) => one.variable !== undefined && variables.get(one.variable)?.value === one;
    const isPast = (id) => (one) => one.variable === id && !isCurrent(one);
    const near = history(loss, (one) => one.variable !== undefined);
    for (const id of ids) {
      if ([...near].some(isPast(id))) throw new Refused(`a loss of an earlier value of ${id}`, /variable|parameter|`/i);
      // The path through another variable may have lost its history.
      if ([...history(loss, (one) => one === variables.get(id).value)].some(isPast(id))) this.lenient = "any";
    }
  }

  /** Returns the gradients of a loss by the values of variables, or undefined if it does not depend on one. */
  byVariables(loss, ids) {
    const variables = ids.map((id) => this.get("variables", id));
    if (count(loss.value.shape) !== 1) throw new Refused(`a loss of shape [${loss.value.shape}]`);
    this.needCurrent(loss.value, ids);
    return this.gradients(loss, undefined, variables);
  }

  backward(loss, ids) {
    const found = this.byVariables(loss, ids);
    ids.forEach((id, n) => {
      const variable = this.get("variables", id);
      if (found[n]) variable.gradient = variable.gradient ? this.ops.add(variable.gradient, found[n]) : found[n];
    });
  }

  // Optimizers.

  optimizer(name, rule, options, ids) {
    const devices = new Set(ids.map((id) => this.get("variables", id).device));
    if (devices.size !== 1 || new Set(ids).size !== ids.length) throw new Refused("parameters of two devices, or twice");
    const group = { rule, options, lr: options.lr, base: options.lr, steps: 0, ids, memory: new Map() };
    const scale = undefined;
    const made = { device: [...devices][0], groups: [group], pending: new Map(), losses: [], clip: undefined, scale };
    this.state.optimizers.set(name, made);
    for (const id of ids) this.get("variables", id).owner = name;
  }

  parameters(optimizer) {
    return optimizer.groups.flatMap(({ ids }) => ids);
  }

  /** Rejects an optimizer if one of its parameters belongs to a later one. */
  needOwn(name) {
    const optimizer = this.get("optimizers", name);
    for (const id of this.parameters(optimizer)) {
      if (this.get("variables", id).owner !== name) throw new Refused(`${id} belongs to another optimizer`, /optimi[sz]er/i);
    }
    return optimizer;
  }

  /** Skips the action in this case. The contract only defines steps of an old optimizer. */
  needOwnOrSkip(name) {
    try {
      return this.needOwn(name);
    } catch (error) {
      throw error instanceof Refused ? new Skip(error.message) : error;
    }
  }

  /** Returns the gradients of a loss by its parameters. */
  byParameters(optimizer, loss) {
    const ids = this.parameters(optimizer);
    const found = this.byVariables(loss, ids);
    if (found.every((gradient) => gradient === undefined)) throw new Refused("a loss that depends on none of the parameters");
    return new Map(ids.map((id, n) => [id, found[n]]).filter(([, gradient]) => gradient));
  }

  accumulate(name, loss) {
    const optimizer = this.needOwnOrSkip(name);
    for (const [id, { data }] of this.byParameters(optimizer, loss)) {
      const before = optimizer.pending.get(id);
      optimizer.pending.set(id, before ? data.map((x, n) => x + before[n]) : data);
    }
    optimizer.losses.push(loss.value);
  }

  minimize(name, loss) {
    const optimizer = this.needOwn(name);
    this.step(name, this.byParameters(optimizer, loss), [loss.value]);
  }

  step(name, now = new Map(), losses = []) {
    const optimizer = this.needOwn(name);
    const found = new Map();
    // The gradient of `backward` belongs to a loss that was, or should have been, scaled by hand.
    const scale = optimizer.scale?.now ?? 1;
    for (const id of this.parameters(optimizer)) {
      const left = this.get("variables", id).gradient?.data.map((x) => x / scale);
      const parts = [now.get(id)?.data, left, optimizer.pending.get(id)].filter(Boolean);
      if (parts.length) found.set(id, parts.reduce((a, b) => a.map((x, n) => x + b[n])));
    }
    if (found.size === 0) throw new Refused("a step without gradients");
    this.clip(optimizer, found);
    const changed = new Set();
    for (const group of optimizer.groups) {
      group.steps += 1;
      for (const id of group.ids) if (found.has(id)) changed.add(this.update(group, id, found.get(id)));
    }
    if (optimizer.scale) this.follow(optimizer.scale);
    const used = new Set([...losses, ...optimizer.losses].flatMap((loss) => [...usedUp(loss, changed)]));
    this.state.spent.push(Object.freeze({ used, changed }));
    Object.assign(optimizer, { pending: new Map(), losses: [] });
    for (const id of this.parameters(optimizer)) this.get("variables", id).gradient = undefined;
  }

  /** Updates one parameter by its gradient. Returns its previous value. */
  update(group, id, gradient) {
    const { value } = this.get("variables", id);
    const memory = group.memory.get(id) ?? Array.from(gradient, () => ({}));
    const options = { ...group.options, lr: group.lr };
    const made = Array.from(gradient, (g, n) => this.rules[group.rule](options, value.data[n], g, memory[n], group.steps));
    group.memory.set(id, Object.freeze(made.map(([, next]) => next)));
    this.change(id, constant(value.shape, made.map(([next]) => next)));
    return value;
  }

  clip({ clip }, found) {
    if (!clip) return;
    const all = [...found.values()].flatMap((data) => [...data]);
    const norm = Math.sqrt(all.reduce((sum, x) => sum + x * x, 0));
    const factor = Math.min(1, clip.max / (norm + 1e-6));
    const bounded = (x) => Math.max(-clip.max, Math.min(clip.max, x));
    for (const [id, data] of found) found.set(id, data.map((x) => (clip.by === "norm" ? x * factor : bounded(x))));
  }

  /** Increases the scale of the loss after a number of good steps. All steps here are good. */
  follow(scale) {
    scale.good += 1;
    if (scale.good < scale.interval) return;
    Object.assign(scale, { good: 0, now: scale.now * scale.growth });
  }

  /** Returns an optimizer's state: the memory and steps of its rules, accumulated gradients, and the scale of losses. */
  remembered({ groups, pending, scale }) {
    return copied({ groups: groups.map(({ steps, memory }) => ({ steps, memory })), pending, scale });
  }

  /** Loads such a state, whose parameters may have other names. */
  remember(optimizer, { groups, pending, scale }, from) {
    const ids = this.parameters(optimizer);
    const renamed = (map) => new Map([...map].map(([id, value]) => [ids[from.indexOf(id)], value]));
    optimizer.groups.forEach((group, n) => {
      const { steps, memory } = groups[n];
      Object.assign(group, { steps, memory: renamed(memory) });
    });
    Object.assign(optimizer, { pending: renamed(pending), losses: [], scale: copied(scale) });
  }

  // Weight averages.

  average(name, of, decay) {
    const optimizer = this.needOwnOrSkip(of);
    const values = new Map(this.parameters(optimizer).map((id) => [id, this.get("variables", id).value.data]));
    this.state.averages.set(name, { optimizer: of, decay, values });
  }

  /** Returns an average whose parameters all belong to its optimizer. The contract does not define others. */
  needAverage(name) {
    const average = this.get("averages", name);
    const isOwn = (id) => this.get("variables", id).owner === average.optimizer;
    if (![...average.values.keys()].every(isOwn)) throw new Skip("an average of what belongs to others");
    return average;
  }

  updateAverage(name) {
    const { decay, values } = this.needAverage(name);
    for (const [id, mean] of values) {
      const now = this.get("variables", id).value.data;
      values.set(id, mean.map((x, n) => now[n] + (x - now[n]) * decay));
    }
  }

  swap(name) {
    const { values } = this.needAverage(name);
    for (const [id, mean] of values) {
      const { value } = this.get("variables", id);
      values.set(id, value.data);
      this.change(id, constant(value.shape, mean));
    }
  }
}
