// The cases of `npm run bench -- --models`: the model, the device, the number of tokens, the peer, and the targets.

/**
 * A case. `context` is how many tokens the longest context has, in each library. `targets` has a number for each measure: how
 * many times as fast as the peer warpweft should be, or with `least` how many tokens it should make in a second.
 *
 * @typedef {{ name: string, kind: "language" | "encoder", model: string, device: "cpu" | "webgpu", peer: string, what: string,
 *   prompt?: number, context?: number, tokens?: number, texts?: number, targets: Record<string, number>, least?: boolean }} Case
 */

/** The measures of each kind of model, with their units and titles. */
export const measures = {
  language: { prompt: { unit: "tokens/s", title: "prompt" }, decode: { unit: "tokens/s", title: "decode" } },
  encoder: { call: { unit: "ms", title: "a call" } },
};

const titles = { cpu: "CPU", webgpu: "WebGPU" };

const language = (device, parameters) => ({
  ...{ name: `smollm2-${device}`, kind: "language", model: "SmolLM2-135M-Instruct.Q4_1.gguf", device, peer: "wllama" },
  ...{ what: `SmolLM2-135M Q4_1, ${titles[device]}, a prompt of ${parameters.prompt} tokens`, ...parameters },
});

const encoder = (device, texts, tokens) => ({
  ...{ name: `minilm-${device}-${texts}x${tokens}`, kind: "encoder", model: "all-MiniLM-L6-v2", device, peer: "transformers" },
  ...{ what: `all-MiniLM-L6-v2, ${titles[device]}, ${texts} x ${tokens} tokens`, texts, tokens, targets: { call: 1 } },
});

/** @type {Case[]} */
export const cases = [
  language("cpu", { prompt: 275, tokens: 32, context: 1024, targets: { prompt: 2, decode: 1.8 } }),
  language("webgpu", { prompt: 24, tokens: 32, context: 256, targets: { decode: 4 }, least: true }),
  ...["webgpu", "cpu"].flatMap((device) => [encoder(device, 1, 16), encoder(device, 8, 32)]),
];

/** A text that is longer than any prompt. */
export const story = `The weaver set up her loom before the sun rose over the valley. First she wound the long threads
around the beam, one next to the other, until three hundred of them lay straight and tight. These threads are the
warp. They carry the weight of the cloth, so they have to be strong, and a single weak fiber can spoil the work of a
whole week. Then she took the shuttle, a piece of smooth wood with a bobbin inside, and pushed it from the left to the
right between the raised and lowered threads. The thread that follows the shuttle is the weft. It may be soft, thick,
bright or rough, because nothing pulls on it as hard as the loom pulls on the warp. After each pass she beat the weft
against the finished cloth with a comb of thin reeds. Her grandfather had built the loom from oak and pear wood, and
he had cut small marks into the frame wherever a pattern should change. By noon she had reached the third mark. Her
daughter came in with bread, cheese and a jug of cold water, sat down on the bench and asked why the blue stripes were
wider than the red ones. The weaver laughed. Blue dye is cheap this year, she said, since the ships from the south
came early, but red has to be made from roots that grow for three years before anybody may dig them up. So whoever
wants a red coat must wait, or pay a great deal more. The girl looked at the loom for a while and counted the stripes
with her finger. Then she asked whether she could try the next row alone, without any help.`.replaceAll("\n", " ");

/** Words that are a token each for BERT's vocabulary. */
const vocabulary = `the old river runs slowly past a small white house near the forest where two children often play with
their dog and wait until the evening train comes home from the city again`.split(/\s+/);

/** Texts of `tokens` tokens, one of them at the beginning and one at the end. Each text is a rotation of the same words. */
export function textsOf({ texts, tokens }) {
  const words = Array.from({ length: tokens - 2 }, (_, i) => vocabulary[i % vocabulary.length]);
  return Array.from({ length: texts }, (_, n) => [...words.slice(n), ...words.slice(0, n)].join(" "));
}
