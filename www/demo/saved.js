// Weights files of a net: the page's own file, files that are saved here, and any other.

import { failed, showNotice, standing } from "./device.js";
import { byId, make } from "./dom.js";

/**
 * @import { Device } from "../dist/nn.js"
 * @import { Loop } from "./loop.js"
 */

/**
 * Connects the buttons of `files.js`. Each action runs in a separate turn.
 * @param {string} name of the page's file, and of saved files.
 * @param {Loop} loop
 * @param {Device} device
 * @param {{ save: () => Promise<Uint8Array>, load: (source: Blob | Response) => Promise<void> }} net `save` returns the
 * bytes of a file, and `load` continues with the weights of one.
 */
export function connectFiles(name, loop, device, net) {
  const load = (/** @type {Blob | Response} */ source) => {
    // A file that cannot be read does not stop the training.
    const work = () => net.load(source).then(() => showNotice(standing(device)), failed);
    return loop.turn(work);
  };
  byId("trained", HTMLButtonElement).addEventListener("click", () => void fetch(name).then(load).catch(failed));
  byId("save", HTMLButtonElement).addEventListener("click", () => void loop.turn(async () => hand(name, await net.save())));
  const file = byId("file", HTMLInputElement);
  file.addEventListener("change", () => {
    const chosen = file.files?.[0];
    file.value = ""; // The same file can be chosen again.
    if (chosen) void load(chosen);
  });
}

/**
 * Downloads bytes as a file.
 * @param {string} name
 * @param {Uint8Array} bytes
 */
function hand(name, bytes) {
  const url = URL.createObjectURL(new Blob([/** @type {BlobPart} */ (bytes)]));
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
