// Loading of cores. A core's WebAssembly is fetched and compiled while it arrives, once for all devices.

import { adopt, type CoreClass } from "./brand.js";
import { sizeOf, sizes, type Size } from "./entry.js";
import { argumentError, WarpweftError } from "./errors.js";
import { guarded } from "./guard.js";
import { Host, refused } from "./host.js";
import type { PlatformResponse, PlatformUrl, WasmModule } from "./platform.js";

/** A running core. */
export interface Core {
  readonly host: Host;
  /** Opens the device of the core. */
  open(lowPower: boolean, fallback: string | undefined): Promise<object>;
}

/** The JavaScript that wasm-bindgen generates for a core: imports of WebAssembly, classes, and wrappers of exports. */
interface Glue {
  __wbg_set_wasm(exports: WebAssembly.Exports): void;
  start(host: Host): void;
  setDebug(words: string): void;
  Device: { open: Core["open"] };
}

/** The machine of a core: a GPU or the CPU. */
export type CoreName = "gpu" | "cpu";

/** The WebAssembly of a core: a URL, a server's response, bytes, or a compiled module. */
export type WasmSource = PlatformUrl | string | PlatformResponse | ArrayBuffer | ArrayBufferView | WasmModule;

/** The sources of the cores. Default: the files next to the package's JavaScript. */
export interface WasmSources {
  /**
   * The GPU core: `gpu.wasm`, or with layers or language models `gpu-nn.wasm` or `gpu-models.wasm`. Bundlers resolve these
   * files as `warpweft/gpu.wasm` and so on.
   */
  gpu?: WasmSource | PromiseLike<WasmSource>;
  /** The CPU core: `cpu.wasm`, or with language models `cpu-models.wasm`. */
  cpu?: WasmSource | PromiseLike<WasmSource>;
}

/** A core that an entry of the package provides. */
export interface Provided {
  /** The name of the core. */
  name: string;
  /** The JavaScript that wasm-bindgen generated for the core. */
  glue: object;
  /** Returns the URL of the WebAssembly, or its bytes. */
  wasm(): WasmSource;
  /** Whether `wasm` returns bytes. They are preferred, because the page's bundler may not have copied the files. */
  isInside?: boolean;
}

/** The registered cores of the page's imports, by name. */
const provided = new Map<string, Provided>();

/** Returns the position of a core in the order of sizes. */
const rank = (machine: CoreName, core: string) => sizes[machine].findIndex((size) => size.core === core);

/**
 * Registers the cores of an entry. The first device uses the largest registered core of its machine, so static imports work in
 * any order. A later import that needs a larger core throws.
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

/** Returns the largest registered core of a machine. */
const largest = (machine: CoreName) => [...sizes[machine]].reverse().find(({ core }) => provided.has(core))!;

/** Returns the default location of a core. */
function usual({ wasm }: Provided): WasmSource {
  let address: WasmSource;
  try {
    address = wasm();
  } catch (cause) {
    // A classic script that was bundled from modules may not know its URL.
    const help = `pass the URL of its .wasm file as the option \`wasm\` of Device.new(), or import "warpweft/inline"`;
    throw new Error(`this script must know its URL to find its .wasm file: ${help}`, { cause });
  }
  // The development server of Vite 5 to 7 copies modules, but not the files next to them.
  const { href } = address as URL;
  return href?.includes("/.vite/deps/") ? href.replace("/.vite/deps/", "/warpweft/www/dist/") : address;
}

/** A core that is loaded or being loaded. */
interface Loading {
  /** The size of the core among those of its machine. */
  readonly size: Size;
  readonly core: Promise<Core>;
  readonly stop: AbortController;
  waiting: number;
  /** Whether the code is fetched and compiled. */
  compiled: boolean;
}

const loading = new Map<CoreName, Loading>();

/** A requested core. */
export interface Asked {
  readonly core: Promise<Core>;
  /** Withdraws the request, once. If no other request waits for the core, the fetch is aborted. */
  drop(): void;
}

/** Loads a core, or returns the one that is loaded or being loaded. After a failure, the next call tries again. */
export function load(name: CoreName, sources: WasmSources = {}): Asked {
  const entry = loading.get(name) ?? begin(name, sources[name]);
  entry.waiting += 1;
  const drop = () => {
    entry.waiting -= 1;
    if (entry.waiting > 0 || entry.compiled) return;
    remove(name, entry);
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
    remove(name, entry);
    throw failure(name, cause);
  });
  core.catch(() => {}); // The callers that await it receive the error.
  const entry: Loading = { size, core, stop, waiting: 0, compiled: false };
  loading.set(name, entry);
  return entry;
}

/** The running cores, and the debug output that is enabled. */
const started: { glue: Glue; host: Host }[] = [];
let debug = "";

const debugWords = ["graph", "plan", "kernel", "time", "memory"];

/**
 * Sets the debug output of all devices, which is printed on the console. `words` is a list of these words, separated by commas,
 * or `""` for no output.
 *
 * - `"graph"`: the recorded operations of each batch, before it is planned.
 * - `"plan"`: the kernels of each planned batch.
 * - `"kernel"`: the source text of these kernels.
 * - `"time"`: after each read and each `synchronize`, the profile of everything that ran since the previous one.
 * - `"memory"`: prints nothing. {@link Device.memory} then reports where later tensors are made.
 *
 * ```ts
 * setDebug("plan,kernel");
 * ```
 */
export function setDebug(words: string): void {
  if (typeof words !== "string") throw refused("debug", "words", "a string", words);
  const odd = words.split(/[, |]/).find((word) => word && !debugWords.includes(word));
  if (odd !== undefined) throw argumentError(`debug: a word must be one of ${debugWords.join(", ")}, got \`${odd}\``);
  debug = words;
  for (const { glue } of started) glue.setDebug(debug);
}

/** Classes that all cores share, and a function that is called when a core starts. */
interface Shared {
  classes: Record<string, { prototype: object }>;
  prepare: ((host: Host) => void) | undefined;
}

const shared: Shared[] = [];

/** Connects the classes of a core to the public classes. */
function share({ classes, prepare }: Shared, host: Host): void {
  for (const [kind, root] of Object.entries(classes)) adopt(kind, host.classes[kind] as CoreClass, root, host);
  prepare?.(host);
}

/** Adds classes to all cores that run or will run. `classes.ts`, `nn-classes.ts` and `language.ts` define them. */
export function shareClasses(classes: Shared["classes"], prepare?: (host: Host) => void): void {
  const more = { classes, prepare };
  shared.push(more);
  for (const { host } of started) share(more, host);
}

/** Refuses WebAssembly that does not belong to the core's generated JavaScript. */
function needCore(module: WebAssembly.Module, wanted: Size): void {
  const found = sizeOf(new Set(WebAssembly.Module.exports(module).map(({ name }) => name)));
  if (found === wanted) return;
  const what = found ? `${found.core}.wasm` : "none of this package";
  const why = `${wanted.core}.wasm, because the page imports "${wanted.entry}"`;
  throw new Error(`the WebAssembly must be ${why}, got ${what}`);
}

/** Starts a core, and connects its classes to the public classes. */
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

function remove(name: CoreName, entry: Loading): void {
  if (loading.get(name) === entry) loading.delete(name);
}

/** Makes the error for a core that does not load, with a remedy if one is known. */
function failure(name: CoreName, cause: unknown): WarpweftError {
  if (cause instanceof WarpweftError) return cause;
  const why = cause instanceof Error ? cause.message : String(cause);
  const policy = /content security policy|\bcsp\b|unsafe-eval/i.test(why);
  const remedy = policy ? "the page's Content-Security-Policy needs 'wasm-unsafe-eval' in its script-src; " : "";
  return new WarpweftError("NoDevice", `load: the ${name} core does not load: ${remedy}${why}`, { cause });
}

/** Returns the class name of an object, also for objects of another realm. */
const kind = (value: unknown) => Object.prototype.toString.call(value).slice("[object ".length, -1);

async function compile(given: WasmSource | PromiseLike<WasmSource>, signal: AbortSignal): Promise<WebAssembly.Module> {
  const source: unknown = await given;
  if (kind(source) === "WebAssembly.Module") return source as WebAssembly.Module;
  if (kind(source) === "Response") return compileResponse(source as Response);
  if (typeof source === "string" || kind(source) === "URL") return get(source as string | URL, signal);
  if (kind(source) === "ArrayBuffer" || ArrayBuffer.isView(source)) return WebAssembly.compile(source as BufferSource);
  throw refused("device", "wasm", "a URL, a Response, bytes or a WebAssembly.Module", source);
}

/** Node's modules, if available. They are not imported, because bundlers for browsers would try to resolve them. */
interface Node {
  process?: { getBuiltinModule?(name: "node:fs/promises"): { readFile(address: URL): Promise<BufferSource> } | undefined };
}

async function get(address: string | URL, signal: AbortSignal): Promise<WebAssembly.Module> {
  // Node's `fetch` refuses file URLs.
  const files = /^file:/i.test(String(address)) && (globalThis as Node).process?.getBuiltinModule?.("node:fs/promises");
  if (files) return WebAssembly.compile(await files.readFile(new URL(address)));
  const response = await fetch(address, { signal }).catch((cause: unknown) => {
    throw new Error(`${address}: ${String(cause)}`, { cause });
  });
  return compileResponse(response);
}

async function compileResponse(response: Response): Promise<WebAssembly.Module> {
  const address = response.url || "the response";
  if (!response.ok) throw new Error(`${address}: ${response.status} ${response.statusText}`);
  const type = response.headers.get("content-type") ?? "no type";
  if (type === "application/wasm" && WebAssembly.compileStreaming !== undefined) return WebAssembly.compileStreaming(response);
  // Browsers compile a stream only if its content type is WebAssembly, and not every server sends that.
  const bytes = new Uint8Array(await response.arrayBuffer());
  if (["\0", "a", "s", "m"].every((letter, at) => bytes[at] === letter.charCodeAt(0))) return WebAssembly.compile(bytes);
  const vite = address.includes("/node_modules/") ? '; with Vite 5 to 7 set `optimizeDeps: { exclude: ["warpweft"] }`' : "";
  const help = `copy the package's .wasm there, or say where it is (\`wasm\`)${vite}`;
  throw new Error(`${address} must be WebAssembly, got ${type}; ${help}`);
}
