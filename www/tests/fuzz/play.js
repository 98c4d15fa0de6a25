// Plays a program on both sides. The library runs each action as JavaScript, the reference computes it, and the results are
// compared. The first difference is a finding, and ends the program.

import { actions, sourceOf } from "./actions.js";
import { ANY } from "./actions/trainers.js";
import { World } from "./reference.js";
import { Refused, Skip } from "./tape.js";

/** The allowed error of a 32-bit result, relative to the largest element, or to 1. */
const TOLERANCE = 2e-3;

/** Messages of the library if a gradient would pass an earlier value of a variable, or a loss that a step used up. */
const LIFETIME = /was dropped after an assignment|used up/i;

/** The message if a gradient would pass a tensor that was dropped long ago, and the number of batches that are long. */
const DROPPED = /was dropped after it was computed/;
const KEPT_BATCHES = 64;

/** The classes of the package that programs use. */
const CLASSES = "Device Generator Layer Module Optimizer Residual Schedule Sequential Tensor Trainer Variable".split(" ");

const AsyncFunction = (async () => {}).constructor;

/** Names that belong to a program. All others are JavaScript's. */
const OWN = /^([a-z]\d+|element_d\d+)$/;

/** The users' element function, with its gradients, for devices with and without a WGSL compiler. */
const ELEMENT = `async (device) => {
  const of = "(x: f32, y: f32) -> f32";
  const make = (name, body, options) => device.elementFunction("fn " + name + of + " { return " + body + "; }", options);
  const none = (x, y) => x.mul(0).add(y.mul(0));
  // Gradients of gradients end at constants, which have gradients in turn.
  let zero, one, gradients;
  for (let order = 0; order < 5; order++, gradients = [zero, zero]) {
    zero = await make("zero", "0.0", { gradients, fallback: none });
    one = await make("one", "1.0", { gradients, fallback: (x, y) => none(x, y).add(1) });
  }
  const byX = await make("by_x", "y + 0.5", { gradients: [zero, one], fallback: (x, y) => none(x, y).add(y).add(0.5) });
  const byY = await make("by_y", "x", { gradients: [one, zero], fallback: (x, y) => none(x, y).add(x) });
  return make("f", "x * y + 0.5 * x", { gradients: [byX, byY], fallback: (x, y) => x.mul(y).add(x.mul(0.5)) });
}`;

/** The library's side: a copy of the package, and the objects of a program by name. */
export class Library {
  constructor(warpweft, devices, env) {
    Object.assign(this, { warpweft, devices, env });
    this.scope = new Proxy(env, { has: (target, key) => key in target || (typeof key === "string" && OWN.test(key)) });
  }

  /** Opens new devices of a copy of the package, `d0`, `d1` and so on, with element functions if they are used. */
  static async open(warpweft, prefers, hasElements) {
    const devices = await Promise.all(prefers.map((prefer) => warpweft.Device.new({ prefer })));
    const env = Object.fromEntries(CLASSES.map((name) => [name, warpweft[name]]));
    // eslint-disable-next-line no-eval
    const element = (0, eval)(ELEMENT);
    for (const [n, device] of devices.entries()) {
      env[`d${n}`] = device;
      if (hasElements) env[`element_d${n}`] = await element(device);
    }
    return new Library(warpweft, devices, env);
  }

  /** Runs statements, and returns the value of an expression afterwards. */
  perform([statements, result]) {
    const body = `with (scope) {\n${statements}\n${result ? `return ${result};` : ""}\n}`;
    return new AsyncFunction("scope", body)(this.scope);
  }

  /** Drops tensors that the reference no longer has. */
  keep(names) {
    for (const name of Object.keys(this.env)) if (/^t\d+$/.test(name) && !names.has(name)) delete this.env[name];
  }

  /** Whether gradients may no longer pass tensors that were dropped: after many batches, or when memory was short. */
  forgets() {
    return this.wasLimited || this.devices.some((device) => device.stats().submits > KEPT_BATCHES);
  }

  close() {
    this.devices.forEach((device) => device.dispose());
  }
}

/** Returns the difference, or undefined if there is none. */
function difference(expected, got, at = "") {
  if (expected === ANY) return undefined;
  if (typeof expected === "number") return apart([expected], [got], at);
  if (expected instanceof Float64Array) return apart(expected, got, at);
  if (Array.isArray(expected)) {
    if (!Array.isArray(got) || got.length !== expected.length) return `${at}: ${shown(got)} instead of ${shown(expected)}`;
    return expected.map((one, n) => difference(one, got[n], `${at}[${n}]`)).find((one) => one);
  }
  return Object.is(expected, got ?? undefined) ? undefined : `${at}: ${shown(got)} instead of ${shown(expected)}`;
}

function apart(expected, got, at) {
  const size = expected.reduce((most, x) => Math.max(most, Math.abs(x)), 1);
  const isNear = (x, n) => typeof got[n] === "number" && Math.abs(got[n] - x) <= TOLERANCE * size;
  const fits = got?.length === expected.length && [...expected].every(isNear);
  return fits ? undefined : `${at}: ${shown(got)} instead of ${shown(expected)}`;
}

/** Returns a value with few digits. */
export function shown(value) {
  if (typeof value === "number") return String(Number(value.toPrecision(5)));
  if (ArrayBuffer.isView(value) || Array.isArray(value)) return `[${Array.from(value, shown).join(", ")}]`;
  return typeof value === "symbol" ? "..." : String(value);
}

const isOwn = (error) => error?.name === "WarpweftError" && error.code !== "DeviceLost";

/** Whether the library may reject an action that has a result. `forgets` is whether dropped tensors may have no history. */
function isAllowed(lenient, error, forgets) {
  if (isOwn(error) && DROPPED.test(error.message)) return forgets && ["lifetime", "any"].includes(lenient);
  if (lenient === "memory") return isOwn(error) && ["Memory", "Limit"].includes(error.code);
  if (lenient === "lifetime") return isOwn(error) && LIFETIME.test(error.message);
  return lenient === "any" && isOwn(error);
}

/** Plays one action on both sides. */
async function playOne(world, library, action) {
  const before = world.snapshot();
  world.begin();
  let [source, expected, refused] = [];
  try {
    source = sourceOf(action, world);
    expected = actions[action.do].run(world, action);
  } catch (error) {
    world.restore(before);
    if (error instanceof Skip || (error instanceof Refused && !source)) return { kind: "skipped" };
    if (!(error instanceof Refused)) throw error;
    refused = error;
  }
  const { lenient } = world;
  library.wasLimited ||= source.some((text) => text?.includes("setMemoryLimit"));
  let [got, error] = [];
  try {
    got = await library.perform(source);
  } catch (caught) {
    error = caught ?? new Error("nothing was thrown");
  }
  const outcome = (kind, message) => ({ kind, source, expected, message });
  if (error?.code === "DeviceLost") return outcome("trap", error.message);
  if (refused) {
    world.stays?.();
    if (!error) return outcome("accepted", `it must be refused: ${refused.message}`);
    const fits = refused.pattern ? refused.pattern.test(error.message) : isOwn(error);
    return fits ? outcome("refused", error.message) : outcome("other error", `${error} (${refused.message})`);
  }
  if (error) {
    if (!isAllowed(lenient, error, library.forgets())) {
      return outcome("error", `${error.code ? `${error.code}: ` : ""}${error.message ?? error}`);
    }
    world.restore(before);
    world.stays?.();
    if (action.trainer) world.state.trainers.delete(action.trainer);
    return outcome(`allowed: ${lenient}`, error.message);
  }
  const differs = difference(expected, got);
  return differs ? outcome("differs", differs) : outcome("done");
}

/** Whether a kind of result is not a finding. */
const isFine = (kind) => ["done", "refused", "skipped"].includes(kind) || kind.startsWith("allowed");

/**
 * Plays the actions that `next` returns for the world until there are no more, and then reads everything (`isLast`). `played`
 * are the actions that were not skipped, with their text. `finding` is the last of them, if the two sides differ there.
 */
export async function play(library, next, { wrong, hasHalf } = {}) {
  const world = new World({ devices: library.devices.map((_, n) => `d${n}`), wrong });
  world.hasHalf = hasHalf ?? library.devices.every(({ limits }) => limits.f16);
  const played = [];
  const counts = {};
  const one = async (action, isLast = false) => {
    const outcome = await playOne(world, library, action);
    counts[outcome.kind] = (counts[outcome.kind] ?? 0) + 1;
    if (outcome.kind === "skipped") return undefined;
    played.push({ action, isLast, ...outcome });
    library.keep(new Set(world.state.tensors.keys()));
    return isFine(outcome.kind) ? undefined : { action, ...outcome };
  };
  for (let list; (list = next(world)); ) {
    for (const action of list) {
      const finding = await one(action);
      if (finding) return { played, counts, finding };
    }
  }
  const reads = [...world.state.reads.keys()].map((of) => ({ do: "awaited", of }));
  for (const action of [...reads, ...world.devices.map((device) => ({ do: "readAll", device }))]) {
    const finding = await one(action, true);
    if (finding) return { played, counts, finding };
  }
  return { played, counts };
}

/** Returns a program as text that people can read and run. */
export function written(played, prefers) {
  const text = played.map(({ source }) => source.join(" ")).join("\n");
  const used = CLASSES.filter((name) => name === "Device" || new RegExp(`\\b${name}\\b`).test(text));
  const devices = prefers.map((prefer, n) => [`d${n}`, prefer]).filter(([name]) => text.includes(name));
  const elements = devices.filter(([name]) => text.includes(`element_${name}`));
  const names = [...new Set([...text.matchAll(/\b([a-ln-z]\d+|m\d+)\b(?= =|[,\]])/g)].map(([, name]) => name))];
  const own = names.filter((name) => !/^[dbhxe]\d/.test(name));
  const lines = played.map(({ source: [statements, result], expected, kind, message }) => {
    const hasFailed = kind === "refused" || kind.startsWith("allowed");
    const fine = hasFailed ? `an error: ${message}` : result && shown(expected);
    const note = isFine(kind) ? fine : `${kind}: ${message}`;
    const call = [statements, result && `console.log(${result});`].filter(Boolean).join("\n");
    return note ? `${call} // ${note.split("\n")[0]}` : call;
  });
  return [
    `import { ${used.join(", ")} } from "warpweft/nn";`,
    ...devices.map(([name, prefer]) => `const ${name} = await Device.new({ prefer: "${prefer}" });`),
    ...elements.map(([name]) => `const element_${name} = await (${ELEMENT})(${name});`),
    ...(own.length ? [`let ${own.join(", ")};`] : []),
    ...lines,
  ].join("\n");
}
