// Shrinks a failing program. First removes actions, many at once (Zeller's delta debugging), and then the contents of actions
// that have inner ones. The player skips an action whose operands are missing, so any part is a program.

import { parametersOf } from "./models.js";

/** Yields all programs without a part of the actions, for each size, with the larger parts first. */
function* smaller(list) {
  for (let size = Math.ceil(list.length / 2); size >= 1; size = size > 1 ? Math.ceil(size / 2) : 0) {
    for (let end = list.length; end > 0; end -= size) yield [...list.slice(0, Math.max(0, end - size)), ...list.slice(end)];
  }
}

/** Yields all programs in which one action is simplified, or replaced by its inner actions. */
function* inside(list) {
  for (const [n, action] of list.entries()) {
    const changed = (...some) => [...list.slice(0, n), ...some, ...list.slice(n + 1)];
    if (Array.isArray(action.actions)) {
      yield changed(...action.actions);
      for (const actions of smaller(action.actions)) if (actions.length) yield changed({ ...action, actions });
    }
    if (action.do === "limited") yield changed(action.action);
    if (action.throws) yield changed({ ...action, throws: false });
    const { body } = action;
    if (body) {
      for (const steps of smaller(body.steps)) {
        const known = new Set([...body.inputs, ...steps.flatMap(({ as }) => as)]);
        const isOwn = (ref) => /^[bhx]\d+$/.test(ref);
        if (![...steps.flatMap(({ of }) => of), ...body.results].every((ref) => !isOwn(ref) || known.has(ref))) continue;
        yield changed({ ...action, body: { ...body, steps } });
      }
    }
    for (const [k] of action.wrt?.length > 1 ? action.wrt.entries() : []) {
      const others = (all) => all.filter((_, at) => at !== k);
      yield changed({ ...action, wrt: others(action.wrt), as: others(action.as) });
    }
    const isList = action.do === "backward" || (action.do === "optimizer" && !action.model);
    for (const [k] of isList && action.of.length > 1 ? action.of.entries() : []) {
      yield changed({ ...action, of: action.of.filter((_, at) => at !== k) });
    }
    const isPlain = action.rule === "sgd" && Object.keys(action.options).length === 1;
    if (action.options && !isPlain) yield changed({ ...action, rule: "sgd", options: { lr: 1 } });
  }
}

/** Returns the list with other names. */
function renamed(list, names) {
  const change = (value, isText = false) => {
    if (Array.isArray(value)) return value.map((one) => change(one));
    if (typeof value === "object" && value !== null) {
      // Failing calls are text.
      return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, change(inner, key === "call")]));
    }
    if (typeof value !== "string") return value;
    if (isText) return [...names].reduce((all, [id, name]) => all.replaceAll(id, name), value);
    const [, id, rest] = /^(.*?)(\.value)?$/s.exec(value);
    return names.has(id) ? names.get(id) + (rest ?? "") : value;
  };
  return change(list);
}

/** Yields all programs in which a model is replaced by variables for its parameters. */
function* apart(list) {
  for (const [n, { do: name, as, device, spec, seed }] of list.entries()) {
    if (name !== "model") continue;
    const names = new Map(parametersOf(as, spec).map(({ id }, k) => [id, `v${as.slice(1)}0${k}`]));
    const made = parametersOf(as, spec).map(({ id, shape }, k) => {
      return { do: "variable", as: names.get(id), device, shape, seed: seed + k };
    });
    const rest = list.slice(n + 1).map((action) => {
      if (action.do !== "optimizer" || action.model !== as) return action;
      const { model: _, ...others } = action;
      return { ...others, of: [...names.keys()] };
    });
    yield [...list.slice(0, n), ...made, ...renamed(rest, names)];
  }
}

const sizeOf = ({ actions }) => JSON.stringify(actions).length;

/**
 * Returns the smallest failing program that was found, `{ actions, ... }` as returned by `fails`. `fails` returns nothing for a
 * program that does not fail. `isOver` returns whether the time is up.
 */
export async function shrink(failing, fails, isOver) {
  let best = failing;
  for (let found = true; found && !isOver(); ) {
    found = false;
    for (const candidates of [smaller, inside, apart]) {
      for (const actions of candidates(best.actions)) {
        if (isOver()) return best;
        const smallerStill = await fails(actions);
        if (!smallerStill || (candidates !== apart && sizeOf(smallerStill) >= sizeOf(best))) continue;
        [best, found] = [smallerStill, true];
        break;
      }
      if (found) break;
    }
  }
  return best;
}
