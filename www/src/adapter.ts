// Adapters of language models. The core implements them, and this file converts training examples.

import type { Tensor } from "./classes.js";
import { argumentError } from "./errors.js";
import { checked, refused } from "./host.js";
import { isGone, Shown } from "./objects.js";

const isToken = (id: unknown) => Number.isInteger(id) && (id as number) >= 0 && (id as number) < 2 ** 32;

/** Returns the tokens of an example, and how many of them are read but not learned. */
function read(adapter: LoraAdapter, example: unknown): { prompt: number; own: ArrayLike<number> & Iterable<number> } {
  if (typeof example === "string" || Array.isArray(example)) {
    let text: string;
    try {
      text = typeof example === "string" ? example : JSON.stringify(example);
    } catch (cause) {
      throw argumentError(`loss: messages must be plain data, got ${String(cause)}`);
    }
    const [prompt, ...own] = adapter.exampleOf(text, typeof example !== "string");
    return { prompt: prompt!, own };
  }
  const { tokens, prompt = 0 } = checked("loss", example as Record<string, unknown>, ["tokens", "prompt"]);
  const isList = Array.isArray(tokens) || tokens instanceof Uint32Array;
  if (!isList || !Array.prototype.every.call(tokens, isToken)) {
    throw refused("loss", "an example", "a text, a list of messages or { tokens, prompt }", example);
  }
  if (!isToken(prompt)) throw refused("loss", "prompt", "a number of tokens", prompt);
  return { prompt: prompt as number, own: tokens as Uint32Array };
}

export class LoraAdapter extends Shown {
  declare exampleOf: (text: string, isChat: boolean) => Uint32Array;
  declare lossOf: (tokens: Uint32Array, lengths: Uint32Array, prompts: Uint32Array) => Tensor;

  loss(examples: unknown): Tensor {
    if (!Array.isArray(examples)) throw refused("loss", "examples", "a list of examples", examples);
    const [tokens, lengths, prompts]: [number[], number[], number[]] = [[], [], []];
    for (const example of examples as unknown[]) {
      const { prompt, own } = read(this, example);
      for (const id of own) tokens.push(id);
      lengths.push(own.length);
      prompts.push(prompt);
    }
    return this.lossOf(Uint32Array.from(tokens), Uint32Array.from(lengths), Uint32Array.from(prompts));
  }

  override toString(): string {
    return isGone(this) ? "LoraAdapter(disposed)" : "LoraAdapter";
  }
}
