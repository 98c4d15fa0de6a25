// Loading: a core's WebAssembly is fetched and compiled while it arrives, once for all devices.

import { adopt, type CoreClass } from "./brand.js";
import { sizeOf, sizes, type Size } from "./entry.js";
import { dataError, WarpweftError } from "./errors.js";
import { guarded } from "./guard.js";
import { Host, refused } from "./host.js";
import type { PlatformResponse, PlatformUrl, WasmModule } from "./platform.js";

/** A core that runs. */
export interface Core {
  readonly host: Host;
  /** Opens the device that it is for. */
  open(lowPower: boolean, fallback: string | undefined): Promise<object>;
}

/** What wasm-bindgen wrote around a core: functions that WebAssembly imports, classes, and what calls the exports. */
interface Glue {
  __wbg_set_wasm(exports: WebAssembly.Exports): void;
  start(host: Host): void;
  setDebug(words: string): void;
  Device: { open: Core["open"] };
}

/** The core for GPUs, and the one that computes on the CPU. */
export type CoreName = "gpu" | "cpu";

/** A core's WebAssembly: where it is, what a server answered, its bytes, or what was compiled of it. */
export type WasmSource = PlatformUrl | string | PlatformResponse | ArrayBuffer | ArrayBufferView | WasmModule;

/** Where the cores come from, if not from beside the package's JavaScript. */
export interface WasmSources {
  /** `gpu.wasm`, which is `warpweft/gpu.wasm` to bundlers. */
  gpu?: WasmSource | PromiseLike<WasmSource>;
  /** `cpu.wasm`, which is `warpweft/cpu.wasm` to bundlers. */
  cpu?: WasmSource | PromiseLike<WasmSource>;
}

/** A core as an entry of the package has it. */
export interface Provided {
  /** Which one it is. */
  name: string;
  /** What wasm-bindgen wrote around it. */
  glue: object;
  /** Where the WebAssembly is, or its bytes. */
  wasm(): WasmSource;
  /** Whether `wasm` gives bytes. They are preferred, because the page's bundler may have left the files behind. */
  isInside?: boolean;
}

/** The cores that the page's imports asked for, by name. */
const provided = new Map<string, Provided>();

/** A place in the order of sizes. */
const rank = (machine: CoreName, core: string) => sizes[machine].findIndex((size) => size.core === core);

/**
 * Registers the cores of an entry. The first device chooses the largest one of its machine that is registered by then, so
 * static imports work in any order. An import that comes later and needs a larger one fails.
 */
export function provide(entry: string, cores: Record<CoreName, Provided>): void {
  const machines = ["gpu", "cpu"] as const;
  for (const machine of machines) {
    const { size } = loading.get(machine) ?? {};
    if (!size || rank(machine, cores[machine].name) <= rank(machine, size.core)) continue;
    const why = `the page has already started the smaller ${machine.toUpperCase()} core of "${size.entry}"`;
    const remedy = `put \`import "${entry}"\` at the top of the module that makes the first device`;
    const must = `"${entry}" must be imported before the first Device.new() or preload()`;
    throw new WarpweftError("Unsupported", `import: ${must}, because ${why}; ${remedy}`);
  }
  for (const machine of machines) {
    const { name } = cores[machine];
    if (!provided.get(name)?.isInside) provided.set(name, cores[machine]);
  }
}

/** The largest core of a machine that is registered. */
const largest = (machine: CoreName) => [...sizes[machine]].reverse().find(({ core }) => provided.has(core))!;

/** Where a core is, unless somebody says otherwise. */
function usual({ wasm }: Provided): WasmSource {
  let place: WasmSource;
  try {
    place = wasm();
  } catch (cause) {
    // Classic scripts made of modules may not know where they came from.
    const help = `say where its .wasm is (\`wasm\`), or import "warpweft/inline"`;
    throw new Error(`this script does not know its own address: ${help}`, { cause });
  }
  // Vite 5 to 7 copy modules, but not what lies beside them, while one develops.
  const { href } = place as URL;
  return href?.includes("/.vite/deps/") ? href.replace("/.vite/deps/", "/warpweft/www/dist/") : place;
}

/** A core that is there or on its way. */
interface Loading {
  /** Which one of its machine's it is. */
  readonly size: Size;
  readonly core: Promise<Core>;
  readonly stop: AbortController;
  waiting: number;
  /** Whether its code is here. */
  compiled: boolean;
}

const loading = new Map<CoreName, Loading>();

/** A core that was asked for. */
export interface Asked {
  readonly core: Promise<Core>;
  /** Whoever asked can do without it: unless others wait, the rest of it is not fetched. To be called once. */
  drop(): void;
}

/** Loads a core, or gives the one that is there or on its way. What failed is tried again the next time. */
export function load(name: CoreName, sources: WasmSources = {}): Asked {
  const entry = loading.get(name) ?? begin(name, sources[name]);
  entry.waiting += 1;
  const drop = () => {
    entry.waiting -= 1;
    if (entry.waiting > 0 || entry.compiled) return;
    forget(name, entry);
    entry.stop.abort();
  };
  return { core: entry.core, drop };
}

function begin(name: CoreName, source: WasmSources[CoreName]): Loading {
  const stop = new AbortController();
  const size = largest(name);
  const own = provided.get(size.core)!;
  const start = async () => {
    const module = await compile(source ?? usual(own), stop.signal);
    stop.signal.throwIfAborted();
    entry.compiled = true;
    return run(name, own.glue as Glue, module, size);
  };
  const core = start().catch((cause: unknown) => {
    forget(name, entry);
    throw failure(name, cause);
  });
  core.catch(() => {}); // Whoever waits for it hears of it.
  const entry: Loading = { size, core, stop, waiting: 0, compiled: false };
  loading.set(name, entry);
  return entry;
}

/** The cores that run, and what they print. */
const started: { glue: Glue; host: Host }[] = [];
let debug = "";

const debugWords = ["graph", "plan", "kernel", "time", "memory"];

/**
 * Prints on the console, for all devices from now on: any of these words with commas between, or `""` for nothing.
 *
 * - `"graph"`: the recorded operations of each batch before it is planned;
 * - `"plan"`: the kernels that a batch is planned as;
 * - `"kernel"`: the text of these kernels;
 * - `"time"`: after each read and each `sync` the profile of what ran since the last;
 * - `"memory"`: nothing, but {@link Device.memory} says where tensors are made that are made from now on.
 *
 * ```ts
 * setDebug("plan,kernel");
 * ```
 */
export function setDebug(words: string): void {
  if (typeof words !== "string") throw refused("debug", "words", "a string", words);
  const odd = words.split(/[, |]/).find((word) => word && !debugWords.includes(word));
  if (odd !== undefined) throw dataError(`debug: a word must be one of ${debugWords.join(", ")}, got \`${odd}\``);
  debug = words;
  for (const { glue } of started) glue.setDebug(debug);
}

/** Classes that all cores share, and what is done with them when a core starts. */
interface Shared {
  classes: Record<string, { prototype: object }>;
  prepare: ((host: Host) => void) | undefined;
}

const shared: Shared[] = [];

/** Makes classes of a core those of the user. */
function share({ classes, prepare }: Shared, host: Host): void {
  for (const [kind, root] of Object.entries(classes)) adopt(kind, host.classes[kind] as CoreClass, root, host);
  prepare?.(host);
}

/** Adds classes to the cores that run and to those that will. `classes.ts`, `nn-classes.ts` and `language.ts` say which. */
export function shareClasses(classes: Shared["classes"], prepare?: (host: Host) => void): void {
  const more = { classes, prepare };
  shared.push(more);
  for (const { host } of started) share(more, host);
}

/** Refuses WebAssembly of another core than the one whose glue it would get. */
function needCore(module: WebAssembly.Module, wanted: Size): void {
  const found = sizeOf(new Set(WebAssembly.Module.exports(module).map(({ name }) => name)));
  if (found === wanted) return;
  const what = found ? `${found.core}.wasm` : "no core of this package";
  const why = `${wanted.core}.wasm, because it imports "${wanted.entry}"`;
  throw new Error(`the WebAssembly is ${what}, and the page needs ${why}`);
}

/** Starts a core, and makes its classes those of the user. */
async function run(name: CoreName, glue: Glue, module: WebAssembly.Module, size: Size): Promise<Core> {
  needCore(module, size);
  const host = new Host(name, glue as unknown as Host["classes"]);
  const imports = { "./warpweft_bg.js": glue as unknown as WebAssembly.ModuleImports };
  const { exports } = await WebAssembly.instantiate(module, imports);
  glue.__wbg_set_wasm(guarded(exports, host));
  host.exports.__wbindgen_start!();
  for (const some of shared) share(some, host);
  glue.start(host);
  if (debug) glue.setDebug(debug);
  started.push({ glue, host });
  return { host, open: (lowPower, fallback) => glue.Device.open(lowPower, fallback) };
}

function forget(name: CoreName, entry: Loading): void {
  if (loading.get(name) === entry) loading.delete(name);
}

/** Why a core does not load, with what helps where that is known. */
function failure(name: CoreName, cause: unknown): WarpweftError {
  if (cause instanceof WarpweftError) return cause;
  const why = cause instanceof Error ? cause.message : String(cause);
  const policy = /content security policy|\bcsp\b|unsafe-eval/i.test(why);
  const remedy = policy ? "the page's Content-Security-Policy needs 'wasm-unsafe-eval' in its script-src; " : "";
  return new WarpweftError("NoDevice", `load: the ${name} core does not load: ${remedy}${why}`, { cause });
}

/** What kind of object something is, also if it is another realm's. */
const kind = (value: unknown) => Object.prototype.toString.call(value).slice("[object ".length, -1);

async function compile(given: WasmSource | PromiseLike<WasmSource>, signal: AbortSignal): Promise<WebAssembly.Module> {
  const source: unknown = await given;
  if (kind(source) === "WebAssembly.Module") return source as WebAssembly.Module;
  if (kind(source) === "Response") return compileResponse(source as Response);
  if (typeof source === "string" || kind(source) === "URL") return get(source as string | URL, signal);
  if (kind(source) === "ArrayBuffer" || ArrayBuffer.isView(source)) return WebAssembly.compile(source as BufferSource);
  throw refused("device", "wasm", "a URL, a Response, bytes or a WebAssembly.Module", source);
}

/** Node's modules, where there are any. Not imported: bundlers for pages would look for them. */
interface Node {
  process?: { getBuiltinModule?(name: "node:fs/promises"): { readFile(place: URL): Promise<BufferSource> } | undefined };
}

async function get(place: string | URL, signal: AbortSignal): Promise<WebAssembly.Module> {
  // Node's `fetch` refuses files.
  const files = /^file:/i.test(String(place)) && (globalThis as Node).process?.getBuiltinModule?.("node:fs/promises");
  if (files) return WebAssembly.compile(await files.readFile(new URL(place)));
  const response = await fetch(place, { signal }).catch((cause: unknown) => {
    throw new Error(`${place}: ${String(cause)}`, { cause });
  });
  return compileResponse(response);
}

async function compileResponse(response: Response): Promise<WebAssembly.Module> {
  const place = response.url || "the response";
  if (!response.ok) throw new Error(`${place}: ${response.status} ${response.statusText}`);
  const type = response.headers.get("content-type") ?? "no type";
  if (type === "application/wasm" && WebAssembly.compileStreaming !== undefined) return WebAssembly.compileStreaming(response);
  // Browsers compile while it arrives only what is said to be WebAssembly, and not every server says so.
  const bytes = new Uint8Array(await response.arrayBuffer());
  if (["\0", "a", "s", "m"].every((letter, at) => bytes[at] === letter.charCodeAt(0))) return WebAssembly.compile(bytes);
  const vite = place.includes("/node_modules/") ? '; with Vite 5 to 7 set `optimizeDeps: { exclude: ["warpweft"] }`' : "";
  const help = `copy the package's .wasm there, or say where it is (\`wasm\`)${vite}`;
  throw new Error(`${place} must be WebAssembly, got ${type}; ${help}`);
}
