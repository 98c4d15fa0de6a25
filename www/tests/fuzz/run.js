// Runs the fuzz in Node, on the CPU's core: `node www/tests/fuzz/run.js`. Environment variables set the time and the first
// seed:
//
//     WARPWEFT_FUZZ_SECONDS=3600 WARPWEFT_FUZZ_SEED=1000 WARPWEFT_FUZZ_MOST=10 node www/tests/fuzz/run.js
//     WARPWEFT_FUZZ_WITHOUT=call,move node www/tests/fuzz/run.js    # without some kinds of actions
//     WARPWEFT_FUZZ_LENGTH=300 node www/tests/fuzz/run.js           # longer programs, of 60 actions otherwise
//     WARPWEFT_FUZZ_DEVICES=gpu,cpu node www/tests/fuzz/run.js      # where Node has WebGPU
//
// A finding is shrunk and printed as a JavaScript program. The run ends with counts of the actions, and fails if there are
// findings.

import "./collect.js";
import { fuzz } from "./fuzz.js";
import { importCopy } from "../support/copy.js";

const number = (name, usual) => Number(process.env[`WARPWEFT_FUZZ_${name}`] ?? usual);

const dist = process.env.WARPWEFT_FUZZ_DIST;
const { programs, counts, findings } = await fuzz({
  load: (copy) => importCopy(copy, dist),
  prefers: (process.env.WARPWEFT_FUZZ_DEVICES ?? "cpu,cpu").split(","),
  seed: number("SEED", 1),
  seconds: number("SECONDS", 45),
  most: number("MOST", 1),
  shrinking: number("SHRINK", 30),
  options: { without: (process.env.WARPWEFT_FUZZ_WITHOUT ?? "").split(","), length: number("LENGTH", 60) },
  report: ({ seed, kind, message, text }) => console.log(`\nseed ${seed}: ${kind}: ${message}\n\n${text}\n`),
});
console.log(`fuzz in Node: ${programs} programs: ${JSON.stringify(counts)}`);
console.log(`${findings.length ? 0 : 1} passed, ${findings.length} failed`);
process.exit(findings.length ? 1 : 0);
