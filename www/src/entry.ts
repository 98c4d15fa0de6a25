// The entries of the package. They share one set of classes. Importing an entry registers the cores that it needs.

/** A core, and the entry that requires it. */
export interface Size {
  /** The name of its `.wasm` file, without the extension. */
  readonly core: string;
  /** The name that users import. */
  readonly entry: string;
  /** A function that WebAssembly exports from this core on. No smaller core of its machine exports it. */
  readonly has: string;
}

/**
 * The cores of each machine, smallest first. Each core includes all functions of smaller cores, so the largest one serves all
 * entries.
 */
export const sizes: { readonly gpu: readonly Size[]; readonly cpu: readonly Size[] } = {
  gpu: [
    { core: "gpu", entry: "warpweft", has: "device_share" },
    { core: "gpu-nn", entry: "warpweft/nn", has: "layer_claim" },
    { core: "gpu-models", entry: "warpweft/models", has: "languagemodel_claim" },
  ],
  cpu: [
    { core: "cpu", entry: "warpweft", has: "layer_claim" },
    { core: "cpu-models", entry: "warpweft/models", has: "languagemodel_claim" },
  ],
};

/**
 * Returns the core that exports these names, or undefined. `device_share` distinguishes GPU cores, because CPU cores cannot
 * share devices.
 */
export function sizeOf(exports: ReadonlySet<string>): Size | undefined {
  const own = exports.has("device_share") ? sizes.gpu : sizes.cpu;
  const missing = own.findIndex(({ has }) => !exports.has(has));
  return own[(missing < 0 ? own.length : missing) - 1];
}

/** The URLs of this package's JavaScript, which distinguish its stack frames from the page's. */
const addresses = new Set<string>();

/**
 * Adds the file in which an error was created. `import.meta` is not used, because it would be a syntax error in classic scripts
 * made by bundlers.
 */
export function addFile({ stack = "" }: Error): void {
  const address = /([^\s(@]+):\d+:\d+/.exec(stack)?.[1];
  if (address) addresses.add(address);
}

/** Whether a line of a stack trace is in this package's code. */
export const isOwnFrame = (line: string) => [...addresses].some((address) => line.includes(address));

/** The key of a property that all objects of the package have, whichever copy of the package made them. */
export const mark = Symbol.for("warpweft.entry");

type Root = abstract new (...values: never[]) => object;

const roots: [Root, string][] = [];

/**
 * Registers a class of this copy, and its description. Objects of another copy of the package have the same mark, but not this
 * class.
 */
export function own(root: Root, words: string): void {
  roots.push([root, words]);
}

/** Returns the description of an object of this copy's classes, or undefined. */
export const calledOwn = (value: unknown) => roots.find(([root]) => value instanceof root)?.[1];
