// Language models. The core implements them. This file opens model files and makes iterators of generations.

import type { Device } from "./classes.js";
import { argumentError } from "./errors.js";
import { checked, refused } from "./host.js";
import { canReopen, checkSignal, Reader, type Hasher, type Progress } from "./model-files.js";
import { canReopenFolder, filesIn, folderOf, isFolder, isList } from "./model-folder.js";
import { withFiles } from "./model-loading.js";
import { hostOf, isGone, Shown } from "./objects.js";
import type { PlatformSignal } from "./platform.js";
import { signals } from "./prepare-language.js";
import { jsonOf, tokensOf } from "./prompts.js";

export { LoraAdapter } from "./adapter.js";
export { Embedder } from "./embedder.js";
export { deleteModel, keptModels } from "./kept.js";

/** Opens the files of a model again. */
type Reopen = () => Promise<Reader>;

/** Internal functions of the core's class. */
interface Core {
  files(): string[];
  indexed(json: Uint8Array, file: string, op: string): string[];
  open(device: Device, reader: Reader, parts: number, names: Names, options: object, reopen?: Reopen): Promise<LanguageModel>;
  need(device: Device, reader: Reader, parts: number, names: Names, options: object): Promise<number[]>;
}

/** The names of the files in a folder, or undefined for the parts of a GGUF file. */
type Names = string[] | undefined;

interface Token {
  readonly id: number;
  readonly text: string;
}

/** The options of loading, including those that only JavaScript reads. */
interface Loading {
  device?: Device;
  onProgress?: (bytes: Progress) => void;
  signal?: PlatformSignal;
  keep?: boolean;
  sha256?: string | readonly string[];
  context?: unknown;
  cache?: unknown;
}

/** Checks the hashes, and returns the hash of each file in lower case. Undefined if there are none. */
function checkHashes(op: string, source: unknown, given: unknown): string[] | undefined {
  if (given === undefined) return undefined;
  const isHash = (hash: unknown) => typeof hash === "string" && /^[0-9a-f]{64}$/i.test(hash);
  const digits = "64 hexadecimal digits";
  if (!Array.isArray(source)) {
    if (!isHash(given)) throw refused(op, "sha256", digits, given);
    return [(given as string).toLowerCase()];
  }
  if (!Array.isArray(given)) throw refused(op, "sha256", "a list with the hash of each part", given);
  if (given.length !== source.length) {
    throw argumentError(`${op}: sha256 must have the hash of each of the ${source.length} parts, got ${given.length} hashes`);
  }
  const odd = given.findIndex((hash) => !isHash(hash));
  if (odd >= 0) throw refused(op, `sha256[${odd}]`, digits, given[odd]);
  return given.map((hash: string) => hash.toLowerCase());
}

/** Reads the bytes of a small file in a folder. */
async function bytesOf(op: string, file: unknown, name: string, signal: AbortSignal | undefined): Promise<Uint8Array> {
  const how = { op, onProgress: () => {}, signal, keep: false, isWhole: true };
  const reader = await Reader.open([file], how, [name]);
  try {
    return await reader.read(0, 0, await reader.length(0));
  } finally {
    await reader.close();
  }
}

/** Finds the files of a model in a folder. If there is an index, it names the files with the weights. */
async function filesOfFolder(
  op: string,
  core: Core,
  source: unknown,
  signal: AbortSignal | undefined,
): Promise<{ names: string[]; sources: unknown[] }> {
  const find = folderOf(op, source, signal);
  const isWeights = (name: string) => name.endsWith(".safetensors");
  const { names, files: sources } = await filesIn(find, core.files().filter((name) => !isWeights(name)));
  let weights = core.files().filter(isWeights);
  const index = names.findIndex((name) => name.endsWith(".index.json"));
  if (index >= 0) {
    const name = names[index]!;
    const bytes = await bytesOf(op, sources[index], name, signal);
    sources[index] = bytes;
    weights = core.indexed(bytes, name, op);
  }
  const found = await filesIn(find, weights);
  return { names: [...names, ...found.names], sources: [...sources, ...found.files] };
}

/** Opens the files, runs `work` with them, and closes them. */
async function reading<T>(
  op: "load" | "estimate",
  picked: unknown,
  given: Loading | undefined,
  work: (core: Core, device: Device, reader: Reader, names: Names, options: object, reopen?: Reopen) => Promise<T>,
): Promise<T> {
  const known = ["device", "onProgress", "signal", "context", "cache", "keep", "sha256"] as const;
  const { device, onProgress, signal, keep = false, sha256, ...options } = checked(op, given, known);
  if (typeof keep !== "boolean") throw refused(op, "keep", "a boolean", keep);
  // Checked here, because a wrong number must not cost a download.
  const { context } = options;
  const isLength = Number.isInteger(context) && (context as number) >= 1;
  if (!isLength && context !== undefined && context !== null) {
    throw refused(op, "context", "an integer of at least 1", context);
  }
  // A `FileList` is a list, too.
  const source: unknown = isList(picked) ? [...picked] : picked;
  const inFolder = await isFolder(source);
  if (inFolder && keep) throw refused(op, "the source", "the address of a GGUF file, because keep is set", source);
  if (inFolder && sha256 !== undefined) {
    throw refused(op, "the source", "a GGUF file, because sha256 is set", source);
  }
  const hashes = checkHashes(op, source, sha256);
  return withFiles(op, { device, onProgress, signal }, async (device, open, signal) => {
    const { classes } = hostOf(device, op);
    const core = classes.LanguageModel as Core;
    const find = async (signal: AbortSignal | undefined): Promise<{ names: Names; sources: unknown[] }> =>
      inFolder
        ? filesOfFolder(op, core, source, signal)
        : { names: undefined, sources: Array.isArray(source) ? source : [source] };
    const { names, sources } = await find(signal);
    const hasher = () => new (classes.Sha256 as new () => Hasher)();
    const how = { keep, isWhole: op === "load", check: hashes && { hashes, hasher } };
    const reader = await open(sources, how, names);
    // A signal aborts only the first loading.
    const reopen = async () => {
      const { names, sources } = await find(undefined);
      return Reader.open(sources, { op, onProgress: onProgress ?? (() => {}), signal: undefined, ...how }, names);
    };
    const isReopened = inFolder ? canReopenFolder(source) : sources.every(canReopen);
    return work(core, device, reader, names, options, isReopened ? reopen : undefined);
  });
}

const generate = [
  ...(["maxTokens", "temperature", "topK", "topP", "minP", "repetitionPenalty", "frequencyPenalty"] as const),
  ...(["presencePenalty", "logitBias", "seed", "stop", "likeliest", "ignoreEnd", "signal"] as const),
];

/** Models by their generations. The garbage collector frees a model only after its last generation. */
const models = new WeakMap<object, LanguageModel>();

function begun(model: LanguageModel, op: string, tokens: ArrayLike<number>, given: object | undefined): Generation {
  const { signal: stop, ...options } = checked(op, given as Record<string, unknown>, generate);
  const signal = checkSignal(op, stop);
  signal?.throwIfAborted();
  const generation = model.begin(tokens, options, op);
  if (signal) signals.set(generation, signal);
  models.set(generation, model);
  return generation;
}

export class LanguageModel extends Shown {
  declare prompt: (text: string, isChat: boolean) => Uint32Array;
  declare decode: (tokens: unknown) => string;
  declare begin: (tokens: ArrayLike<number>, options: object, op: string) => Generation;

  static load(source: unknown, options?: Loading): Promise<LanguageModel> {
    return reading("load", source, options, (core, device, reader, names, rest, reopen) =>
      core.open(device, reader, reader.count, names, rest, reopen),
    );
  }

  static estimate(source: unknown, options?: Loading): Promise<object> {
    return reading("estimate", source, options, async (core, device, reader, names, rest) => {
      const [weights, cache, temporaries, total] = await core.need(device, reader, reader.count, names, rest);
      return { weights, cache, temporaries, total };
    });
  }

  chat(messages: unknown, options?: object): Generation {
    if (!Array.isArray(messages)) throw refused("chat", "messages", "a list of messages", messages);
    return begun(this, "chat", this.prompt(jsonOf("chat", messages), true), options);
  }

  generate(prompt: unknown, options?: object): Generation {
    const tokens = typeof prompt === "string" ? this.prompt(prompt, false) : tokensOf(prompt);
    if (tokens === undefined) throw refused("generate", "prompt", "a text or a list of tokens", prompt);
    return begun(this, "generate", tokens, options);
  }

  override toString(): string {
    return isGone(this) ? "LanguageModel(disposed)" : "LanguageModel";
  }
}

export class Generation extends Shown {
  declare nextToken: () => Promise<Token | undefined>;
  declare readonly finish: string | undefined;

  async *tokens(): AsyncGenerator<Token, void, undefined> {
    for (;;) {
      const token = await this.nextToken();
      if (token === undefined) return;
      yield token;
    }
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<string, void, undefined> {
    for await (const { text } of this.tokens()) if (text) yield text;
  }

  async text(): Promise<string> {
    let all = "";
    for await (const piece of this) all += piece;
    return all;
  }

  override toString(): string {
    return isGone(this) ? "Generation(disposed)" : "Generation";
  }
}
