// The demo's attention block over the words of a sentence.
//
// `native/src/cli/demo/attention.rs` has the same block. The weights are random, so the pattern has no linguistic meaning. Queries
// and keys are similar, so words attend to themselves, to their repetitions and to nearby words.

import { hash } from "./picture.js";

/** @import { Device, Program, Tensor } from "../dist/nn.js" */

/** The sentence of the fixed workload. */
export const sentence = "the boat sails on the lake because the wind moves the boat";
export const heads = 4;

const model = 64;
const head = model / heads;
const vocabulary = 256;
const most = 20;

/**
 * Returns the sentence's words, at most twenty.
 * @param {string} sentence
 */
export const split = (sentence) => sentence.split(/\s+/u).filter(Boolean).slice(0, most);

/**
 * Returns the rows of the words in the table of embeddings.
 * @param {string[]} words
 */
export const numbers = (words) => Uint32Array.from(words, (word) => hash(new TextEncoder().encode(word)) % vocabulary);

/**
 * Compiles a program from the numbers of `count` words, `u32 [count]`. Its results are the attention weights
 * `[heads, count, count]`, their product with the values `[1, heads, count, head size]`, and the same product computed by
 * `attention`.
 *
 * Intermediate tensors of the closure hold no data, so they are left to the garbage collector.
 * @param {Device} device
 * @param {number} count
 * @param {boolean} causal
 * @returns {Program}
 */
export function program(device, count, causal) {
  const deviation = 1 / Math.sqrt(model);
  /** @param {number} seed */
  const weight = (seed) => device.normal([model, model], { std: deviation, seed });
  const table = device.normal([vocabulary, model], { seed: 1 });
  const [query, own, value] = [weight(2), weight(3), weight(4)];
  const key = query.mul(0.9).add(own.mul(0.4));
  const batch = device.batch();
  for (const tensor of [table, query, key, value]) batch.add(tensor);
  batch.run();
  const compiled = device.compile([{ shape: [count], dtype: "u32" }], (words) => {
    const x = table.indexSelect(0, words).add(positions(device, count));
    /** @param {Tensor} weight */
    const split = (weight) => x.matmul(weight).reshape([1, count, heads, head]).permute([0, 2, 1, 3]);
    const [q, k, v] = [split(query), split(key), split(value)];
    /** @type {Tensor} */
    let scores = q.matmul(k.transpose()).mul(1 / Math.sqrt(head));
    if (causal) {
      const [row, column] = [device.iota([count, count], 0), device.iota([count, count], 1)];
      scores = row.ge(column).where(scores, -1e9);
    }
    const weights = scores.softmax();
    return [weights.reshape([heads, count, count]), weights.matmul(v), q.attention(k, v, { isCausal: causal })];
  });
  for (const tensor of [table, query, own, value, key]) tensor.dispose();
  return compiled;
}

/**
 * Returns sines and cosines of the position at falling frequencies (Vaswani et al. 2017), `[count, model]`.
 * @param {Device} device
 * @param {number} count
 */
function positions(device, count) {
  const column = device.iota([count, model], 1);
  const odd = column.fmod(2);
  const exponent = column.sub(odd).cast("f32").mul(-Math.log(1e4) / model);
  const angle = device.iota([count, model], 0).cast("f32").mul(exponent.exp());
  return odd.eq(0).where(angle.sin(), angle.cos());
}
