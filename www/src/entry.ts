// The entries of the package. They share one set of classes; importing one says which cores the page needs.

/** A core, and the entry whose import asks for it. */
export interface Size {
  /** The name of its `.wasm`. */
  readonly core: string;
  /** What users import. */
  readonly entry: string;
  /** A function that WebAssembly exports from this core on. No smaller core of its machine has it. */
  readonly has: string;
}

/**
 * The cores of each machine, smallest first. Each has everything that the cores before it have, so the largest one serves all
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

/** The core that exports these names; undefined if none does. Those of the CPU share no devices. */
export function sizeOf(exports: ReadonlySet<string>): Size | undefined {
  const own = exports.has("device_share") ? sizes.gpu : sizes.cpu;
  const missing = own.findIndex(({ has }) => !exports.has(has));
  return own[(missing < 0 ? own.length : missing) - 1];
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
