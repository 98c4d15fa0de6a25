// The fuzz itself, the same in Node and in a page: makes programs from seeds, plays them, and makes what differs small.

import { Generator } from "./generate.js";
import { Library, play, written } from "./play.js";
import { shrink } from "./shrink.js";

/** How many actions a program has, unless the options say so. */
const LENGTH = 60;

/** A finding's kind, by which it is told from others while a program is made smaller. */
function kindOf({ kind, action, message }) {
  const told = ["trap", "error", "other error"].includes(kind) ? message.replace(/[\d.]+/g, "").slice(0, 80) : "";
  return [kind, action.do, told].join(" ");
}

/** The actions of a program that was played, without those that each program ends with. */
export const actionsOf = (all) => all.filter(({ isLast }) => !isLast).map(({ action }) => action);

/** Copies of the package that are loaded when a core has trapped, each with a core of its own. */
export class Copies {
  /** Modules are loaded once in a process or page: each copy has a number of its own there. */
  static #count = 0;
  #load;
  #current;

  /** `load` gives a copy of the package by its number. */
  constructor(load) {
    this.#load = load;
  }

  get() {
    return (this.#current ??= this.#load(Copies.#count++));
  }

  /** The next one has another core. */
  renew() {
    this.#current = undefined;
  }
}

/** Rejections that nobody handles: they would end a Node process. */
const unhandled = [];
if (globalThis.process?.on) process.on("unhandledRejection", (reason) => unhandled.push(reason));
else globalThis.addEventListener?.("unhandledrejection", ({ reason }) => unhandled.push(reason));

/** Plays on new devices; a core that has trapped is left behind. */
async function played(copies, prefers, hasElements, next, options) {
  const library = await Library.open(await copies.get(), prefers, hasElements);
  const result = await play(library, next, options);
  // They are told when all that was waiting has had its turn.
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

/** Makes a program of a seed and plays it. */
export function playSeed(copies, prefers, seed, options) {
  let [generator, left] = [undefined, options?.length ?? LENGTH];
  // They take a while to compile.
  const hasElements = seed % 3 === 0;
  return played(copies, prefers, hasElements, (world) => {
    generator ??= new Generator(world, seed, { hasElements, without: options?.without });
    return left-- > 0 ? generator.action() : undefined;
  }, options);
}

/** Plays actions that are there. */
export function playActions(copies, prefers, list, options) {
  const left = [...list];
  const hasElements = JSON.stringify(list).includes('"element"');
  return played(copies, prefers, hasElements, () => (left.length ? [left.shift()] : undefined), options);
}

/** Makes a finding small, in so many milliseconds at most; gives its program as data and as JavaScript. */
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
 * Plays programs of one seed after the other: `limit` of them, or for some seconds, or until there are enough findings of
 * different kinds. `tell` is called with each finding when it is small.
 */
export async function fuzz({ load, prefers, seed, seconds, limit = Infinity, most = 1, ...rest }) {
  const { shrinking = 30, options = {}, tell = () => {} } = rest;
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
    tell(findings.at(-1));
  }
  return { programs, counts, findings };
}
