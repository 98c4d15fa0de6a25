// Actions on variables: several with the same tensor, assignments of tensors and of slices, and stored gradients.

import { tensorOf } from "../models.js";
import { count, numbers } from "../random.js";
import { constant, Refused, Skip } from "../tape.js";

/** Returns a tensor of the shape of a variable, on its device, that is not the variable's value. */
function assignable(gen, id) {
  const { value, device } = gen.world.get("variables", id);
  const fits = (one) => one.device === device && `${one.value.shape}` === `${value.shape}` && one.ref !== `${id}.value`;
  // A variable disposes of the tensor that it has taken over, so assigning the same tensor again would dispose of it.
  return gen.operand((one) => fits(one) && gen.world.state.tensors.get(one.ref)?.of !== id);
}

/** Returns the JavaScript and the value of data. */
const written = ({ device, shape, seed }) => tensorOf(device, numbers(seed, count(shape)), shape);
const mean = ({ shape, seed }) => constant(shape, numbers(seed, count(shape)));

export const variables = {
  variable: {
    weight: 4,
    isSync: true,
    make(gen) {
      const as = gen.fresh("v");
      if (gen.random.once(3)) return { as, device: gen.device(), shape: gen.shape(), seed: gen.number() };
      const of = gen.operand();
      return of && { as, of: of.ref };
    },
    write: ({ as, of, ...data }) => `${as} = new Variable(${of ?? written(data)});`,
    run(world, { as, of, ...data }) {
      if (!of) return void world.variable(as, mean(data), data.device);
      const { value, device } = world.tensor(of);
      world.variable(as, value, device);
      world.take(of, as);
    },
  },

  assign: {
    weight: 5,
    isSync: true,
    make(gen) {
      const to = gen.name("variables");
      const of = to && assignable(gen, to);
      return of && { to, of: of.ref };
    },
    write: ({ to, of }) => `${to}.assign(${of});`,
    run(world, { to, of }) {
      const { value, device } = world.tensor(of);
      const variable = world.get("variables", to);
      if (device !== variable.device || `${value.shape}` !== `${variable.value.shape}`) throw new Refused("it does not fit");
      world.assign(to, value);
      world.take(of, to);
    },
  },

  assignData: {
    weight: 3,
    isSync: true,
    make(gen) {
      const to = gen.name("variables");
      return to && { to, seed: gen.number(), shape: gen.world.get("variables", to).value.shape };
    },
    write({ to, seed, shape }, world) {
      return `${to}.assign(${written({ device: world.get("variables", to).device, seed, shape })});`;
    },
    run: (world, { to, seed, shape }) => void world.assign(to, mean({ shape, seed })),
  },

  assignSlice: {
    weight: 3,
    isSync: true,
    make(gen) {
      const to = gen.name("variables", ({ value }) => value.shape.length > 0);
      if (!to) return undefined;
      const { value, device } = gen.world.get("variables", to);
      const axis = gen.random.below(value.shape.length);
      const start = gen.random.below(value.shape[axis]);
      const shape = value.shape.map((extent, n) => (n === axis ? 1 + gen.random.below(extent - start) : extent));
      return { to, axis, start, shape, device, seed: gen.number() };
    },
    write({ to, axis, start, shape, device, seed }) {
      return `${to}.assignSlice(${axis}, ${start}, ${written({ device, shape, seed })});`;
    },
    run(world, { to, axis, start, shape, seed }) {
      world.change(to, world.ops.replaced(world.get("variables", to).value, axis, start, mean({ shape, seed })));
    },
  },

  value: {
    weight: 3,
    isSync: true,
    make(gen) {
      const of = gen.name("variables");
      return of && { as: gen.fresh("t"), of };
    },
    write: ({ as, of }) => `${as} = ${of}.value;`,
    run(world, { as, of }) {
      const { value, device } = world.get("variables", of);
      world.bind(as, value, device, of);
    },
  },

  backward: {
    weight: 4,
    isSync: true,
    make(gen) {
      const device = gen.device();
      const all = gen.names("variables", (one) => one.device === device);
      if (!all.length) return undefined;
      const some = Array.from({ length: 1 + gen.random.below(2) }, () => gen.random.one(all));
      const { ref, actions } = gen.loss(some, device);
      return ref && [...actions, { do: "backward", loss: ref, of: [...new Set(some)] }];
    },
    write: ({ loss, of }) => `${loss}.backward([${of.join(", ")}]);`,
    run: (world, { loss, of }) => world.backward(world.tensor(loss), of),
  },

  takeGradient: {
    weight: 3,
    isSync: true,
    make(gen) {
      const of = gen.name("variables", ({ gradient }) => gradient) ?? gen.name("variables");
      return of && { as: gen.fresh("t"), of };
    },
    write: ({ as, of }) => `${as} = ${of}.takeGradient();`,
    result: ({ as }) => `${as} !== undefined`,
    run(world, { as, of }) {
      const variable = world.get("variables", of);
      const { gradient, device } = variable;
      variable.gradient = undefined;
      if (gradient) world.bind(as, gradient, device);
      return gradient !== undefined;
    },
  },

  disposeVariable: {
    weight: 1,
    isSync: true,
    make(gen) {
      const inUse = [...gen.world.state.programs.values()].flatMap(({ reads }) => reads);
      const of = gen.name("variables", ({ owner }, name) => !owner && /^v\d+$/.test(name) && !inUse.includes(name));
      return of && { of };
    },
    write: ({ of }) => `${of}.dispose();`,
    run(world, { of }) {
      if (world.get("variables", of).owner) throw new Skip("it is in use");
      world.remove(of);
      world.state.variables.delete(of);
    },
  },
};
