// The attention weights of a transformer's layers. `attention` does not return them, so they are computed again here.

import { byId, make } from "./dom.js";

/**
 * @import { Device, Layer, Tensor } from "../dist/nn.js"
 * @import { Transformer } from "./transformer.js"
 */

/**
 * Computes the causal self-attention of a layer that normalizes first. Returns the weights, `[batch, heads, length, length]`,
 * in which row i has the weights of position i. Also returns the output of the heads, `[batch, length, width]`, which is the
 * input of `out_proj`.
 * @param {Device} device
 * @param {Layer} layer
 * @param {Tensor} x `[batch, length, width]`.
 * @param {number} heads
 */
export function attention(device, layer, x, heads) {
  const value = (/** @type {string} */ name) => layer.parameter(name).value;
  const [batch, length, width] = x.shape;
  const normal = x.layerNorm({ axes: -1, weight: value("norm1.weight"), bias: value("norm1.bias") });
  const projected = normal.matmul(value("self_attn.in_proj_weight").transpose()).add(value("self_attn.in_proj_bias"));
  const split = (/** @type {Tensor} */ part) => part.reshape([batch, length, heads, width / heads]).permute([0, 2, 1, 3]);
  const [q, k, v] = projected.chunk(3, -1).map(split);
  const scores = q.matmul(k.transpose()).div(Math.sqrt(width / heads));
  const [row, column] = [device.iota([length, length], 0), device.iota([length, length], 1)];
  const weights = row.ge(column).where(scores, -1e9).softmax();
  return { weights, found: weights.matmul(v).permute([0, 2, 1, 3]).reshape([batch, length, width]) };
}

/**
 * Returns the attention weights of one position of a text, `[heads, length]` for each layer.
 * @param {Device} device
 * @param {Transformer} net
 * @param {Int32Array} text the numbers of its characters, as many as the net's context has.
 * @param {number} position
 * @param {number} heads
 */
export function attending(device, net, text, position, heads) {
  // The position is a tensor, so that all positions share one plan.
  const at = device.tensor(Int32Array.of(position));
  let x = net.embed(device.tensor(text, [1, text.length]));
  return net.layers.map((layer) => {
    const { weights } = attention(device, layer, x, heads);
    x = layer.forward(x, { isCausal: true });
    return weights.indexSelect(2, at).reshape([heads, text.length]);
  });
}

const percent = (/** @type {number} */ share) => `${(100 * share).toFixed(1)} %`;
/** A visible form of a character. @param {string} one */
const visible = (one) => (one === "\n" ? "↵" : one === "\t" ? "⇥" : one);
/** The name of a character in a sentence. @param {string} one */
const quoted = (one) => ({ " ": "a space", "\n": "a line break", "\t": "a tab" })[one] ?? `“${one}”`;

/**
 * Shows the weights: a line for each layer and head, with the characters that were seen. A larger weight has a stronger
 * background.
 * @param {string[]} seen
 * @param {string | undefined} chosen the next character, or undefined at the beginning.
 * @param {Float32Array[]} layers the result of `attending`.
 * @param {number} heads
 */
export function showAttending(seen, chosen, layers, heads) {
  byId("chosen", HTMLElement).textContent =
    chosen === undefined ? "No character has been generated yet." : `${quoted(chosen)} was generated after these characters.`;
  const lines = layers.flatMap((weights, layer) => {
    const length = weights.length / heads;
    return Array.from({ length: heads }, (_, head) => {
      const shares = weights.subarray(head * length, head * length + seen.length);
      return line(`Layer ${layer + 1}, head ${head + 1}`, seen, shares);
    });
  });
  byId("attending", HTMLElement).replaceChildren(...lines);
}

/**
 * @param {string} name
 * @param {string[]} seen
 * @param {Float32Array} shares
 */
function line(name, seen, shares) {
  const most = shares.indexOf(Math.max(...shares));
  const back = seen.length - most;
  const where = back === 1 ? "the last character" : `${back} characters back`;
  const label = `${name}: most, ${percent(shares[most])}, at ${quoted(seen[most])}, ${where}`;
  const characters = seen.map((one, n) => {
    // The square root makes small weights visible, too.
    return make("span", { title: percent(shares[n]), style: `--share: ${Math.sqrt(shares[n]).toFixed(3)}` }, visible(one));
  });
  return make("div", { role: "img", "aria-label": label }, make("b", {}, name), make("code", {}, ...characters));
}
