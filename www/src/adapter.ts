// Adapters of language models. The core implements them, and this file converts training examples.

import type { Tensor } from "./classes.js";
import { checked, refused } from "./host.js";
import { isGone, Shown } from "./objects.js";
import { isToken, jsonOf, tokensOf } from "./prompts.js";

/** Returns the tokens of an example, and how many of them are read but not learned. */
function read(adapter: LoraAdapter, example: unknown): { prompt: number; own: ArrayLike<number> & Iterable<number> } {
  if (typeof example === "string" || Array.isArray(example)) {
    const text = typeof example === "string" ? example : jsonOf("loss", example);
    const [prompt, ...own] = adapter.exampleOf(text, typeof example !== "string");
    return { prompt: prompt!, own };
  }
  const { tokens, prompt = 0 } = checked("loss", example as Record<string, unknown>, ["tokens", "prompt"]);
  const own = tokensOf(tokens);
  if (own === undefined) throw refused("loss", "an example", "a text, a list of messages or { tokens, prompt }", example);
  if (!isToken(prompt)) throw refused("loss", "prompt", "a number of tokens", prompt);
  return { prompt, own };
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
