// The fuzz in a page, which `www/tests/fuzz.mjs` opens: the package is at `/dist/`, and these files at `/fuzz/`.

import { fuzz } from "./fuzz.js";

/** Plays for some seconds, on two devices of the kinds that are preferred: `webgpu` is the GPU there is, a software one too. */
export async function run({ prefers, ...rest }) {
  const { Device } = await import("/dist/nn.js");
  const gpu = (await Device.isAvailable()) ? "gpu" : "software";
  const found = prefers.map((prefer) => (prefer === "webgpu" ? gpu : prefer));
  return fuzz({ load: (copy) => import(`/copy${copy}/nn.js`), prefers: found, ...rest });
}
