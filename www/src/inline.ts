// The entry `warpweft/inline`: `warpweft/nn` with embedded WebAssembly, for bundlers that do not copy other files.

import { provideNn } from "./gpu-nn.js";
import { cpu, gpu } from "./inside.js";

export * from "./base.js";
export * from "./nn-classes.js";
export type { FitOptions, Forward, TrainingData } from "./train.js";

const bytes = (text: string) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

provideNn("warpweft/inline", { gpu: () => bytes(gpu), cpu: () => bytes(cpu) }, { isInside: true });
