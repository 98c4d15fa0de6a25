// Actions on programs, which are compiled for shapes or for named axes. They use tensors and read variables, and gradients pass
// through their results.

import { meanBody, outside, weights, writeBody } from "../forms.js";
import { attempt } from "../generate.js";
import { tensorOf } from "../models.js";
import { count, numbers } from "../random.js";
import { clock, constant, history, Refused, Skip } from "../tape.js";

/** The weights of operations inside a program. Gradients are frequent, because a program may be a whole training step. */
const inside = { ...weights, grad: 2, detach: 1 };

/** Returns the variables that a body reads. */
export function reads({ steps, results }, world) {
  const refs = [...steps.flatMap(({ of, body, op, with: more }) => {
    const models = op === "forward" ? (world.state.models.get(more[0])?.ids ?? []).map((id) => `${id}.value`) : [];
    return [...of, ...models, ...(body ? reads(body, world).map((id) => `${id}.value`) : [])];
  }), ...results];
  return refs.filter((ref) => ref.endsWith(".value")).map((ref) => ref.slice(0, -".value".length));
}

/** Returns a shape in which the named axis has an extent. */
const sized = (shape, extent) => shape.map((dim) => (typeof dim === "string" ? extent : dim));

const values = (shape) => constant(shape, numbers(count(shape), count(shape)));

/** Returns a body's results for inputs of these shapes, without changing the world. */
const tried = (world, body, shapes, device) => attempt(() => meanBody(world, body, shapes.map(values), device));

/**
 * Returns a program's results for inputs. Inside the program, gradients end at the inputs and at the variables that it reads,
 * which are separate tensors there. Outside, they continue from these.
 */
function results(world, { device, body, captured, reads: read }, inputs) {
  const before = clock();
  const variables = [...new Set(read)].map((id) => world.get("variables", id));
  const sources = [...inputs, ...variables.map(({ value }) => value)];
  const own = sources.map((value) => world.ops.itself(value));
  const ways = own.map((one) => one.operands);
  own.forEach((one) => (one.operands = []));
  variables.forEach((variable, n) => (variable.value = own[inputs.length + n]));
  world.outside = new Map(own.slice(inputs.length).map((one, n) => [one, sources[inputs.length + n]]));
  let made;
  try {
    made = meanBody(world, body, own.slice(0, inputs.length), device, captured);
  } finally {
    own.forEach((one, n) => (one.operands = ways[n]));
    variables.forEach((variable, n) => (variable.value = sources[inputs.length + n]));
    world.outside = new Map();
  }
  // A result that is an input is the tensor that was passed in. A result that is a variable's value is that value.
  const found = made.map((value) => sources[own.indexOf(value)] ?? value);
  // Gradients pass through the intermediate values, which no code can hold.
  const within = found.flatMap((value) => [...history(value, ({ born }) => born <= before)]);
  for (const one of within) if (one.born > before && !found.includes(one)) one.inside = true;
  return found;
}

export const programs = {
  compile: {
    weight: 4,
    isSync: true,
    make(gen) {
      const device = gen.device();
      const isNamed = gen.random.once(2);
      const fixed = [[2], [3], [2, 3], [3, 2], [2, 2], []];
      const named = [["n"], ["n", 2], ["n", 3], ["n", 2]];
      const shape = () => gen.random.one(isNamed && !gen.random.once(4) ? named : fixed);
      const shapes = Array.from({ length: 1 + gen.random.below(2) }, shape);
      const extents = shapes.flat().includes("n") ? [1, 2, 4, 5] : [0];
      const inputs = shapes.map((shape) => ({ value: values(sized(shape, 3)), device }));
      const body = gen.body(inputs, gen.operands((one) => one.device === device), "x", 5, inside);
      // The body must be valid for every extent that a run may use.
      const fits = extents.every((extent) => tried(gen.world, body, shapes.map((shape) => sized(shape, extent)), device));
      return fits ? { as: gen.fresh("p"), device, shapes, body } : undefined;
    },
    write({ as, device, shapes, body }) {
      const specs = shapes.map((shape) => `{ shape: [${shape.map((dim) => JSON.stringify(dim)).join(", ")}] }`);
      return `${as} = ${device}.compile([${specs.join(", ")}], ${writeBody(body)});`;
    },
    run(world, { as, device, shapes, body }) {
      // A fixed program is recorded now, so its captured tensors must exist.
      const captured = new Map(outside(body).map((ref) => [ref, world.tensor(ref)]));
      const isNamed = shapes.flat().includes("n");
      const program = { device, shapes, isNamed, body, captured, reads: reads(body, world) };
      if (!isNamed) results(world, program, shapes.map(values));
      world.state.programs.set(as, program);
    },
  },

  call: {
    weight: 8,
    isSync: true,
    make(gen) {
      const program = gen.name("programs");
      if (!program) return undefined;
      const { device, shapes, body } = gen.world.get("programs", program);
      const extent = gen.random.one([1, 2, 3, 4, 5]);
      const refs = shapes.map((shape) => {
        const wanted = `${sized(shape, extent)}`;
        const isFit = ({ value }) => `${value.shape}` === wanted && value.data.every((x) => Math.abs(x) < 3);
        return gen.operand((one) => one.device === device && isFit(one))?.ref;
      });
      const made = (shape) => ({ as: gen.fresh("t"), shape: sized(shape, extent), seed: gen.number() });
      const data = refs.map((ref, n) => (ref ? undefined : made(shapes[n])));
      const as = body.results.map(() => gen.fresh("t"));
      const call = { do: "call", as, program, of: refs.map((ref, n) => ref ?? data[n].as) };
      return [...data.filter(Boolean).map((one) => ({ do: "tensor", device, ...one })), call];
    },
    write: ({ as, program, of }) => `[${as.join(", ")}] = ${program}.run(${of.join(", ")});`,
    run(world, { as, program, of }) {
      const found = world.get("programs", program);
      const { device, shapes, isNamed, captured } = found;
      const inputs = of.map((ref) => world.tensor(ref));
      if (inputs.some((input) => input.device !== device)) throw new Refused("an input on another device");
      const extents = new Set();
      shapes.forEach((shape, n) => {
        const own = inputs[n].value.shape;
        shape.forEach((dim, axis) => dim === "n" && extents.add(own[axis]));
        const fits = own.length === shape.length && shape.every((dim, axis) => dim === "n" || dim === own[axis]);
        if (!fits) throw new Refused(`an input of [${own}] for [${shape}]`);
      });
      if (extents.size > 1) throw new Refused("two extents of one name");
      // The function of a named program may be called again, and finds its captured tensors by name.
      const isThere = (ref) => world.state.tensors.get(ref)?.value === captured.get(ref).value;
      if (isNamed && ![...captured.keys()].every(isThere)) throw new Skip("what it uses is not there any more");
      const made = results(world, found, inputs.map(({ value }) => value));
      made.forEach((value, n) => world.bind(as[n], value, device));
    },
  },

  ready: {
    weight: 1,
    make(gen) {
      const program = gen.name("programs", ({ isNamed }) => !isNamed);
      return program && { program };
    },
    write: ({ program }) => `await ${program}.ready();`,
    run: (world, { program }) => void world.get("programs", program),
  },

  disposeProgram: {
    weight: 1,
    isSync: true,
    make(gen) {
      const program = gen.name("programs");
      return program && { program };
    },
    write: ({ program }) => `${program}.dispose();`,
    run(world, { program }) {
      world.get("programs", program);
      world.state.programs.delete(program);
    },
  },

  /** A program that assigns its input to a variable, and runs once. Its result depends on one or both. */
  assignInside: {
    weight: 2,
    isSync: true,
    make(gen) {
      const to = gen.name("variables");
      if (!to) return undefined;
      const { value, device } = gen.world.get("variables", to);
      return { to, device, shape: value.shape, seed: gen.number(), by: gen.random.one(["x", `${to}.value`]) };
    },
    write({ to, device, shape, seed, by }) {
      const body = `(x) => { const y = ${by}.mul(2); ${to}.assign(x.detach()); return y; }`;
      const data = tensorOf(device, numbers(seed, count(shape)), shape);
      return `${device}.scope(() => { ${device}.compile([{ shape: [${shape.join(", ")}] }], ${body}).run(${data}); });`;
    },
    run(world, { to, shape, seed }) {
      world.get("variables", to);
      world.assign(to, constant(shape, numbers(seed, count(shape))));
    },
  },
};
