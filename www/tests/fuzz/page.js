// The fuzz in a page, which `www/tests/fuzz.mjs` opens. The package is at `/dist/`, and these files are at `/fuzz/`.

import { fuzz } from "./fuzz.js";

/** Plays for some seconds, on two devices of the preferred kinds. `webgpu` is any GPU, including a software GPU. */
export async function run({ prefers, ...rest }) {
  const { Device } = await import("/dist/nn.js");
  const gpu = (await Device.isAvailable()) ? "gpu" : "software";
  const found = prefers.map((prefer) => (prefer === "webgpu" ? gpu : prefer));
  return fuzz({ load: (copy) => import(`/copy${copy}/nn.js`), prefers: found, ...rest });
}
