// The entries of the package. They share one set of classes; importing one says which GPU core the page needs.

/** A GPU core, and the entry whose import asks for it. */
export interface Size {
  /** The name of its `.wasm`. */
  readonly core: string;
  /** What users import. */
  readonly entry: string;
  /** A function that WebAssembly exports from this core on. No smaller GPU core has it. */
  readonly has: string;
}

/** The GPU cores, smallest first. Each has everything that the cores before it have, so the largest one serves all entries. */
export const sizes: readonly Size[] = [
  { core: "gpu", entry: "warpweft", has: "device_share" },
  { core: "gpu-nn", entry: "warpweft/nn", has: "layer_claim" },
];

/** The GPU core that exports these names; undefined if none does. The CPU's core has models, but shares no devices. */
export function sizeOf(exports: ReadonlySet<string>): Size | undefined {
  const missing = sizes.findIndex(({ has }) => !exports.has(has));
  return sizes[(missing < 0 ? sizes.length : missing) - 1];
}

/** The addresses of this package's JavaScript, for telling its frames from the page's in a stack. */
const addresses = new Set<string>();

/**
 * Adds the file that an error was made in. Bundlers make classic scripts of this package, and `import.meta` would be a syntax
 * error there.
 */
export function addFile({ stack = "" }: Error): void {
  const address = /([^\s(@]+):\d+:\d+/.exec(stack)?.[1];
  if (address) addresses.add(address);
}

/** Whether a line of a stack is of this package's code. */
export const isOwnFrame = (line: string) => [...addresses].some((address) => line.includes(address));

/** All objects of the package bear this mark, whichever copy of the package made them. */
export const mark = Symbol.for("warpweft.entry");

type Root = abstract new (...values: never[]) => object;

const roots: [Root, string][] = [];

/** Objects of this class are this copy's own, and called so. Those of another copy bear the same mark. */
export function own(root: Root, words: string): void {
  roots.push([root, words]);
}

/** What an object of this copy's own classes is called; undefined of any other. */
export const calledOwn = (value: unknown) => roots.find(([root]) => value instanceof root)?.[1];
