// Vite needs two words about warpweft: workers that load it are modules, and it is not to be bundled in advance,
// because it finds its WebAssembly beside itself.

import { defineConfig } from "vite";

export default defineConfig({
  worker: { format: "es" },
  optimizeDeps: { exclude: ["warpweft"] },
});
