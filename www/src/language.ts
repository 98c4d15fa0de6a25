// Language models: Rust's own, with the files that JavaScript reads, and texts as iterators.

import { Device } from "./classes.js";
import { dataError } from "./errors.js";
import { checked, refused } from "./host.js";
import { Reader, type Progress } from "./model-files.js";
import { hostOf, isGone, Shown } from "./objects.js";
import type { PlatformSignal } from "./platform.js";

/** What the core has of the class that is not for users. */
interface Core {
  open(device: Device, reader: Reader, parts: number, options: object): Promise<LanguageModel>;
  need(device: Device, reader: Reader, parts: number, options: object): Promise<number[]>;
}

interface Token {
  readonly id: number;
  readonly text: string;
}

/** Options with those that JavaScript's side looks at. */
interface Loading {
  device?: Device;
  onProgress?: (bytes: Progress) => void;
  signal?: PlatformSignal;
  context?: unknown;
  cache?: unknown;
}

function checkSignal(op: string, signal: unknown): AbortSignal | undefined {
  if (signal === undefined) return undefined;
  if (typeof Object(signal).throwIfAborted !== "function") throw refused(op, "signal", "an AbortSignal", signal);
  return signal as AbortSignal;
}

/** Opens the files, lets the core do something with them, and closes them. */
async function reading<T>(
  op: string,
  source: unknown,
  given: Loading | undefined,
  work: (core: Core, device: Device, reader: Reader, options: object) => Promise<T>,
): Promise<T> {
  const known = ["device", "onProgress", "signal", "context", "cache"] as const;
  const { device: own, onProgress = () => {}, signal: stop, ...options } = checked(op, given, known);
  const signal = checkSignal(op, stop);
  if (typeof onProgress !== "function") throw refused(op, "onProgress", "a function", onProgress);
  signal?.throwIfAborted();
  const reader = await Reader.open(op, Array.isArray(source) ? source : [source], onProgress, signal);
  try {
    const device = own ?? (await Device.new());
    return await work(hostOf(device, op).classes.LanguageModel as Core, device, reader, options);
  } finally {
    await reader.close();
  }
}

const generate = [
  ...(["maxTokens", "temperature", "topK", "topP", "minP", "repetitionPenalty", "frequencyPenalty"] as const),
  ...(["presencePenalty", "logitBias", "seed", "stop", "likeliest", "ignoreEnd", "signal"] as const),
];

/** What ends a text between two tokens. */
const signals = new WeakMap<object, AbortSignal>();

function begun(model: LanguageModel, op: string, tokens: ArrayLike<number>, given: object | undefined): Generation {
  const { signal: stop, ...options } = checked(op, given as Record<string, unknown>, generate);
  const signal = checkSignal(op, stop);
  signal?.throwIfAborted();
  const generation = model.begin(tokens, options, op);
  if (signal) signals.set(generation, signal);
  return generation;
}

export class LanguageModel extends Shown {
  declare prompt: (text: string, isChat: boolean) => Uint32Array;
  declare begin: (tokens: ArrayLike<number>, options: object, op: string) => Generation;

  static load(source: unknown, options?: Loading): Promise<LanguageModel> {
    return reading("load", source, options, (core, device, reader, rest) => core.open(device, reader, reader.count, rest));
  }

  static estimate(source: unknown, options?: Loading): Promise<object> {
    return reading("estimate", source, options, async (core, device, reader, rest) => {
      const [weights, cache, temporaries, total] = await core.need(device, reader, reader.count, rest);
      return { weights, cache, temporaries, total };
    });
  }

  chat(messages: unknown, options?: object): Generation {
    if (!Array.isArray(messages)) throw refused("chat", "messages", "a list of messages", messages);
    let text: string;
    try {
      text = JSON.stringify(messages);
    } catch (cause) {
      throw dataError(`chat: messages must be plain data, got ${String(cause)}`);
    }
    return begun(this, "chat", this.prompt(text, true), options);
  }

  generate(prompt: unknown, options?: object): Generation {
    const tokens = typeof prompt === "string" ? this.prompt(prompt, false) : Object(prompt);
    const isList = Array.isArray(tokens) || tokens instanceof Uint32Array;
    const isId = (id: unknown) => Number.isInteger(id) && (id as number) >= 0 && (id as number) < 2 ** 32;
    if (!isList || !Array.prototype.every.call(tokens, isId)) {
      throw refused("generate", "prompt", "a text or a list of tokens", prompt);
    }
    return begun(this, "generate", Uint32Array.from(tokens as ArrayLike<number>), options);
  }

  override toString(): string {
    return isGone(this) ? "LanguageModel(disposed)" : "LanguageModel";
  }
}

export class Generation extends Shown {
  declare nextToken: () => Promise<Token | undefined>;

  async *tokens(): AsyncGenerator<Token, void, undefined> {
    for (;;) {
      signals.get(this)?.throwIfAborted();
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
