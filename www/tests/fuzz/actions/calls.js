// Actions around others: scopes that dispose of all tensors except the returned ones, profiles, and calls that fail and change
// nothing.

import { actions, sourceOf } from "../actions.js";
import { attempt } from "../generate.js";
import { Refused, Skip } from "../tape.js";

/** Makes some further actions, each in the world after the previous one. Restores the world afterwards. */
function inner(gen, most, fits) {
  const before = gen.world.snapshot();
  const made = [];
  for (let tries = 0; tries < 3 * most && made.length < most; tries++) {
    for (const action of gen.action(fits)) {
      const now = gen.world.snapshot();
      const isFine = attempt(() => {
        gen.world.begin();
        actions[action.do].run(gen.world, action);
        if (gen.world.lenient) throw new Skip("it may fail");
        return true;
      });
      if (isFine) made.push(action);
      else gen.world.restore(now);
    }
  }
  gen.world.restore(before);
  return made;
}

/** Runs actions one after the other. Inside a call none may fail, because the effects of the earlier ones would remain. */
function runAll(world, all) {
  const done = [];
  for (const action of all) {
    const before = world.snapshot();
    try {
      actions[action.do].run(world, action);
      if (world.lenient) throw new Skip("it may fail");
      done.push(action);
    } catch (error) {
      if (!(error instanceof Refused || error instanceof Skip)) throw error;
      world.restore(before);
      world.lenient = undefined;
    }
  }
  return done;
}

/** Returns the JavaScript of inner actions. Leaves out those that have no meaning by then. */
function written(world, all) {
  const before = world.snapshot();
  const lines = [];
  for (const action of all) {
    const [source, result] = attempt(() => sourceOf(action, world)) ?? [];
    if (source === undefined || !runAll(world, [action]).length) continue;
    lines.push(...[source, result && `${result};`].filter(Boolean));
  }
  world.restore(before);
  world.lenient = undefined;
  return lines.join("\n").replace(/^/gm, "  ");
}

export const calls = {
  scope: {
    weight: 4,
    isSync: true,
    make(gen) {
      const all = inner(gen, 1 + gen.random.below(5), ({ isSync }, name) => isSync && name !== "scope");
      const made = all.flatMap(({ as }) => as ?? []).filter((name) => /^t/.test(name));
      const keep = made.filter(() => gen.random.once(2));
      return all.length ? { device: gen.world.devices[0], actions: all, keep, throws: gen.random.once(6) } : undefined;
    },
    /** Returns the kept tensors that exist at the end. */
    kept(world, { actions: all, keep }) {
      const before = world.snapshot();
      runAll(world, all);
      const kept = keep.filter((name) => world.state.tensors.has(name));
      world.restore(before);
      world.lenient = undefined;
      return kept;
    },
    write(action, world) {
      const { device, actions: all, throws } = action;
      const kept = this.kept(world, action);
      const lines = written(world, all);
      if (throws) {
        const scope = `${device}.scope(() => {\n${lines}\n  throw "mine";\n});`;
        return `try {\n${scope.replace(/^/gm, "  ")}\n} catch (error) {\n  if (error !== "mine") throw error;\n}`;
      }
      const names = `[${kept.join(", ")}]`;
      return `${kept.length ? `${names} = ` : ""}${device}.scope(() => {\n${lines}\n  return ${names};\n});`;
    },
    run(world, action) {
      const { device, actions: all, throws } = action;
      const kept = throws ? [] : this.kept(world, action);
      const there = new Set([...world.state.tensors.keys(), ...world.state.states.keys()]);
      runAll(world, all);
      // States contain tensors, too.
      for (const name of world.state.states.keys()) if (!there.has(name)) world.state.states.delete(name);
      for (const [name, tensor] of world.state.tensors) {
        // Tensors of another device belong to the outer scope, and values of variables belong to the variables.
        if (there.has(name) || kept.includes(name) || tensor.device !== device || tensor.of) continue;
        world.state.tensors.delete(name);
      }
    },
  },

  profile: {
    weight: 1,
    make(gen) {
      const all = inner(gen, 1 + gen.random.below(3), (_, name) => !["profile", "scope", "fail", "limited"].includes(name));
      return all.length ? { device: gen.device(), actions: all } : undefined;
    },
    result(action, world) {
      return `(await ${action.device}.profile(async () => {\n${written(world, action.actions)}\n  return 7;\n})).value`;
    },
    run(world, { actions: all }) {
      runAll(world, all);
      return 7;
    },
  },

  /** Calls with invalid shapes, devices or values. Each must be an error and change nothing. */
  fail: {
    weight: 4,
    isSync: true,
    make(gen) {
      const x = gen.operand();
      const y = x && gen.operand(({ device }) => device !== x.device);
      const variable = gen.name("variables");
      const optimizer = gen.name("optimizers");
      const model = gen.name("models");
      const misfit = x && `${x.device}.ones([${gen.misfit(x).join(", ")}])`;
      const larger = variable && `${gen.world.get("variables", variable).device}.ones([11])`;
      const ways = [
        x && x.value.shape.some((extent) => extent > 1) && [`${x.ref}.add(${misfit})`, [x.ref]],
        x && [`${x.ref}.matmul(${x.device}.ones([11, 2]))`, [x.ref]],
        x && x.value.data.length !== 11 && [`${x.ref}.reshape([11])`, [x.ref]],
        x && y && [`${x.ref}.add(${y.ref})`, [x.ref, y.ref]],
        x && x.value.data.length > 1 && [`${x.ref}.grad([${x.ref}])`, [x.ref]],
        x && [`${x.ref}.checkpoint((h) => 3)`, [x.ref]],
        x && [`${x.device}.scope(async () => ${x.ref}.add(1))`, [x.ref]],
        x && [`${x.ref}.checkpoint(async (h) => { await h; throw new Error("late"); })`, [x.ref]],
        x && variable && x.value.data.length > 1 && [`${x.ref}.backward([${variable}])`, [x.ref, variable]],
        variable && [`${variable}.assign(${larger})`, [variable]],
        variable && [`${variable}.assignSlice(0, 40, ${larger})`, [variable]],
        variable && [`Optimizer.adam([${variable}, ${variable}])`, [variable]],
        variable && [`Optimizer.sgd([${variable}], { lr: -1 })`, [variable]],
        optimizer && [`${optimizer}.minimize(${gen.world.get("optimizers", optimizer).device}.tensor(3))`, [optimizer]],
        optimizer && [`${optimizer}.minimize(${gen.world.get("optimizers", optimizer).device}.ones([2]))`, [optimizer]],
        optimizer && [`${optimizer}.accumulate(${gen.world.get("optimizers", optimizer).device}.tensor(3))`, [optimizer]],
        optimizer && [`${optimizer}.clipNorm(-1)`, [optimizer]],
        optimizer && [`${optimizer}.setGroupLr(9, 0.1)`, [optimizer]],
        model && [`${model}.loadStateDict({ none: ${gen.world.get("models", model).device}.ones([1]) })`, [model]],
      ];
      const all = ways.filter(Boolean);
      if (!all.length) return undefined;
      const [call, uses] = gen.random.one(all);
      return { call, uses };
    },
    write: ({ call }) => `${call};`,
    run(world, { uses }) {
      for (const ref of uses) {
        if (ref.endsWith(".value") || ref[0] === "t") world.tensor(ref);
        else world.get(ref[0] === "o" ? "optimizers" : /^m\d+$/.test(ref) ? "models" : "variables", ref);
      }
      throw new Refused("a call that nothing fits");
    },
  },

  /** Another action without additional memory on the device. It succeeds, or fails and changes nothing. */
  limited: {
    weight: 2,
    make(gen) {
      const names = ["minimize", "accumulate", "step", "train", "submit", "run", "assign", "assignData", "operation", "read"];
      const [action] = inner(gen, 1, (_, name) => names.includes(name));
      return action && { device: gen.world.devices[0], more: gen.random.one([0, 0, 64]), action };
    },
    result({ device, more, action }, world) {
      const [source, result] = sourceOf(action, world);
      const limit = `${device}.setMemoryLimit(Math.max(1, ${device}.stats().bytes + ${more}));`;
      const work = [source, result && `return ${result};`].filter(Boolean).join("\n").replace(/^/gm, "  ");
      const lines = [limit, "try {", work, "} finally {", `  ${device}.setMemoryLimit();`, "}"].join("\n").replace(/^/gm, "  ");
      return `await (async () => {\n${lines}\n})()`;
    },
    run(world, { action }) {
      // A model that has run keeps its running statistics, even if its loss cannot be minimized then.
      if (action.model && world.get("models", action.model).buffers.length) throw new Skip("it may have run");
      const expected = actions[action.do].run(world, action);
      world.lenient = world.lenient ? "any" : "memory";
      return expected;
    },
  },
};
