// The fuzzer, for Node and pages: makes programs from seeds, plays them, and shrinks those that fail.

import { Generator } from "./generate.js";
import { Library, play, written } from "./play.js";
import { shrink } from "./shrink.js";

/** The default number of actions of a program. */
const LENGTH = 60;

/** Returns a finding's kind, which must stay the same while a program is shrunk. */
function kindOf({ kind, action, message }) {
  const words = ["trap", "error", "other error"].includes(kind) ? message.replace(/[\d.]+/g, "").slice(0, 80) : "";
  return [kind, action.do, words].join(" ");
}

/** Returns the actions of a program that was played, without the final ones of every program. */
export const actionsOf = (all) => all.filter(({ isLast }) => !isLast).map(({ action }) => action);

/** Copies of the package, each with a separate core. A new one is loaded when a core has trapped. */
export class Copies {
  /** The number of copies so far. A module is loaded once per process or page, so each copy has a unique number. */
  static #count = 0;
  #load;
  #current;

  /** `load` returns a copy of the package by its number. */
  constructor(load) {
    this.#load = load;
  }

  get() {
    return (this.#current ??= this.#load(Copies.#count++));
  }

  /** Makes the next copy use another core. */
  renew() {
    this.#current = undefined;
  }
}

/** Unhandled rejections, which would end a Node process. */
const unhandled = [];
if (globalThis.process?.on) process.on("unhandledRejection", (reason) => unhandled.push(reason));
else globalThis.addEventListener?.("unhandledrejection", ({ reason }) => unhandled.push(reason));

/** Plays actions on new devices. A core that has trapped is replaced. */
async function played(copies, prefers, hasElements, next, options) {
  const library = await Library.open(await copies.get(), prefers, hasElements);
  const result = await play(library, next, options);
  // Rejections are reported after all pending tasks have run.
  await new Promise((resolve) => setTimeout(resolve));
  const [reason] = unhandled.splice(0);
  if (reason !== undefined && !result.finding) {
    const { action } = result.played.at(-1);
    result.finding = { kind: "unhandled rejection", action: { do: action.do }, message: String(reason) };
  }
  if (result.finding?.kind === "trap") copies.renew();
  else library.close();
  return result;
}

/** Makes a program from a seed and plays it. */
export function playSeed(copies, prefers, seed, options) {
  let [generator, left] = [undefined, options?.length ?? LENGTH];
  // Element functions take a while to compile.
  const hasElements = seed % 3 === 0;
  return played(copies, prefers, hasElements, (world) => {
    generator ??= new Generator(world, seed, { hasElements, without: options?.without });
    return left-- > 0 ? generator.action() : undefined;
  }, options);
}

/** Plays existing actions. */
export function playActions(copies, prefers, list, options) {
  const left = [...list];
  const hasElements = JSON.stringify(list).includes('"element"');
  return played(copies, prefers, hasElements, () => (left.length ? [left.shift()] : undefined), options);
}

/** Shrinks a finding in at most `most` milliseconds. Returns its program as data and as JavaScript. */
async function reduced(copies, prefers, { played: all, finding }, options, most) {
  const end = performance.now() + most;
  const kind = kindOf(finding);
  // Each program is played on new devices.
  const fails = async (list) => {
    const result = await playActions(copies, prefers, list, options);
    if (!result.finding || kindOf(result.finding) !== kind) return undefined;
    return { ...result, actions: actionsOf(result.played) };
  };
  const first = await fails(actionsOf(all));
  if (!first) return { actions: actionsOf(all), text: `// It does not come again:\n${written(all, prefers)}`, finding };
  const small = await shrink(first, fails, () => performance.now() > end);
  return { actions: small.actions, text: written(small.played, prefers), finding: small.finding };
}

/**
 * Plays programs of one seed after the other: `limit` of them, or for some seconds, or until there are `most` findings of
 * different kinds. Calls `report` with each finding after it is shrunk.
 */
export async function fuzz({ load, prefers, seed, seconds, limit = Infinity, most = 1, ...rest }) {
  const { shrinking = 30, options = {}, report = () => {} } = rest;
  const copies = new Copies(load);
  const end = performance.now() + 1000 * seconds;
  const [findings, counts, kinds] = [[], {}, new Set()];
  let programs = 0;
  for (; programs < limit && performance.now() < end && findings.length < most; programs++) {
    const at = seed + programs;
    const result = await playSeed(copies, prefers, at, options);
    for (const [kind, count] of Object.entries(result.counts)) counts[kind] = (counts[kind] ?? 0) + count;
    if (!result.finding || kinds.has(kindOf(result.finding))) continue;
    const before = kindOf(result.finding);
    kinds.add(before);
    const small = await reduced(copies, prefers, result, options, 1000 * shrinking);
    const { kind, message } = small.finding;
    findings.push({ seed: at, kind, message, actions: small.actions, text: small.text });
    report(findings.at(-1));
  }
  return { programs, counts, findings };
}
