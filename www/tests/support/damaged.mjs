// Damaged wasm files, unpacked: run in a thread of its own, because what hangs must be seen.

import { readFileSync } from "node:fs";
import { Worker, isMainThread, parentPort, workerData } from "node:worker_threads";
import { unpack } from "../../src/packed.js";

/** Unpacks `count` damaged copies of a file. Gives how many gave bytes and how many an error; fails when one takes longer than
 * five seconds. */
export function unpackDamaged(file, count) {
  return new Promise((resolve, reject) => {
    const worker = new Worker(new URL(import.meta.url), { workerData: { file, count } });
    let last = "the file as it is";
    const hangs = () => worker.terminate().then(() => reject(new Error(`unpacking takes longer than 5 s: ${last}`)));
    let watch = setTimeout(hangs, 5000);
    worker.on("message", (message) => {
      clearTimeout(watch);
      if (typeof message !== "string") return resolve(message);
      last = message;
      watch = setTimeout(hangs, 5000);
    });
    worker.on("error", reject);
  });
}

/** The `n`-th damage: cut off, single bytes changed, or a stretch of noise. */
function damage(whole, n) {
  const bytes = Uint8Array.from(whole);
  const word = (k) => Math.imul(n * 31 + k + 1, 0x9e3779b1) >>> 4;
  // The header is a small part of the file, and most is decided there.
  const at = (k) => word(k) % (k % 2 ? bytes.length : 200);
  if (n % 3 === 0) return [`cut off after ${at(n)} bytes`, bytes.slice(0, at(n))];
  if (n % 3 === 1) {
    for (let k = 0; k <= n % 5; k++) bytes[at(k)] = word(k + 9) % 7 ? word(k + 7) : 255;
    return [`${1 + (n % 5)} bytes changed`, bytes];
  }
  return [`noise from ${at(n)} on`, bytes.map((byte, i) => (i >= at(n) && i < at(n) + 64 ? word(i) : byte))];
}

if (!isMainThread) {
  const { file, count } = workerData;
  const whole = new Uint8Array(readFileSync(file));
  const seen = { bytes: 0, refused: 0, largest: 0, whole: unpack(whole).length };
  for (let n = 0; n < count; n++) {
    const [what, bytes] = damage(whole, n);
    parentPort.postMessage(`damage ${n}: ${what}`);
    try {
      seen.largest = Math.max(seen.largest, unpack(bytes).length);
      seen.bytes += 1;
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      seen.refused += 1;
    }
  }
  parentPort.postMessage(seen);
}
