// What the layers of a transformer look at: the weights of their attention, which `attention` itself does not keep.

import { byId, make } from "./dom.js";

/**
 * @import { Device, Layer, Tensor } from "../dist/nn.js"
 * @import { Transformer } from "./transformer.js"
 */

/**
 * The attention of a layer that normalises first, and whose places look back alone. Gives the weights, `[batch, heads, length,
 * length]`: row i is how much place i looks at each; and what the heads find by them, `[batch, length, width]`, as `out_proj`
 * takes it.
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
 * How much one place of a text looks at each, by layer: `[heads, length]`.
 * @param {Device} device
 * @param {Transformer} net
 * @param {Int32Array} text the numbers of its characters, as many as the net sees.
 * @param {number} place
 * @param {number} heads
 */
export function attending(device, net, text, place, heads) {
  // A tensor, so that all places are one plan.
  const at = device.tensor(Int32Array.of(place));
  let x = net.embed(device.tensor(text, [1, text.length]));
  return net.layers.map((layer) => {
    const { weights } = attention(device, layer, x, heads);
    x = layer.forward(x, { causal: true });
    return weights.indexSelect(2, at).reshape([heads, text.length]);
  });
}

const percent = (/** @type {number} */ share) => `${(100 * share).toFixed(1)} %`;
/** A character that can be seen. @param {string} one */
const visible = (one) => (one === "\n" ? "↵" : one === "\t" ? "⇥" : one);
/** The same in a sentence. @param {string} one */
const quoted = (one) => ({ " ": "a space", "\n": "a line break", "\t": "a tab" })[one] ?? `“${one}”`;

/**
 * Shows it: a line for each layer and head, with the characters that were seen; the more it looked at one, the stronger is the
 * background.
 * @param {string[]} seen
 * @param {string | undefined} chosen what came next; undefined before anything did.
 * @param {Float32Array[]} layers what `attending` gave.
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
    // By the root: what is spread over many is to be seen, too.
    return make("span", { title: percent(shares[n]), style: `--share: ${Math.sqrt(shares[n]).toFixed(3)}` }, visible(one));
  });
  return make("div", { role: "img", "aria-label": label }, make("b", {}, name), make("code", {}, ...characters));
}
