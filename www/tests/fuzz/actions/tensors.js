// Actions on tensors: data, operations, gradients, reads, disposal, moves, and inspection.

import { makeStep, mean, write, zeros } from "../forms.js";
import { tensorOf } from "../models.js";
import { count, numbers } from "../random.js";
import { constant, history } from "../tape.js";

const listed = (refs) => `[${refs.join(", ")}]`;

/** Returns a name, or the names into which a list is destructured. */
const target = (as, isList) => (isList || as.length > 1 ? `[${as.join(", ")}]` : as[0]);

/** Returns tensors that are part of the history of another one, and a few that may not be. */
function operandsOf(gen, { value, device }) {
  const made = history(value);
  const all = gen.operands((one) => one.device === device);
  const inside = all.filter((one) => made.has(one.value));
  const one = () => gen.random.one(inside.length && !gen.random.once(6) ? inside : all);
  const some = Array.from({ length: 1 + gen.random.below(2) }, one);
  return [...new Set(some.map(({ ref }) => ref))];
}

export const tensors = {
  tensor: {
    weight: 4,
    isSync: true,
    make: (gen) => ({ as: gen.fresh("t"), device: gen.device(), shape: gen.shape(), seed: gen.number() }),
    write: ({ as, device, shape, seed }) => `${as} = ${tensorOf(device, numbers(seed, count(shape)), shape)};`,
    run: (world, { as, device, shape, seed }) => world.bind(as, constant(shape, numbers(seed, count(shape))), device),
  },

  operation: {
    weight: 22,
    isSync: true,
    make(gen) {
      const all = gen.operands();
      const step = all.length ? makeStep(gen, all) : undefined;
      return step && { as: [gen.fresh("t")], ...step };
    },
    write: (action) => `${target(action.as)} = ${write(action)};`,
    run(world, action) {
      const made = mean(world, action, action.of.map((ref) => world.tensor(ref)));
      made.forEach(({ value, device }, n) => world.bind(action.as[n], value, device));
    },
  },

  gradient: {
    weight: 8,
    isSync: true,
    make(gen) {
      const isNumber = !gen.random.once(3);
      const of = gen.operand(({ value }) => !isNumber || count(value.shape) === 1);
      if (!of) return undefined;
      const wrt = operandsOf(gen, of);
      const seeds = gen.operands((one) => one.device === of.device && `${one.value.shape}` === `${of.value.shape}`);
      const seed = isNumber ? undefined : gen.random.one(seeds).ref;
      return { as: wrt.map(() => gen.fresh("t")), of: of.ref, ...(seed && { seed }), wrt };
    },
    write: ({ as, of, seed, wrt }) => `${listed(as)} = ${of}.grad(${listed(wrt)}${seed ? `, ${seed}` : ""});`,
    run(world, { as, of, seed, wrt }) {
      const found = wrt.map((ref) => world.tensor(ref));
      const gradients = world.gradients(world.tensor(of), seed && world.tensor(seed), found);
      gradients.forEach((gradient, n) => world.bind(as[n], gradient ?? zeros(found[n].value), found[n].device));
    },
  },

  second: {
    weight: 2,
    isSync: true,
    make(gen) {
      const of = gen.operand();
      return of && { as: gen.fresh("t"), op: "second", of: [of.ref, operandsOf(gen, of)[0]] };
    },
    write: (action) => `${action.as} = ${write(action)};`,
    run(world, action) {
      const [{ value, device }] = mean(world, action, action.of.map((ref) => world.tensor(ref)));
      world.bind(action.as, value, device);
    },
  },

  read: {
    weight: 9,
    make(gen) {
      const of = gen.operand();
      return of && { of: of.ref };
    },
    result: ({ of }) => `[...(await ${of}.read())]`,
    run: (world, { of }) => world.tensor(of).value.data,
  },

  /** A read that is awaited later. It returns the values at its beginning, whatever happens meanwhile. */
  begin: {
    weight: 3,
    make(gen) {
      const of = gen.operand();
      return of && { as: gen.fresh("q"), of: of.ref };
    },
    write: ({ as, of }) => `${as} = ${of}.read();`,
    run: (world, { as, of }) => void world.state.reads.set(as, { data: world.tensor(of).value.data }),
  },

  awaited: {
    weight: 3,
    make(gen) {
      const of = gen.name("reads");
      return of && { of };
    },
    result: ({ of }) => `[...(await ${of})]`,
    run(world, { of }) {
      const { data } = world.get("reads", of);
      world.state.reads.delete(of);
      return data;
    },
  },

  /** Runs the garbage collector, in processes that allow it. */
  collect: {
    weight: 1,
    make: () => ({}),
    write: () => "globalThis.gc?.();\nawait new Promise((resolve) => setTimeout(resolve));",
    run: () => {},
  },

  readAll: {
    weight: 2,
    make: (gen) => ({ device: gen.device() }),
    refs(world, { device }) {
      const { tensors, variables } = world.state;
      const all = [...tensors, ...[...variables].map(([id, variable]) => [`${id}.value`, variable])];
      return all.filter(([, one]) => one.device === device).map(([ref]) => ref);
    },
    result(action, world) {
      return `(await ${action.device}.read(${listed(this.refs(world, action))})).map((data) => [...data])`;
    },
    run(world, action) {
      return this.refs(world, action).map((ref) => world.tensor(ref).value.data);
    },
  },

  dispose: {
    weight: 6,
    isSync: true,
    make(gen) {
      const of = gen.name("tensors");
      return of && { of };
    },
    write: ({ of }) => `${of}.dispose();`,
    run: (world, { of }) => world.drop(of),
  },

  run: {
    weight: 2,
    isSync: true,
    make(gen) {
      const of = gen.name("tensors");
      return of && { of };
    },
    write: ({ of }) => `${of}.run();`,
    run: (world, { of }) => void world.tensor(of),
  },

  batch: {
    weight: 1,
    isSync: true,
    make(gen) {
      const device = gen.device();
      const all = gen.names("tensors", (one) => one.device === device);
      return all.length ? { device, of: [...new Set([gen.random.one(all), gen.random.one(all)])] } : undefined;
    },
    write: ({ device, of }) => `${device}.batch()${of.map((ref) => `.add(${ref})`).join("")}.run();`,
    run: (world, { of }) => of.forEach((ref) => world.tensor(ref)),
  },

  submit: {
    weight: 3,
    isSync: true,
    make: (gen) => ({ device: gen.device() }),
    write: ({ device }) => `${device}.submit();`,
    run: () => {},
  },

  synchronize: {
    weight: 1,
    make: (gen) => ({ device: gen.device() }),
    write: ({ device }) => `await ${device}.synchronize();`,
    run: () => {},
  },

  move: {
    weight: 2,
    make(gen) {
      const of = gen.operand();
      return of && { as: gen.fresh("t"), of: of.ref, to: gen.random.one(gen.world.devices) };
    },
    write: ({ as, of, to }) => `${as} = await ${of}.to(${to});`,
    run(world, { as, of, to }) {
      const { shape, data } = world.tensor(of).value;
      world.bind(as, constant(shape, data), to);
    },
  },

  graph: {
    weight: 1,
    make(gen) {
      const of = gen.operand();
      return of && { of: of.ref };
    },
    result: ({ of }) => `typeof (await ${of}.graph()).dot`,
    run: (world, { of }) => world.tensor(of) && "string",
  },

  findNonFinite: {
    weight: 1,
    make(gen) {
      const of = gen.operand();
      return of && { of: of.ref };
    },
    result: ({ of }) => `await ${of}.findNonFinite()`,
    run: (world, { of }) => void world.tensor(of),
  },

  notFinite: {
    weight: 1,
    make(gen) {
      const of = gen.operand();
      return of && { of: of.ref };
    },
    result: ({ of }) =>
      `await (async (x) => [await x.findNonFinite(), await x.findNonFinite()])(${of}.mul(0).reciprocal())` +
      '.then((found) => found.map((text) => text.split(" ")[0]))',
    run: (world, { of }) => world.tensor(of) && ["reciprocal", "reciprocal"],
  },
};
